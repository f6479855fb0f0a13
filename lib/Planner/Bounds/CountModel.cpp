//===- CountModel.cpp - Counts of programs of any size --------------------===//

#include "ProgramCounts.h"

using namespace heddle;

static constexpr double ProgramCounts::*kCounts[] = {
    &ProgramCounts::weights,          &ProgramCounts::parameters,
    &ProgramCounts::optimizerState,   &ProgramCounts::gradients,
    &ProgramCounts::products,         &ProgramCounts::forwardProducts,
    &ProgramCounts::otherBytes,       &ProgramCounts::updateBytes,
    &ProgramCounts::keptBytes,        &ProgramCounts::numProducts,
    &ProgramCounts::tensorSums,       &ProgramCounts::numTensorSums,
    &ProgramCounts::keyBytes,         &ProgramCounts::computing,
    &ProgramCounts::keptWhole,        &ProgramCounts::keptInParts,
    &ProgramCounts::keptOfAttention,  &ProgramCounts::readTwice,
    &ProgramCounts::repeatedProducts, &ProgramCounts::repeatedAttention,
    &ProgramCounts::repeatedBefore,   &ProgramCounts::headProducts,
    &ProgramCounts::numKeys,          &ProgramCounts::queryBytes,
    &ProgramCounts::sharedTables,     &ProgramCounts::causalAttention,
    &ProgramCounts::launches,         &ProgramCounts::growingLaunches,
    &ProgramCounts::largestGradient,  &ProgramCounts::largestOfParameters,
    &ProgramCounts::results};

ProgramCounts ProgramCounts::add(const ProgramCounts &a, const ProgramCounts &b,
                                 double factor) {
  ProgramCounts sum = a;
  for (double ProgramCounts::*count : kCounts)
    sum.*count += factor * (b.*count);
  return sum;
}

CountModel::CountModel(const ProgramCounts (&counts)[2][2],
                       const double (&rows)[2], const double (&layers)[2]) {
  using Counts = ProgramCounts;
  double rowStep = rows[1] - rows[0], layerStep = layers[1] - layers[0];
  auto slope = [](const Counts &from, const Counts &to, double step) {
    return Counts::add({}, Counts::add(to, from, -1), 1 / step);
  };
  // The counts of one row, at each number of layers. Then their growth with the
  // layers.
  Counts rowAtFirst = slope(counts[0][0], counts[1][0], rowStep);
  Counts rowAtSecond = slope(counts[0][1], counts[1][1], rowStep);
  perRowAndLayer = slope(rowAtFirst, rowAtSecond, layerStep);
  perRow = Counts::add(rowAtFirst, perRowAndLayer, -layers[0]);
  Counts layerAtFirst = slope(counts[0][0], counts[0][1], layerStep);
  perLayer = Counts::add(layerAtFirst, perRowAndLayer, -rows[0]);
  base = Counts::add(counts[0][0], perRow, -rows[0]);
  base = Counts::add(base, perLayer, -layers[0]);
  base = Counts::add(base, perRowAndLayer, -rows[0] * layers[0]);
}

ProgramCounts CountModel::at(double rows, double layers) const {
  ProgramCounts counts = ProgramCounts::add(base, perRow, rows);
  counts = ProgramCounts::add(counts, perLayer, layers);
  return ProgramCounts::add(counts, perRowAndLayer, rows * layers);
}

ProgramCounts CountModel::ofLayer(double rows) const {
  return ProgramCounts::add(perLayer, perRowAndLayer, rows);
}
