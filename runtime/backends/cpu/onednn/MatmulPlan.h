//===- MatmulPlan.h - How one product is cut into oneDNN calls --*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CPU_ONEDNN_MATMULPLAN_H
#define HEDDLE_RT_BACKENDS_CPU_ONEDNN_MATMULPLAN_H

#include "heddle_rt/abi.h"
#include "heddle_rt/status.h"

#include <dnnl.hpp>

#include <cstddef>
#include <vector>

namespace heddle::runtime {

/// One core's buffers and oneDNN stream.
struct MatmulWorker {
  explicit MatmulWorker(const dnnl::engine &engine) : stream(engine) {}
  dnnl::stream stream;
  std::vector<std::byte> scratchpad; ///< memory that oneDNN asks for
  std::vector<std::byte> packed;     ///< a tile of B in oneDNN's own format
  std::vector<float> a, b, c, bias;  ///< copied tiles, in f32
};

/// oneDNN's primitive for tiles of one shape.
struct MatmulKernel {
  int64_t m, n, k;
  bool sum, bias; ///< adds to C; adds the bias
  dnnl::matmul primitive;
  size_t scratchpadBytes;
  /// Reorders B into the format of `packed`; empty if B is read in place.
  dnnl::reorder pack = {};
  size_t packedBytes = 0;
  /// One set of operands for each worker. Each call sets their pointers.
  struct Operands {
    dnnl::memory a, b, c, bias, scratchpad, packed;
  };
  std::vector<Operands> operands = {};
};

/// Decides if tiles of B are first reordered into oneDNN's own format.
/// `Automatic` reorders them if bf16 is multiplied by AMX. The environment
/// variable HEDDLE_RT_MATMUL ("packed" or "plain") overrides this, for
/// measurements and tests.
enum class MatmulPacking { Automatic, Always, Never };
MatmulPacking matmulPackingFromEnvironment();

/// A product cut into tiles. The descriptor and the machine alone determine the
/// tiles.
class MatmulPlan {
public:
  static Expected<MatmulPlan> make(const heddle_rt_matmul_desc &desc,
                                   const dnnl::engine &engine, int workers,
                                   MatmulPacking packing);

  /// Returns the number of tasks. A task computes one tile of C.
  int64_t tasks() const { return outerIterations * mTiles * nTiles; }
  void runTask(int64_t task, int workerIndex, MatmulWorker &worker,
               const void *a, const void *b, void *c, const void *bias) const;
  /// Enlarges a worker's buffers to the sizes that this plan needs.
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
  /// Tells a sanitizer which bytes oneDNN will read and write.
  void noteOperands(const MatmulKernel &kernel, const void *a, const void *b,
                    void *c, const void *bias) const;
  void finishTile(MatmulWorker &worker, void *c, int64_t m, int64_t n) const;

  std::vector<heddle_rt_matmul_loop> outer, sums;
  std::vector<int64_t> outerBiasStrides;
  int64_t outerIterations = 1, sumIterations = 1;
  int64_t mTile = 0, nTile = 0, kTile = 0;
  int64_t mTiles = 0, nTiles = 0, kTiles = 0;
  bool convert = false; ///< operands are converted to f32 first
  /// Tiles of A or of B are copied, converted or not, before they are
  /// multiplied.
  bool copiesA = false, copiesB = false;
  bool packs = false;     ///< tiles of B are packed for each tile of C
  bool separateC = false; ///< tiles are summed in f32 beside C, then rounded
  std::vector<MatmulKernel> kernels;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_ONEDNN_MATMULPLAN_H
