//===- Segments.h - The parts in which a pass is recomputed -----*- C++ -*-===//

#ifndef HEDDLE_LIB_SCHEDULE_RECOMPUTE_SEGMENTS_H
#define HEDDLE_LIB_SCHEDULE_RECOMPUTE_SEGMENTS_H

#include "ForwardPass.h"

namespace heddle {

/// A range of the ops of a forward pass, by their indices.
struct Segment {
  int32_t begin, end;
};

/// Cuts a forward pass where few bytes are live. A network of equal layers is
/// cut once a layer: the ops repeat with some period, and of all places in the
/// period the one is taken at which the fewest bytes cross the cut. What comes
/// before the first layer and behind the last one belongs to no segment. A
/// network without such a structure is cut where fewer bytes are live than
/// around; if `isStage`, because what a pipeline's stage keeps is kept for all
/// micro-batches in flight, it is one segment.
llvm::SmallVector<Segment> findSegments(const ForwardPass &forward,
                                        bool isStage);

} // namespace heddle

#endif // HEDDLE_LIB_SCHEDULE_RECOMPUTE_SEGMENTS_H
