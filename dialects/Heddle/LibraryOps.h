//===- LibraryOps.h - Ops for what libraries fuse ---------------*- C++ -*-===//

#ifndef HEDDLE_DIALECTS_HEDDLE_LIBRARYOPS_H
#define HEDDLE_DIALECTS_HEDDLE_LIBRARYOPS_H

#include "dialects/Heddle/Heddle.h"

#include "dialects/Heddle/HeddleEpilogues.h.inc"

#define GET_OP_CLASSES
#include "dialects/Heddle/HeddleLibraryOps.h.inc"

namespace heddle {

/// Returns the letters that an operand of a contraction shares with the result.
/// They are the dimensions of the operand's sums (`lhs_sums`, `rhs_sums`).
std::string getKeptLetters(ContractionAttr contraction, bool ofLhs);

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_LIBRARYOPS_H
