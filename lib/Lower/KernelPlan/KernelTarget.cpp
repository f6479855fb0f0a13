//===- KernelTarget.cpp - The numbers that suit a machine -----------------===//

#include "KernelTarget.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/IR/BuiltinOps.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

KernelTarget KernelTarget::gpu() {
  // The numbers of blocks suit a GPU of 100 to 132 multiprocessors, each of
  // which needs four or more blocks to hide latency: 528 blocks. A reduction
  // over at least 1584 rows has 528 to 704 blocks. With fewer rows, it has a
  // block for each three of them.
  KernelTarget target;
  target.isGpu = true;
  target.mostReductionBlocks = 704;
  target.leastBlockRows = 3;
  target.fewRows = 1024;
  target.manyColumns = 1;
  // Fewer than on a CPU, because a kernel keeps all sums of a nest in registers
  // until the nest ends.
  target.mostOps = 128;
  target.enoughRows = 64;
  target.littleWork = 1 << 14;
  target.mostRowWork = 1 << 14;
  target.longRow = 128;
  target.shortRow = 32;
  target.manyRows = 512;
  target.chunks = 528;
  target.leastChunk = 32;
  target.mostChunk = 1024;
  target.cheapCost = 12;
  // A row that is kept takes 16 registers in each of 1024 threads.
  target.mostKeptElements = 1 << 14;
  return target;
}

KernelTarget KernelTarget::of(Operation *op) {
  auto module = dyn_cast<ModuleOp>(op);
  if (!module)
    module = op->getParentOfType<ModuleOp>();
  if (module && module->hasAttr(kTargetGpuAttrName))
    return gpu();
  return KernelTarget();
}
