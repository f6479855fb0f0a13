//===- TestModel.h - The artifact of program.cpp ----------------*- C++ -*-===//

#ifndef HEDDLE_TEST_TRAINER_TESTMODEL_H
#define HEDDLE_TEST_TRAINER_TESTMODEL_H

#include <nlohmann/json.hpp>

namespace bigram {

/// The manifest of the hand-written artifact.
nlohmann::json manifest(int devices, int microBatches);

} // namespace bigram

#endif // HEDDLE_TEST_TRAINER_TESTMODEL_H
