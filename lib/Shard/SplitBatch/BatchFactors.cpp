//===- BatchFactors.cpp - Finds the ops that see the batch ----------------===//

#include "BatchFactors.h"
#include "heddle/Sharding/ControlFlow.h"
#include "heddle/Sharding/ShardingAssignment.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace heddle;

Type Batch::getPartType(Type type, std::optional<int64_t> dim,
                        int64_t part) const {
  if (!dim)
    return type;
  auto tensor = cast<RankedTensorType>(type);
  SmallVector<int64_t> shape(tensor.getShape());
  shape[*dim] = getRows(shape[*dim]) * getSize(part);
  return tensor.clone(shape);
}

SmallVector<Type> heddle::getPartTypes(Operation *op, const BatchFactor &factor,
                                       const Batch &batch, int64_t part) {
  SmallVector<Type> types;
  for (auto [i, type] : llvm::enumerate(op->getResultTypes())) {
    std::optional<int64_t> dim = factor.findResultDim(i);
    auto tensor = dyn_cast<RankedTensorType>(type);
    bool isSum = tensor && !dim && factor.get().kind == FactorKind::Sum;
    types.push_back(isSum ? getSumType(op, tensor)
                          : batch.getPartType(type, dim, part));
  }
  return types;
}

//===----------------------------------------------------------------------===//
// The batch
//===----------------------------------------------------------------------===//

/// Returns whether the argument holds features or labels, and so has a batch.
static bool hasBatch(func::FuncOp function, BlockArgument argument) {
  auto role = function.getArgAttrOfType<PortRoleAttr>(argument.getArgNumber(),
                                                      kRoleAttrName);
  auto type = dyn_cast<RankedTensorType>(argument.getType());
  return role && type && type.hasStaticShape() && type.getRank() > 0 &&
         (role.getRole() == PortRole::Features ||
          role.getRole() == PortRole::Labels);
}

/// Verifies that the batch has the samples that its parts need. `argument` is
/// an argument that holds it.
LogicalResult BatchFactors::verifyParts(func::FuncOp function,
                                        unsigned argument) const {
  ArrayRef<int64_t> sizes = batch.parts.sizes;
  int64_t sum = std::accumulate(sizes.begin(), sizes.end(), int64_t(0));
  if (sizes.empty() && batch.size < batch.getNumParts())
    return function.emitOpError()
           << "expected at most " << batch.size << " sub-batches, as argument "
           << argument << " has " << batch.size << " samples, got "
           << batch.getNumParts();
  if (!sizes.empty() && batch.size != sum)
    return function.emitOpError() << "expected sub-batches of " << batch.size
                                  << " samples in all, as argument " << argument
                                  << " has, got " << sum;
  return success();
}

LogicalResult BatchFactors::findBatch(ModuleOp module,
                                      const BatchParts &parts) {
  for (auto function : module.getOps<func::FuncOp>()) {
    if (function.isExternal() || !llvm::hasSingleElement(function.getBody()))
      continue;
    bool hasOne = false;
    for (BlockArgument argument : function.getArguments()) {
      if (!hasBatch(function, argument))
        continue;
      int64_t size = cast<RankedTensorType>(argument.getType()).getDimSize(0);
      if (batch.size == 0)
        batch = {size, parts};
      if (size != batch.size)
        continue; // no sample is of this argument: positions, a table
      if (failed(verifyParts(function, argument.getArgNumber())))
        return failure();
      arguments.push_back(argument);
      hasOne = true;
    }
    if (hasOne)
      functions.push_back(function);
  }
  if (functions.empty())
    return module.emitError()
           << "expected a batch to split into " << parts.count
           << " sub-batches: no argument with a first dimension has "
           << kRoleAttrName << " = #heddle.port_role<features> or <labels>";
  return success();
}

//===----------------------------------------------------------------------===//
// The factors
//===----------------------------------------------------------------------===//

/// Returns whether the part of the factor is a range of rows of each tensor:
/// the factor runs over one dimension, alone or outside of other factors.
static bool isRangeOfRows(const ShardingRule &rule, unsigned factor,
                          const TensorFactors &tensor, Type type) {
  std::optional<int64_t> dim = findDim(tensor, factor);
  if (!dim)
    return true;
  int64_t size = 1;
  for (unsigned other : tensor[*dim]) {
    if (other == factor && size != 1)
      return false; // another factor is outside of it
    size *= rule.factors[other].size;
  }
  auto shaped = cast<RankedTensorType>(type);
  return shaped.hasStaticShape() && shaped.getDimSize(*dim) == size &&
         llvm::count_if(tensor, [&](const DimensionFactors &factors) {
           return llvm::is_contained(factors, factor);
         }) == 1;
}

