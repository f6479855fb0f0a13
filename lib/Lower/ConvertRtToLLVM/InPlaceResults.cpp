//===- InPlaceResults.cpp - Results in the memory of arguments ------------===//

#include "InPlaceResults.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace heddle;

namespace {
/// The first and the last call that touch an argument or a result, as numbers
/// of ops of the program's body. A loop is one op.
struct Uses {
  int64_t first = INT64_MAX, last = -1;
  /// True if a stream other than the compute stream touches the memory. The
  /// numbers of calls do not order the calls of such a stream.
  bool isElsewhere = false;
};
} // namespace

ArrayAttr heddle::findInPlaceResults(rt::ProgramOp program) {
  SmallVector<Uses> arguments(program.getInputs().size()),
      results(program.getOutputs().size());
  int64_t number = 0;
  for (Operation &op : program.getBody().front()) {
    op.walk([&](rt::DeviceCallOpInterface call) {
      for (const rt::Access &access : call.getAccesses()) {
        rt::Space space = access.buffer.getSpace();
        if (space != rt::Space::Argument && space != rt::Space::Result)
          continue;
        Uses &uses =
            (space == rt::Space::Argument ? arguments
                                          : results)[access.buffer.getIndex()];
        uses.first = std::min(uses.first, number);
        uses.last = number;
        uses.isElsewhere |= call.getStream() != kComputeStream;
      }
    });
    ++number;
  }

  auto getBytes = [&](Attribute port) {
    return rt::getByteSize(rt::getLocalType(program, cast<rt::PortAttr>(port)));
  };
  OpBuilder builder(program.getContext());
  bool isAny = false;
  SmallVector<Attribute> inPlace;
  for (auto [output, result] : llvm::zip(program.getOutputs(), results)) {
    SmallVector<int64_t> found;
    for (auto [i, argument] : llvm::enumerate(arguments))
      if (!argument.isElsewhere && !result.isElsewhere &&
          argument.last < result.first &&
          getBytes(program.getInputs()[i]) == getBytes(output))
        found.push_back(i);
    isAny |= !found.empty();
    inPlace.push_back(builder.getDenseI64ArrayAttr(found));
  }
  return isAny ? builder.getArrayAttr(inPlace) : ArrayAttr();
}
