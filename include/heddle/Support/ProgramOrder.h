//===- ProgramOrder.h - How a device's program is ordered -------*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_PROGRAMORDER_H
#define HEDDLE_SUPPORT_PROGRAMORDER_H

namespace heddle {

/// The order of a program whose collectives run beside its computations.
enum class ProgramOrder {
  Turns,    ///< parts of the batch take turns at each collective
  Shortest, ///< the shortest of several orders, by the cost model
};

} // namespace heddle

#endif // HEDDLE_SUPPORT_PROGRAMORDER_H