bool BatchFactors::canSplit(Operation *op, const BatchFactor &factor) const {
  FactorKind kind = factor.get().kind;
  if ((kind != FactorKind::Parallel && kind != FactorKind::Sum &&
       kind != FactorKind::Max) ||
      factor.get().size % batch.size != 0)
    return false;
  for (auto [tensor, type] :
       llvm::zip(factor.rule.operands, op->getOperandTypes()))
    if (!isRangeOfRows(factor.rule, factor.factor, tensor, type))
      return false;
  for (auto [tensor, type] :
       llvm::zip(factor.rule.results, op->getResultTypes()))
    if (!isRangeOfRows(factor.rule, factor.factor, tensor, type))
      return false;
  return runsAlone(op, factor);
}

/// Returns whether the op can run on one part without data of others: builds it
/// for the first part, on operands without meaning, and removes it again.
bool BatchFactors::runsAlone(Operation *op, const BatchFactor &factor) const {
  ScopedDiagnosticHandler silence(op->getContext(),
                                  [](Diagnostic &) { return success(); });
  OpBuilder builder(op);
  SmallVector<Type> types;
  for (auto [i, type] : llvm::enumerate(op->getOperandTypes()))
    types.push_back(batch.getPartType(type, factor.findOperandDim(i), 0));
  Operation *begin = builder.create<UnrealizedConversionCastOp>(
      op->getLoc(), types, ValueRange());
  SmallVector<Type> results = getPartTypes(op, factor, batch, 0);
  FailureOr<SliceResults> made = runOnSlice(builder, op, begin->getResults(),
                                            results, {factor.factor, 0, 0});
  bool isAlone = succeeded(made) && !made->needsOthers &&
                 llvm::equal(ValueRange(made->values).getTypes(), results);
  while (op->getPrevNode() != begin)
    op->getPrevNode()->erase();
  begin->erase();
  return isAlone;
}

LogicalResult BatchFactors::find(ModuleOp module, const BatchParts &parts) {
  if (failed(findBatch(module, parts)))
    return failure();
  MLIRContext *context = module.getContext();
  auto axis = StringAttr::get(context, "sample");
  MeshRef mesh{
      FlatSymbolRefAttr::get(context, "samples"),
      MeshAttr::get(context, {MeshAxisAttr::get(context, axis, batch.size)})};
  PartialAssignment given;
  // Sums over samples are complete when the last part is added.
  given.gradientReduction = GradientReduction::MicroBatch;
  for (BlockArgument argument : arguments) {
    DimensionAxes dims(cast<RankedTensorType>(argument.getType()).getRank());
    dims[0] = {axis};
    given.arguments[argument] = {makeSharding(mesh, dims)};
  }
  FailureOr<ShardingAssignment> assignment =
      propagateShardings(module, mesh, given);
  if (failed(assignment))
    return failure();
  Operation *whole = nullptr; // the first op that sees the batch, but unsplit
  for (func::FuncOp function : functions)
    for (Operation &op : function.getBody().front()) {
      if (!hasFactors(&op) || isFreeTensor(&op) || !isMemoryEffectFree(&op))
        continue;
      ArrayRef<Axes> axes = assignment->getFactors(&op);
      auto isSplit = [](const Axes &list) { return !list.empty(); };
      const auto *first = llvm::find_if(axes, isSplit);
      if (first == axes.end())
        continue;
      BatchFactor factor{getRule(&op), unsigned(first - axes.begin())};
      if (llvm::count_if(axes, isSplit) == 1 && canSplit(&op, factor))
        factors.try_emplace(&op, std::move(factor));
      else if (!whole)
        whole = &op;
    }
  if (!factors.empty())
    return success();
  for (Operation *user : arguments.front().getUsers())
    if (!whole)
      whole = user;
  auto diag = functions.front().emitOpError()
              << "cannot be split into " << parts.count
              << " sub-batches: every operator needs the batch whole";
  if (whole)
    diag.attachNote(whole->getLoc()) << "the first of them";
  return diag;
}
