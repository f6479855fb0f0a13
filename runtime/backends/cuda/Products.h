//===- Products.h - Matrix products by cuBLASLt -----------------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_PRODUCTS_H
#define HEDDLE_RT_BACKENDS_CUDA_PRODUCTS_H

#include "backends/cuda/Card.h"
#include "heddle_rt/abi.h"

#include <map>
#include <memory>
#include <tuple>

namespace heddle::runtime::cuda {

class CudaDevice;

/// The products of one rank. cuBLASLt computes with columns first, so C = A B
/// is given to it as C^T = B^T A^T: the same bytes.
class ProductLibrary {
public:
  explicit ProductLibrary(CudaDevice &device) : device(device) {}
  ~ProductLibrary();

  /// Issues a product. The first call of a descriptor chooses an algorithm.
  Status run(int32_t stream, const heddle_rt_matmul_desc &desc, const void *a,
             const void *b, void *c, const void *bias);

  /// The bytes of workspace for each stream that computes products.
  static constexpr size_t kWorkspaceBytes = size_t(32) << 20;

private:
  enum class Kind {
    Plain,
    Bias, ///< cuBLASLt adds the bias
    Sum   ///< to scratch: f32 [m, n] without gaps
  };
  /// cuBLASLt's descriptors of a product, and its algorithm.
  struct Prepared {
    blas::MatmulDesc operation = nullptr;
    blas::Layout left = nullptr, right = nullptr, result = nullptr;
    blas::Algorithm algorithm{};
    int batchLoop = -1; ///< the loop that is cuBLASLt's batch; -1: none
    Kind kind = Kind::Plain;
    void destroy(const blas::CublasLt &functions);
  };
  /// The descriptor, and the alignments of a, b and c in bytes.
  using Key = std::tuple<const heddle_rt_matmul_desc *, uint32_t, uint32_t,
                         uint32_t, Kind>;
  /// A product of all loops but the batch's: one call of cuBLASLt.
  struct Call {
    const void *a, *b;
    void *c;
    const void *bias; ///< that cuBLASLt adds, or null
    Kind kind;
    bool accumulates;
  };

  Expected<const Prepared *> prepare(const Key &key);
  Status describe(const heddle_rt_matmul_desc &desc, Prepared &prepared);
  Status choose(const Key &key, Prepared &prepared);
  Status issue(int32_t stream, const heddle_rt_matmul_desc &desc,
               const Call &call);
  Status finishSum(int32_t stream, const heddle_rt_matmul_desc &desc,
                   Address sum, void *c, const void *bias);
  Status addBias(int32_t stream, const heddle_rt_matmul_desc &desc, void *c,
                 const void *bias);
  Expected<Address> scratchOf(int32_t stream, size_t bytes);

  CudaDevice &device;
  const Card::Products *library = nullptr;
  std::map<Key, Prepared> prepared;
  std::map<int32_t, Address> workspaces;                 ///< by stream
  std::map<int32_t, std::pair<Address, size_t>> scratch; ///< by stream
};

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_PRODUCTS_H
