//===- MatmulPlan.h - How one product is cut into oneDNN calls --*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CPU_KERNELS_MATMULPLAN_H
#define HEDDLE_RT_BACKENDS_CPU_KERNELS_MATMULPLAN_H

#include "heddle_rt/abi.h"
#include "heddle_rt/status.h"

#include <dnnl.hpp>

#include <cstddef>
#include <vector>

namespace heddle::runtime {

/// The buffers and the oneDNN stream of one core.
struct MatmulWorker {
  explicit MatmulWorker(const dnnl::engine &engine) : stream(engine) {}
  dnnl::stream stream;
  std::vector<std::byte> scratchpad; ///< oneDNN's
  std::vector<std::byte> packed;     ///< a tile of B in oneDNN's own format
  std::vector<float> a, b, c, bias;  ///< a tile in f32, where converted
};

/// oneDNN's primitive for one shape of tile.
struct MatmulKernel {
  int64_t m, n, k;
  bool sum, bias; ///< adds to C; adds the bias
  dnnl::matmul primitive;
  size_t scratchpadBytes;
  /// Reorders B into the format of `packed`; empty if B is read in place.
  dnnl::reorder pack = {};
  size_t packedBytes = 0;
  /// One set for each worker. Pointers are set at each call.
  struct Operands {
    dnnl::memory a, b, c, bias, scratchpad, packed;
  };
  std::vector<Operands> operands = {};
};

/// Whether tiles of B are first reordered into oneDNN's own format. `Automatic`
/// does so where AMX multiplies bf16. The environment variable HEDDLE_RT_MATMUL
/// ("packed" or "plain") overrides that, for measurements and tests.
enum class MatmulPacking { Automatic, Always, Never };
MatmulPacking matmulPackingFromEnvironment();

/// A product cut into tiles, which depend on the descriptor and machine alone.
class MatmulPlan {
public:
  static Expected<MatmulPlan> make(const heddle_rt_matmul_desc &desc,
                                   const dnnl::engine &engine, int workers,
                                   MatmulPacking packing);

  /// The number of independent tiles; each is a task.
  int64_t tasks() const { return outerIterations * mTiles * nTiles; }
  void runTask(int64_t task, int workerIndex, MatmulWorker &worker,
               const void *a, const void *b, void *c, const void *bias) const;
  /// Enlarges a worker's buffers to what this plan needs.
  void reserve(MatmulWorker &worker) const;

  heddle_rt_matmul_desc desc;

private:
  explicit MatmulPlan(const heddle_rt_matmul_desc &desc) : desc(desc) {}
  void chooseTiles();
  void prepare(const dnnl::engine &engine, int64_t m, int64_t n, int64_t k,
               bool sum, bool bias, int workers);
  const MatmulKernel &kernel(int64_t m, int64_t n, int64_t k, bool sum,
                             bool bias) const;
  void execute(const MatmulKernel &kernel, int workerIndex,
               MatmulWorker &worker, const void *a, const void *b, void *c,
               const void *bias) const;
  /// Tells a sanitizer what oneDNN is about to read and write.
  void noteOperands(const MatmulKernel &kernel, const void *a, const void *b,
                    void *c, const void *bias) const;
  void finishTile(MatmulWorker &worker, void *c, int64_t m, int64_t n) const;

  std::vector<heddle_rt_matmul_loop> outer, sums;
  std::vector<int64_t> outerBiasStrides;
  int64_t outerIterations = 1, sumIterations = 1;
  int64_t mTile = 0, nTile = 0, kTile = 0;
  int64_t mTiles = 0, nTiles = 0, kTiles = 0;
  bool convert = false;   ///< operands are converted to f32 first
  bool packs = false;     ///< tiles of B are packed for each tile of C
  bool separateC = false; ///< tiles are summed in f32 beside C, then rounded
  std::vector<MatmulKernel> kernels;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_KERNELS_MATMULPLAN_H
