//===- Products.h - Matrix products by cuBLASLt -----------------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_PRODUCTS_H
#define HEDDLE_RT_BACKENDS_CUDA_PRODUCTS_H

#include "backends/cuda/driver/RankStreams.h"
#include "backends/cuda/products/ProductChoices.h"
#include "heddle_rt/abi.h"

#include <compare>
#include <map>
#include <memory>
#include <optional>

namespace heddle::runtime::cuda {

/// The products of one rank. cuBLASLt takes matrices to be column-major, so C =
/// A B is given to it as C^T = B^T A^T: the same bytes.
class ProductLibrary {
public:
  explicit ProductLibrary(RankStreams &device) : device(device) {}
  ~ProductLibrary();

  /// The memory of a product. `extra` is that of heddle_rt_fused_matmul.
  struct Operands {
    const void *a, *b;
    void *c;
    const void *bias;
    void *extra = nullptr;
    std::optional<heddle_rt_epilogue> epilogue = std::nullopt;
  };

  /// Issues a product. The first call of a descriptor chooses an algorithm: the
  /// one of `choices`, or else the fastest of those that the library proposes.
  Status run(int32_t stream, const heddle_rt_matmul_desc &desc,
             Operands operands);

  /// Tells the products of a program, a list that ends with null; null: they
  /// are not known.
  void expect(const heddle_rt_matmul_desc *const *list);
  /// The bytes of cuBLASLt's workspace, and of scratch for sums, that the
  /// expected products need on one stream. Compiled programs compute products
  /// on one stream.
  size_t workspaceBytes() const {
    return expectsProducts ? kWorkspaceBytes : 0;
  }
  size_t sumBytes() const { return expectedSumBytes; }

  /// Set before the first product.
  std::shared_ptr<ProductChoices> choices;

  /// The bytes of workspace for each stream that computes products.
  static constexpr size_t kWorkspaceBytes = size_t(32) << 20;

private:
  enum class Kind {
    Plain,
    Bias, ///< cuBLASLt adds the bias
    Sum,  ///< to scratch: f32 [m, n] without gaps
    // heddle_rt_epilogue:
    Gelu,
    GeluOfBias,
    GeluGrad,
    ASums,
    BSums
  };
  /// cuBLASLt's descriptors of a product, and its algorithm.
  struct Prepared {
    blas::MatmulDesc operation = nullptr;
    blas::Layout left = nullptr, right = nullptr, result = nullptr;
    blas::Algorithm algorithm{};
    size_t workspaceBytes = kWorkspaceBytes;
    int batchLoop = -1; ///< the loop that is cuBLASLt's batch; -1: none
    Kind kind = Kind::Plain;
    /// cuBLASLt has no algorithm with the epilogue: this is the plain product,
    /// and kernels of the library follow.
    bool isApart = false;
    void destroy(const blas::CublasLt &functions);
  };
  /// The descriptor and the alignments of all operands in bytes.
  struct Key {
    const heddle_rt_matmul_desc *desc;
    Kind kind;
    uint32_t a, b, c, bias, extra;
    auto operator<=>(const Key &) const = default;
  };
  /// One call of cuBLASLt: an iteration of all loops except the batch loop.
  struct Call {
    const void *a, *b;
    void *c;
    const void *bias; ///< that cuBLASLt adds, or null
    Kind kind;
    bool accumulates;
    void *extra = nullptr; ///< of the epilogue, or null
  };

  static Kind kindOf(const Operands &operands);
  static uint32_t epilogueOf(Kind kind);
  /// Whether cuBLASLt reads or writes gelu's input.
  static bool usesAux(Kind kind);
  Expected<const Prepared *>
  prepare(int32_t stream, const heddle_rt_matmul_desc &desc, const Call &call);
  Status describe(const heddle_rt_matmul_desc &desc, Prepared &prepared);
  /// Sets the addresses of the bias and of the epilogue's memory.
  Status setPointers(const Prepared &prepared, const Call &call);
  /// Makes the descriptors of a kind of product and chooses an algorithm.
  /// Returns false if there is none.
  Expected<bool> make(int32_t stream, const Key &key, const Call &call,
                      Kind kind, Prepared &prepared);
  /// Asks cuBLASLt for the algorithms that it deems best, the best first.
  Expected<std::vector<blas::HeuristicResult>> propose(const Key &key,
                                                       const Prepared &product);
  /// Returns false if there is no algorithm.
  Expected<bool> choose(int32_t stream, const Key &key, const Call &call,
                        Prepared &prepared);
  /// Measures some algorithms and sets the fastest.
  Expected<ProductChoices::Choice>
  measure(int32_t stream, const Call &call, Prepared &product,
          const std::vector<blas::HeuristicResult> &proposed, size_t bytesOfC);
  Status multiply(int32_t stream, const Prepared &product, const Call &call);
  Status issue(int32_t stream, const heddle_rt_matmul_desc &desc,
               const Call &call);
  /// Computes the epilogue of a plain product.
  Status finishApart(int32_t stream, const heddle_rt_matmul_desc &desc,
                     const Call &call, int batchLoop);
  Status finishSum(int32_t stream, const heddle_rt_matmul_desc &desc,
                   Address sum, void *c, const void *bias);
  Status addBias(int32_t stream, const heddle_rt_matmul_desc &desc, void *c,
                 const void *bias);
  Expected<Address> scratchOf(int32_t stream, size_t bytes);

  RankStreams &device;
  const Card::Products *library = nullptr;
  bool expectsProducts = false;
  size_t expectedSumBytes = 0;
  std::map<Key, Prepared> prepared;
  std::map<int32_t, Address> workspaces;                 ///< by stream
  std::map<int32_t, std::pair<Address, size_t>> scratch; ///< by stream
};

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_PRODUCTS_H
