//===- Grid.h - Neighbours on a square grid ---------------------*- C++ -*-===//

#ifndef HEDDLE_TEST_UNIT_SOLVER_GRID_H
#define HEDDLE_TEST_UNIT_SOLVER_GRID_H

#include <cstdint>

namespace heddle::solver {

/// Calls `join(a, b)` for all neighbouring cells of a square grid, whose cells
/// are numbered row by row.
template <typename JoinFn> void joinGrid(int32_t side, const JoinFn &join) {
  for (int32_t i = 0; i < side * side; ++i) {
    if (i % side + 1 < side)
      join(i, i + 1);
    if (i + side < side * side)
      join(i, i + side);
  }
}

} // namespace heddle::solver

#endif // HEDDLE_TEST_UNIT_SOLVER_GRID_H
