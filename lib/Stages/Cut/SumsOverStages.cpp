//===- SumsOverStages.cpp - What all devices of a pipeline add up ---------===//

#include "UpdateCutter.h"
#include "heddle/Stages/CutNames.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;

/// Adds up the roots over all devices, in one all-reduce: each becomes an
/// element of a vector.
void UpdateCutter::sumRoots(OpBuilder &builder, IRMapping &values,
                            int64_t device) {
  if (roots.empty() || pipeline.devices == 1)
    return;
  Location loc = update.getLoc();
  auto count = int64_t(roots.size());
  auto scalar = cast<RankedTensorType>(roots.front().getType());
  auto vector = RankedTensorType::get({count}, scalar.getElementType());
  auto mask = RankedTensorType::get({count}, builder.getI1Type());
  auto zeros = [&](RankedTensorType type) -> Value {
    return builder.create<arith::ConstantOp>(loc, builder.getZeroAttr(type));
  };
  auto isElement = [&](int64_t index) -> Value {
    SmallVector<bool> bits(count, false);
    bits[index] = true;
    return builder.create<arith::ConstantOp>(
        loc, DenseElementsAttr::get(mask, ArrayRef<bool>(bits)));
  };
  Value packed = zeros(vector);
  for (auto [i, root] : llvm::enumerate(roots)) {
    Value own = values.lookupOrNull(root);
    if (!own)
      continue;
    Value repeated = builder.create<BroadcastOp>(
        loc, vector, own, builder.getDenseI64ArrayAttr({}), StringAttr());
    packed =
        builder.create<arith::SelectOp>(loc, isElement(i), repeated, packed);
  }
  // Each device has its own terms, which is a partial sum.
  Axes none;
  ShardingAttr whole = makeSharding(pipeline.mesh, {none});
  ShardingAttr partial = makeSharding(pipeline.mesh, {none}, {pipeline.axis});
  Value total = builder.create<ReshardOp>(loc, vector, packed, partial, whole);
  for (auto [i, root] : llvm::enumerate(roots)) {
    Value one = builder.create<arith::SelectOp>(loc, isElement(i), total,
                                                zeros(vector));
    values.map(
        root, builder
                  .create<ReduceOp>(loc, scalar,
                                    ReductionKindAttr::get(builder.getContext(),
                                                           ReductionKind::Sum),
                                    one, builder.getDenseI64ArrayAttr({0}),
                                    StringAttr())
                  .getResult());
  }
}

//===----------------------------------------------------------------------===//
// Without a barrier
//===----------------------------------------------------------------------===//

/// Returns the attributes of a value that goes from one function to another:
/// "of1.sum0" is a sum over the devices 0 and 1.
DictionaryAttr UpdateCutter::getPassedAttrs(const Twine &what, size_t number,
                                            int64_t device,
                                            ShardingAttr sharding) {
  Builder builder(update.getContext());
  return builder.getDictionaryAttr(
      {builder.getNamedAttr(kNameAttrName, builder.getStringAttr(getGivenName(
                                               device, what + Twine(number)))),
       builder.getNamedAttr(kShardingAttrName, sharding)});
}

