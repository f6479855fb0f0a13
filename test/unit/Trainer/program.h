//===- program.h - Sizes of the hand-written artifact -----------*- C++ -*-===//

#ifndef HEDDLE_TEST_UNIT_TRAINER_PROGRAM_H
#define HEDDLE_TEST_UNIT_TRAINER_PROGRAM_H

namespace bigram {
/// The sizes of the vocabulary (V), of a batch in rows (B) and of a row (S).
inline constexpr int V = 16, B = 4, S = 6;
} // namespace bigram

#endif // HEDDLE_TEST_UNIT_TRAINER_PROGRAM_H
