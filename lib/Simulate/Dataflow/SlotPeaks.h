//===- SlotPeaks.h - What the slots of a pipeline hold ----------*- C++ -*-===//

#ifndef HEDDLE_LIB_SIMULATE_DATAFLOW_SLOTPEAKS_H
#define HEDDLE_LIB_SIMULATE_DATAFLOW_SLOTPEAKS_H

#include "heddle/Simulate/Simulate.h"

namespace heddle {

/// Sets the figures of slots in the memory of a list.
void fillSlotPeaks(const CallList &list, MemoryUse &memory);

} // namespace heddle

#endif // HEDDLE_LIB_SIMULATE_DATAFLOW_SLOTPEAKS_H