/// Makes the device's terms results of its update. For the last device, also
/// adds the other values that its report needs.
LogicalResult UpdateCutter::takeTerms(IRMapping &values, int64_t device,
                                      SmallVectorImpl<Value> &results,
                                      SmallVectorImpl<DictionaryAttr> &attrs) {
  auto add = [&](Value own, DictionaryAttr attrsOf) {
    results.push_back(own);
    attrs.push_back(attrsOf);
    return Port{own.getType(), attrsOf};
  };
  terms.assign(roots.size(), Port());
  for (auto [i, root] : llvm::enumerate(roots))
    if (Value own = values.lookupOrNull(root))
      terms[i] = add(own, getPassedAttrs("term", i, device,
                                         makeSharding(pipeline.mesh, {})));
  if (device != pipeline.devices - 1)
    return success();
  for (Operation &op : update.getBody().front().without_terminator()) {
    if (!isAfterRoots(&op))
      continue;
    for (Value input : getInputs(&op)) {
      Operation *maker = input.getDefiningOp();
      if (roots.contains(input) || afterRoots.contains(input) ||
          needed.contains(input) ||
          (maker && matchPattern(maker, m_Constant())))
        continue;
      Value own = values.lookupOrNull(input);
      ShardingAttr sharding = getShardingOf(input);
      if (!own || !sharding)
        return op.emitOpError()
               << "needs a value that device " << device
               << " of the pipeline does not have: it cannot be cut";
      needed[input] =
          add(own, getPassedAttrs("value", needed.size(), device, sharding));
    }
  }
  return success();
}

/// Writes the function that adds the device's terms to the sums over the
/// devices before it. The last device's function also has the ops that depend
/// on the sums.
void UpdateCutter::writeReport(int64_t device) {
  bool isLast = device == pipeline.devices - 1;
  passed.resize(roots.size());
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attrs;
  auto addArgument = [&](const Port &port) {
    types.push_back(port.type);
    attrs.push_back(port.attrs);
    return unsigned(types.size() - 1);
  };
  struct Addition {
    size_t root;
    std::optional<unsigned> before, own; ///< arguments
  };
  SmallVector<Addition> additions;
  for (size_t root = 0; root < roots.size(); ++root) {
    if (!isLast && !(passed[root] && terms[root])) {
      // There is nothing to add: this device has no term, or the devices before
      // it have none. Whichever exists is passed on.
      if (terms[root])
        passed[root] = terms[root];
      continue;
    }
    Addition &addition = additions.emplace_back(Addition{root, {}, {}});
    if (passed[root])
      addition.before = addArgument(passed[root]);
    if (terms[root])
      addition.own = addArgument(terms[root]);
  }
  if (additions.empty())
    return;
  unsigned firstNeeded = types.size();
  if (isLast)
    for (const auto &[value, port] : needed)
      addArgument(port);
  func::FuncOp function = addFunction(StageWork::Report, device, types, attrs);
  OpBuilder builder = OpBuilder::atBlockEnd(&function.getBody().front());
  IRMapping values;
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> resultAttrs;
  for (const Addition &addition : additions) {
    Value sum;
    for (std::optional<unsigned> argument : {addition.before, addition.own})
      if (argument && sum)
        sum = builder.create<arith::AddFOp>(update.getLoc(), sum,
                                            function.getArgument(*argument));
      else if (argument)
        sum = function.getArgument(*argument);
    if (isLast) {
      values.map(roots[addition.root], sum);
      continue;
    }
    passed[addition.root] = {sum.getType(),
                             getPassedAttrs("sum", addition.root, device,
                                            makeSharding(pipeline.mesh, {}))};
    results.push_back(sum);
    resultAttrs.push_back(passed[addition.root].attrs);
  }
  if (!isLast) {
    addReturn(function, results, resultAttrs);
    return;
  }
  for (auto [i, value] : llvm::enumerate(llvm::make_first_range(needed)))
    values.map(value, function.getArgument(firstNeeded + i));
  Block &body = update.getBody().front();
  for (Operation &op : body.without_terminator()) {
    if (!isAfterRoots(&op))
      continue;
    for (Value input : getInputs(&op))
      if (!values.contains(input)) // a constant
        builder.clone(*input.getDefiningOp(), values);
    builder.clone(op, values);
  }
  for (OpOperand &operand : body.getTerminator()->getOpOperands())
    if (roots.contains(operand.get()) || afterRoots.contains(operand.get())) {
      results.push_back(values.lookup(operand.get()));
      resultAttrs.push_back(
          update.getResultAttrDict(operand.getOperandNumber()));
    }
  addReturn(function, results, resultAttrs);
}
