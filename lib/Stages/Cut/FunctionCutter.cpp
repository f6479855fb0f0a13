//===- FunctionCutter.cpp - Writes the parts of a program -----------------===//

#include "FunctionCutter.h"
#include "heddle/Stages/CutNames.h"
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
DictionaryAttr FunctionCutter::getPortAttrs(Value value,
                                            ShardingAttr sharding) {
  Builder builder(function.getContext());
  StringAttr &name = names[{value, sharding}];
  if (!name) {
    StringRef op = getOpName(value.getDefiningOp());
    name = builder.getStringAttr(getCutName(names.size() - 1, op));
  }
  SmallVector<NamedAttribute> attrs = {
      builder.getNamedAttr(kNameAttrName, name)};
  if (sharding)
    attrs.push_back(builder.getNamedAttr(kShardingAttrName, sharding));
  return builder.getDictionaryAttr(attrs);
}

/// Returns the attributes of an argument or result of the whole function. If it
/// has no name, it gets one by its position in the whole function, because its
/// position in a part may differ.
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
  Part &source = getPart(stages.getPart(maker));
  ShardingAttr whole = getShardingOf(value), sent = whole;
  if (int64_t device = pipeline.getDevice(part.key.stage);
      device != pipeline.getDevice(source.key.stage))
    sent = getSentSharding(value, device);
  auto reshard = [&](Part &on, Value own, ShardingAttr from,
                     ShardingAttr to) -> Value {
    if (from == to)
      return own;
    OpBuilder builder = OpBuilder::atBlockEnd(&on.function.getBody().front());
    return builder
        .create<ReshardOp>(value.getLoc(), own.getType(), own, from, to)
        .getResult();
  };
  DictionaryAttr attrs = getPortAttrs(value, sent);
  if (source.sent.insert({value, sent}).second)
    addResult(source, reshard(source, source.values.lookup(value), whole, sent),
              attrs);
  Value own = reshard(part, addArgument(part, value, attrs), sent, whole);
  part.values.map(value, own);
  return own;
}

int64_t FunctionCutter::countReaders(Value value, int64_t device) const {
  SmallVector<StagePart> readers;
  for (Operation *user : value.getUsers()) {
    Operation *op = stages.getAncestor(user);
    if (op->hasTrait<OpTrait::IsTerminator>() || stages.isRepeated(op))
      continue;
    StagePart part = stages.getPart(op);
    if (pipeline.getDevice(part.stage) == device &&
        !llvm::is_contained(readers, part))
      readers.push_back(part);
  }
  return std::max<int64_t>(readers.size(), 1);
}

ShardingAttr FunctionCutter::getSentSharding(Value value,
                                             int64_t device) const {
  ShardingAttr whole = getShardingOf(value);
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (!whole || !type || whole.isPartial())
    return whole;
  MeshRef mesh = pipeline.mesh;
  int64_t gathers = countReaders(value, device);
  auto getSeconds = [&](ShardingAttr sharding) {
    return pipeline.costs->getTransferSeconds(
               getBytes(sharding.getLocalType(type, mesh.mesh))) +
           double(gathers) *
               pipeline.costs->getReshardSeconds(type, sharding, whole);
  };
  ShardingAttr best = whole;
  double least = getSeconds(whole);
  for (MeshAxisAttr axis : mesh.mesh.getAxes()) {
    if (axis.getName() == pipeline.axis || axis.getSize() == 1 ||
        usesAxis(whole, axis.getName()))
      continue;
    for (int64_t dim = 0; dim < type.getRank(); ++dim) {
      DimensionAxes dims = getDimensions(whole);
      dims[dim].push_back(axis.getName());
      if (type.getDimSize(dim) % mesh.getSize(dims[dim]) != 0)
        continue;
      ShardingAttr parts = makeSharding(mesh, dims);
      if (double seconds = getSeconds(parts); seconds < least) {
        least = seconds;
        best = parts;
      }
    }
  }
  return best;
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
