//===- CallWork.cpp - FLOPs and bytes of calls ----------------------------===//

#include "heddle/Simulate/CallWork.h"
#include "heddle/Cost/Work.h"
#include "heddle/Support/AttentionPairs.h"
#include "heddle/Support/Bytes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;

/// FLOPs of one exponential, sine or cosine, as lib/Cost counts them.
static constexpr int64_t kTranscendental = 10;

static Work getMatmulWork(rt::MatmulOp op) {
  int64_t m = op.getM(), n = op.getN(), k = op.getK();
  int64_t iterations = 1, a = m * k, b = k * n, c = m * n;
  for (auto loop : op.getLoops().getAsRange<rt::LoopAttr>()) {
    int64_t extent = loop.getExtent();
    iterations *= extent;
    a *= loop.getA() ? extent : 1;
    b *= loop.getB() ? extent : 1;
    c *= loop.getC() ? extent : 1;
  }
  auto bytes = [](int64_t elements, rt::BufferAttr buffer) {
    return elements * rt::getByteSize(buffer.getType().getElementType());
  };
  Work work;
  work.flops = 2 * m * n * k * iterations + (op.getBias() ? c : 0);
  work.bytesRead = bytes(a, op.getA()) + bytes(b, op.getB());
  work.bytesWritten = bytes(c, op.getC());
  if (op.getAccumulate())
    work.bytesRead += work.bytesWritten;
  if (op.getBias())
    work.bytesRead += op.getBias()->getBytes();
  if (op.getExtra())
    (*op.getEpilogue() == ProductEpilogue::GeluGrad ? work.bytesRead
                                                    : work.bytesWritten) +=
        op.getExtra()->getBytes();
  return work;
}

/// Returns the work of attention in which each score takes `products` products
/// of head-size length and one exponential.
template <typename OpTy> static Work getAttentionWork(OpTy op, int products) {
  ArrayRef<int64_t> query = op.getQ().getType().getShape();
  int64_t queries = query[1], keys = op.getK().getType().getDimSize(1);
  int64_t pairs =
      countAttentionPairs(queries, keys, op.getCausal(), op.getWindow());
  int64_t rows = op.getLse().getNumElements() / std::max<int64_t>(queries, 1);
  Work work;
  work.flops = rows * pairs * (2 * products * query.back() + kTranscendental);
  for (const rt::Access &access : op.getAccesses())
    (access.writes ? work.bytesWritten : work.bytesRead) +=
        access.buffer.getBytes();
  return work;
}

static Work getEmbeddingGradWork(rt::EmbeddingGradOp op) {
  int64_t rows = op.getRows().getBytes(), table = op.getTable().getBytes();
  Work work{op.getRows().getNumElements(), rows + op.getIds().getBytes(),
            table};
  if (op.getAccumulate())
    work.bytesWritten = std::min(table, rows);
  return work;
}

/// Returns the bytes that a kernel reads of an operand.
static int64_t getBytesRead(BlockArgument operand) {
  int64_t whole = getBytes(operand.getType()), extracted = 0;
  for (Operation *user : operand.getUsers()) {
    auto structured = user->getParentOfType<linalg::LinalgOp>();
    if (!isa<tensor::ExtractOp>(user) || !structured)
      return whole;
    int64_t points = 1;
    for (int64_t size : structured.getStaticLoopRanges())
      points *= std::max<int64_t>(size, 0);
    extracted += points * getElementBytes(getElementTypeOrSelf(operand));
  }
  return std::min(whole, extracted);
}

Work CallWork::getKernelWork(rt::LaunchOp launch) {
  auto [known, isNew] = kernels.try_emplace(launch.getKernelAttr().getAttr());
  Work &work = known->second;
  if (!isNew)
    return work;
  for (auto buffer : launch.getResults_().getAsRange<rt::BufferAttr>())
    work.bytesWritten += buffer.getBytes();
  auto kernel = symbols.lookup<func::FuncOp>(launch.getKernelAttr().getAttr());
  if (kernel && !kernel.isExternal()) {
    work.flops = getTotalWork(kernel.getBody()).flops;
    kernel.walk([&](ReduceBlocksOp op) {
      work.flops += op.getX().getType().getNumElements();
    });
    for (BlockArgument operand : kernel.getArguments())
      work.bytesRead += getBytesRead(operand);
  } else {
    // A declaration, as in tests: its buffers are all that is known.
    for (const rt::Access &access : launch.getAccesses())
      if (!access.writes)
        work.bytesRead += access.buffer.getBytes();
  }
  return work;
}

Work CallWork::getWork(rt::DeviceCallOpInterface call) {
  return llvm::TypeSwitch<Operation *, Work>(call)
      .Case([&](rt::LaunchOp op) { return getKernelWork(op); })
      .Case([](rt::MatmulOp op) { return getMatmulWork(op); })
      // q k^T and p v.
      .Case([](rt::AttentionOp op) { return getAttentionWork(op, 2); })
      // q k^T again, do v^T, and the products that give dq, dk and dv.
      .Case([](rt::AttentionGradOp op) { return getAttentionWork(op, 5); })
      .Case([](rt::EmbeddingGradOp op) { return getEmbeddingGradWork(op); })
      .Case([](rt::RotaryTableOp op) {
        int64_t elements = op.getCos().getNumElements();
        return Work{(2 * kTranscendental + 2) * elements, 0,
                    op.getCos().getBytes() + op.getSin().getBytes()};
      })
      .Case([](rt::CopyOp op) {
        return Work{0, op.getTo().getBytes(), op.getTo().getBytes()};
      })
      .Case([](rt::FillZeroOp op) {
        return Work{0, 0, op.getTo().getBytes()};
      })
      .Default([](Operation *) { return Work(); });
}

Type CallWork::getComputeType(rt::DeviceCallOpInterface call) {
  Operation *op = call;
  return llvm::TypeSwitch<Operation *, Type>(op)
      .Case(
          [](rt::MatmulOp op) { return op.getA().getType().getElementType(); })
      .Case<rt::AttentionOp, rt::AttentionGradOp>(
          [](auto op) { return op.getQ().getType().getElementType(); })
      .Default(
          [](Operation *op) { return Float32Type::get(op->getContext()); });
}
