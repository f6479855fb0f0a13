//===- Staging.cpp - Memory for sums across processes ---------------------===//

#include "Staging.h"
#include "heddle_rt/staging.h"

using namespace mlir;
using namespace heddle;

/// Returns the number of members of a collective's group. If the mesh is
/// unknown, the conversion reports it.
template <typename Op> static int64_t getNumMembers(Op op) {
  auto mesh =
      SymbolTable::lookupNearestSymbolFrom<MeshOp>(op, op.getMeshAttr());
  return mesh ? mesh.getMesh().getSize(op.getAxes().getAxes()) : 1;
}

static int64_t getBufferElementBytes(rt::BufferAttr buffer) {
  return buffer.getBytes() / std::max<int64_t>(buffer.getNumElements(), 1);
}

SmallVector<int64_t> heddle::getStaging(rt::ProgramOp program) {
  SmallVector<int64_t> staging;
  auto need = [&](int32_t stream, int64_t bytes) {
    if (bytes == 0)
      return;
    if (int32_t(staging.size()) <= stream)
      staging.resize(stream + 1, 0);
    staging[stream] = std::max(staging[stream], bytes);
  };
  program.walk([&](rt::AllReduceOp op) {
    need(op.getStream(), runtime::stagingOfAllReduce(
                             getNumMembers(op), op.getIn().getNumElements(),
                             getBufferElementBytes(op.getIn())));
  });
  program.walk([&](rt::ReduceScatterOp op) {
    need(op.getStream(), runtime::stagingOfReduceScatter(
                             getNumMembers(op), op.getOut().getNumElements(),
                             getBufferElementBytes(op.getOut())));
  });
  return staging;
}
