//===- Grid.h - Who is next to whom on a grid -------------------*- C++ -*-===//

#ifndef HEDDLE_TEST_UNIT_SOLVER_GRID_H
#define HEDDLE_TEST_UNIT_SOLVER_GRID_H

#include <cstdint>

namespace heddle::solver {

/// Calls `Join(A, B)` for all neighbours of a square grid, numbered row by row.
template <typename JoinFn> void joinGrid(int32_t Side, const JoinFn &Join) {
  for (int32_t I = 0; I < Side * Side; ++I) {
    if (I % Side + 1 < Side)
      Join(I, I + 1);
    if (I + Side < Side * Side)
      Join(I, I + Side);
  }
}

} // namespace heddle::solver

#endif // HEDDLE_TEST_UNIT_SOLVER_GRID_H
