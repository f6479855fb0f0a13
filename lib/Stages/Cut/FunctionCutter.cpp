//===- FunctionCutter.cpp - Writes the parts of a program -----------------===//

#include "FunctionCutter.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace heddle;

std::string heddle::getPartName(StringRef entry, StagePart part) {
  return (entry + "_" + stringifyStageWork(part.work) + "_" + Twine(part.stage))
      .str();
}

FunctionCutter::Part &FunctionCutter::getPart(StagePart key) {
  for (std::unique_ptr<Part> &part : parts)
    if (part->key == key)
      return *part;
  MLIRContext *context = function.getContext();
  auto part = std::make_unique<Part>();
  part->key = key;
  OpBuilder builder(function);
  part->function =
      builder.create<func::FuncOp>(function.getLoc(), getPartName(entry, key),
                                   FunctionType::get(context, {}, {}));
  part->function.addEntryBlock();
  part->function->setAttr(kStageProgramAttrName,
                          StageProgramAttr::get(context,
                                                StringAttr::get(context, entry),
                                                key.work, key.stage));
  if (RanksAttr ranks = pipeline.getRanks(pipeline.getDevice(key.stage)))
    part->function->setAttr(kRanksAttrName, ranks);
  parts.push_back(std::move(part));
  return *parts.back();
}

/// Returns the attributes of an argument or result that carries a value from
/// one part to another.
DictionaryAttr FunctionCutter::getPortAttrs(Value value) {
  Builder builder(function.getContext());
  StringAttr &name = names[value];
  if (!name) {
    StringRef op = getOpName(value.getDefiningOp());
    name = builder.getStringAttr("cut" + Twine(names.size() - 1) +
                                 (op.empty() ? "" : ".") + op);
  }
  SmallVector<NamedAttribute> attrs = {
      builder.getNamedAttr(kNameAttrName, name)};
  if (ShardingAttr sharding = getShardingOf(value))
    attrs.push_back(builder.getNamedAttr(kShardingAttrName, sharding));
  return builder.getDictionaryAttr(attrs);
}

/// Returns the attributes of an argument or result of the whole function. The
/// name that it has by its position would be another one in a part.
static DictionaryAttr withName(MLIRContext *context, DictionaryAttr attrs,
                               StringRef kind, unsigned index) {
  if (attrs && attrs.contains(kNameAttrName))
    return attrs;
  NamedAttrList list(attrs);
  list.set(kNameAttrName, StringAttr::get(context, kind + Twine(index)));
  return list.getDictionary(context);
}

Value FunctionCutter::addArgument(Part &part, Value value,
                                  DictionaryAttr attrs) {
  Value argument = part.function.getBody().front().addArgument(value.getType(),
                                                               value.getLoc());
  part.argumentAttrs.push_back(attrs);
  part.values.map(value, argument);
  return argument;
}

void FunctionCutter::addResult(Part &part, Value own, DictionaryAttr attrs) {
  part.results.push_back(own);
  part.resultAttrs.push_back(attrs);
}

bool FunctionCutter::isRemade(Operation *op) const {
  if (op->getNumOperands() != 1 || op->getNumRegions() != 0 ||
      op->getNumResults() != 1 || !isMemoryEffectFree(op) || isa<ReshardOp>(op))
    return false;
  auto working = dyn_cast<WorkOpInterface>(op);
  return working && working.getWork().flops == 0 &&
         getLocalBytes(op->getOperand(0), pipeline.mesh) <=
             getLocalBytes(op->getResult(0), pipeline.mesh);
}

Value FunctionCutter::getValue(Part &part, Value value) {
  if (Value known = part.values.lookupOrNull(value))
    return known;
  auto argument = dyn_cast<BlockArgument>(value);
  if (argument)
    return addArgument(
        part, value,
        withName(function.getContext(),
                 function.getArgAttrDict(argument.getArgNumber()), "argument",
                 argument.getArgNumber()));
  Operation *maker = value.getDefiningOp();
  if (stages.isRepeated(maker) || isRemade(maker)) {
    cloneInto(part, maker);
    return part.values.lookup(value);
  }
  // The part that makes the value has been written, because the ops of the
  // whole function are visited in order.
  DictionaryAttr attrs = getPortAttrs(value);
  Part &source = getPart(stages.getPart(maker));
  if (source.sent.insert(value).second)
    addResult(source, source.values.lookup(value), attrs);
  return addArgument(part, value, attrs);
}

void FunctionCutter::cloneInto(Part &part, Operation *op) {
  for (Value input : getInputs(op))
    getValue(part, input);
  OpBuilder builder = OpBuilder::atBlockEnd(&part.function.getBody().front());
  Operation *clone = builder.clone(*op, part.values);
  clone->removeAttr(kStageAttrName);
}

void FunctionCutter::finish(Part &part) {
  MLIRContext *context = function.getContext();
  Block &body = part.function.getBody().front();
  OpBuilder::atBlockEnd(&body).create<func::ReturnOp>(function.getLoc(),
                                                      part.results);
  part.function.setFunctionType(FunctionType::get(
      context, body.getArgumentTypes(), TypeRange(ValueRange(part.results))));
  if (!part.argumentAttrs.empty())
    part.function.setAllArgAttrs(part.argumentAttrs);
  if (!part.resultAttrs.empty())
    part.function.setAllResultAttrs(part.resultAttrs);
}

void FunctionCutter::run() {
  Block &body = function.getBody().front();
  // Parts are written in the order of the pipeline.
  for (int64_t stage = 0; stage < pipeline.stages; ++stage)
    getPart({StageWork::Forward, stage});
  for (Operation &op : body.without_terminator())
    if (!stages.isRepeated(&op))
      cloneInto(getPart(stages.getPart(&op)), &op);
  for (OpOperand &operand : body.getTerminator()->getOpOperands()) {
    Operation *maker = operand.get().getDefiningOp();
    StagePart key{StageWork::Forward, pipeline.getLastStage()};
    if (maker && !stages.isRepeated(maker))
      key = stages.getPart(maker);
    Part &part = getPart(key);
    addResult(part, getValue(part, operand.get()),
              withName(function.getContext(),
                       function.getResultAttrDict(operand.getOperandNumber()),
                       "result", operand.getOperandNumber()));
  }
  for (std::unique_ptr<Part> &part : parts)
    finish(*part);
  function.erase();
}
