//===- Accesses.cpp - Facts about runs of bytes ---------------------------===//

#include "Accesses.h"

using namespace mlir;
using namespace heddle;

bool heddle::readsWhatItWrites(rt::DeviceCallOpInterface call) {
  Operation *op = call;
  if (auto product = dyn_cast<rt::MatmulOp>(op))
    return product.getAccumulate();
  if (auto gradient = dyn_cast<rt::EmbeddingGradOp>(op))
    return gradient.getAccumulate();
  if (auto copy = dyn_cast<rt::CopyOp>(op))
    return bool(copy.getBytes()) ||
           int64_t(copy.getBlocks() * copy.getToStride()) >
               copy.getTo().getBytes();
  return false;
}

std::optional<int64_t> heddle::getSlot(const ProgramCall &entry,
                                       rt::BufferAttr buffer) {
  bool isArgument = buffer.getSpace() == rt::Space::Argument;
  if (!isArgument && buffer.getSpace() != rt::Space::Result)
    return std::nullopt;
  if (entry.transfer)
    return buffer.getIndex();
  ArrayRef<int64_t> slots =
      isArgument ? entry.argumentSlots : entry.resultSlots;
  auto index = size_t(buffer.getIndex());
  if (index >= slots.size() || slots[index] < 0)
    return std::nullopt;
  return slots[index];
}
