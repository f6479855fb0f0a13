//===- Weights.cpp - Executions of an op in a step ------------------------===//

#include "Weights.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Utils/StaticValueUtils.h"

using namespace mlir;
using namespace heddle;

double StepWeights::get(func::FuncOp function) {
  auto [entry, isNew] = known.try_emplace(function, 0.0);
  if (!isNew)
    return entry->second;
  double weight = 1;
  auto role = function->getAttrOfType<ProgramRoleAttr>(kRoleAttrName);
  if (role && role.getValue() == ProgramRole::Accumulate) {
    auto stated = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttrName);
    weight = microBatches ? double(microBatches)
             : stated     ? double(stated.getInt())
                          : 1;
  } else if (role && (role.getValue() == ProgramRole::Evaluate ||
                      role.getValue() == ProgramRole::Gradients)) {
    weight = 0;
  } else if (auto uses = symbols.getSymbolUses(function, module);
             !role && uses && !uses->empty()) {
    weight = 0;
    for (SymbolTable::SymbolUse use : *uses)
      weight += get(use.getUser());
  }
  return known[function] = weight;
}

double StepWeights::get(Operation *op) {
  auto function = op->getParentOfType<func::FuncOp>();
  double weight = function ? get(function) : 0;
  for (auto loop = op->getParentOfType<scf::ForOp>(); loop;
       loop = loop->getParentOfType<scf::ForOp>()) {
    std::optional<int64_t> begin = getConstantIntValue(loop.getLowerBound()),
                           end = getConstantIntValue(loop.getUpperBound()),
                           step = getConstantIntValue(loop.getStep());
    if (begin && end && step && *step > 0)
      weight *= double((std::max(*begin, *end) - *begin + *step - 1) / *step);
  }
  return weight;
}
