//===- JoinedStage.cpp - The programs of a stage as one -------------------===//

#include "JoinedStage.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Sharding/FactorShardings.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace heddle;

/// Marks the op between two parts of a joined function.
static constexpr llvm::StringLiteral kBorderAttrName = "recompute.border";
/// On a joined function: the number of results of its first part.
static constexpr llvm::StringLiteral kSentAttrName = "recompute.sent";

SmallVector<Operation *> heddle::getBorders(func::FuncOp function) {
  SmallVector<Operation *> borders;
  for (Operation &op : function.getBody().front())
    if (op.hasAttr(kBorderAttrName))
      borders.push_back(&op);
  return borders;
}

SmallVector<Value> heddle::getSentForward(func::FuncOp function) {
  auto count = function->getAttrOfType<IntegerAttr>(kSentAttrName);
  if (!count)
    return {};
  auto results = function.getBody().front().getTerminator()->getOperands();
  return llvm::to_vector(results.take_front(count.getInt()));
}

/// Returns whether each part that reads the value computes it itself, from
/// variables and constants.
static bool isMadeByEach(const ForwardPass &forward, Value value) {
  return forward.isFree(value) &&
         !value.getDefiningOp()->hasTrait<comm::Collective>();
}

SmallVector<Value> heddle::getKept(func::FuncOp function, Operation *border) {
  ForwardPass forward(function);
  Block &block = function.getBody().front();
  auto isReadBehind = [&](Value value) {
    return llvm::any_of(value.getUsers(), [&](Operation *user) {
      Operation *owner = forward.getOwner(user);
      return border->isBeforeInBlock(owner) &&
             !owner->hasTrait<OpTrait::IsTerminator>();
    });
  };
  SmallVector<Value> kept;
  for (BlockArgument argument : block.getArguments()) {
    bool isReadBefore = llvm::any_of(argument.getUsers(), [&](Operation *user) {
      return forward.getOwner(user)->isBeforeInBlock(border);
    });
    if (isReadBefore && isReadBehind(argument) &&
        !function.getArgAttr(argument.getArgNumber(), kRoleAttrName))
      kept.push_back(argument);
  }
  for (Operation &op : block) {
    if (&op == border)
      break;
    for (Value result : op.getResults())
      if (!isMadeByEach(forward, result) && isReadBehind(result))
        kept.push_back(result);
  }
  return kept;
}

//===----------------------------------------------------------------------===//
// Joining
//===----------------------------------------------------------------------===//

/// Returns the names of the arguments of other stages' programs: values with
/// these names are sent to other stages.
static llvm::DenseSet<Attribute>
findReadElsewhere(ArrayRef<func::FuncOp> programs) {
  auto getEntry = [](func::FuncOp function) -> Attribute {
    auto part =
        function->getAttrOfType<StageProgramAttr>(kStageProgramAttrName);
    return part ? part.getEntry() : Attribute();
  };
  llvm::DenseSet<Attribute> names;
  func::FuncOp first = programs.front();
  for (auto other : first->getParentOfType<ModuleOp>().getOps<func::FuncOp>())
    if (getEntry(other) == getEntry(first) &&
        !llvm::is_contained(programs, other))
      for (unsigned i = 0; i < other.getNumArguments(); ++i)
        names.insert(other.getArgAttr(i, kNameAttrName));
  return names;
}

LogicalResult heddle::verifyPorts(func::FuncOp program) {
  auto fail = [&](StringRef kind, unsigned number) {
    return program.emitError()
           << kind << " " << number << ": expected a name (" << kNameAttrName
           << ") on each port of a stage's program";
  };
  for (unsigned i = 0; i < program.getNumArguments(); ++i)
    if (!program.getArgAttrOfType<StringAttr>(i, kNameAttrName))
      return fail("argument", i);
  for (unsigned i = 0; i < program.getNumResults(); ++i)
    if (!program.getResultAttrOfType<StringAttr>(i, kNameAttrName))
      return fail("result", i);
  return success();
}

JoinedStage::JoinedStage(ArrayRef<func::FuncOp> parts) {
  func::FuncOp first = parts.front();
  auto part = first->getAttrOfType<StageProgramAttr>(kStageProgramAttrName);
  OpBuilder builder(first);
  function = builder.create<func::FuncOp>(
      first.getLoc(),
      (part.getEntry().getValue() + "_stage_" + Twine(part.getStage())).str(),
      builder.getFunctionType({}, {}));
  function.addEntryBlock();
  for (func::FuncOp program : parts)
    add(program, program == parts.back());

  // A value that only the stage's own programs read is no result of the joined
  // function.
  llvm::DenseSet<Attribute> elsewhere = findReadElsewhere(parts), own;
  for (func::FuncOp program : parts)
    for (unsigned i = 0; i < program.getNumArguments(); ++i)
      own.insert(program.getArgAttr(i, kNameAttrName));
  SmallVector<Value> results;
  for (auto [index, program] : llvm::enumerate(programs)) {
    llvm::erase_if(program.sent, [&](const Port &port) {
      Attribute name = port.attrs.get(kNameAttrName);
      return !port.attrs.contains(kRoleAttrName) && own.contains(name) &&
             !elsewhere.contains(name);
    });
    for (const Port &port : program.sent)
      results.push_back(port.value);
    if (index == 0)
      function->setAttr(kSentAttrName,
                        builder.getI64IntegerAttr(results.size()));
  }
  Block &body = function.getBody().front();
  builder.setInsertionPointToEnd(&body);
  builder.create<func::ReturnOp>(first.getLoc(), results);
  function.setFunctionType(builder.getFunctionType(
      body.getArgumentTypes(), TypeRange(ValueRange(results))));
  SmallVector<DictionaryAttr> argumentAttrs, resultAttrs;
  for (BlockArgument argument : body.getArguments())
    argumentAttrs.push_back(portOf.lookup(argument));
  for (const Program &program : programs)
    for (const Port &port : program.sent)
      resultAttrs.push_back(port.attrs);
  if (!argumentAttrs.empty())
    function.setAllArgAttrs(argumentAttrs);
  if (!resultAttrs.empty())
    function.setAllResultAttrs(resultAttrs);
}

/// Appends a program to the joined function.
void JoinedStage::add(func::FuncOp program, bool isLast) {
  Program &part = programs.emplace_back();
  part.function = program;
  Block &body = function.getBody().front();
  IRMapping values;
  for (BlockArgument argument : program.getArguments()) {
    DictionaryAttr attrs = program.getArgAttrDict(argument.getArgNumber());
    Value &value = valueOf[attrs.getAs<StringAttr>(kNameAttrName)];
    if (!value) {
      value = body.addArgument(argument.getType(), argument.getLoc());
      portOf[value] = attrs;
    }
    values.map(argument, value);
  }
  OpBuilder builder = OpBuilder::atBlockEnd(&body);
  Block &own = program.getBody().front();
  for (Operation &op : own.without_terminator())
    builder.clone(op, values);
  for (OpOperand &operand : own.getTerminator()->getOpOperands()) {
    DictionaryAttr attrs =
        program.getResultAttrDict(operand.getOperandNumber());
    Value value = values.lookup(operand.get());
    valueOf[attrs.getAs<StringAttr>(kNameAttrName)] = value;
    if (!attrs.contains(kRoleAttrName))
      portOf.try_emplace(value, attrs);
    part.sent.push_back({attrs, value});
  }
  if (isLast)
    return;
  auto border = builder.create<arith::ConstantOp>(program.getLoc(),
                                                  builder.getBoolAttr(false));
  border->setAttr(kBorderAttrName, builder.getUnitAttr());
}

//===----------------------------------------------------------------------===//
// Parting
//===----------------------------------------------------------------------===//

/// Returns the attributes of the port of a value that a part gives to a later
/// one. A new port has the value's local type as its global one: nobody but the
/// same device reads it.
DictionaryAttr JoinedStage::getKeptAttrs(Value value) {
  DictionaryAttr &attrs = portOf[value];
  if (attrs)
    return attrs;
  Builder builder(value.getContext());
  StringRef op = getOpName(value.getDefiningOp());
  NamedAttrList list;
  list.set(kNameAttrName, builder.getStringAttr(function.getName() + ".kept" +
                                                Twine(numKept++) +
                                                (op.empty() ? "" : ".") + op));
  MeshRef mesh = getMesh(function->getParentOfType<ModuleOp>());
  auto type = dyn_cast<RankedTensorType>(value.getType());
  if (mesh && type) {
    list.set(kShardingAttrName,
             makeSharding(mesh, DimensionAxes(type.getRank())));
    list.set(kGlobalTypeAttrName, TypeAttr::get(type));
  }
  return attrs = list.getDictionary(value.getContext());
}

void JoinedStage::part() {
  ForwardPass forward(function);
  SmallVector<SmallVector<Operation *>> parts(1);
  for (Operation &op : function.getBody().front().without_terminator()) {
    if (op.hasAttr(kBorderAttrName))
      parts.emplace_back();
    else
      parts.back().push_back(&op);
  }
  llvm::DenseMap<Operation *, size_t> partOf;
  for (auto [index, ops] : llvm::enumerate(parts))
    for (Operation *op : ops)
      partOf[op] = index;
  // For each part, the values that later parts read.
  SmallVector<llvm::SetVector<Value>> kept(parts.size());
  SmallVector<IRMapping> values(parts.size());
  for (auto [index, ops] : llvm::enumerate(parts)) {
    Program &program = programs[index];
    func::FuncOp old = program.function;
    OpBuilder builder(old);
    auto written = cast<func::FuncOp>(builder.cloneWithoutRegions(*old));
    written.removeArgAttrsAttr();
    written.removeResAttrsAttr();
    Block *body = builder.createBlock(&written.getBody());
    IRMapping &own = values[index];
    SmallVector<DictionaryAttr> attrs;
    std::function<void(Value)> provide = [&](Value value) {
      if (own.contains(value))
        return;
      Operation *maker = value.getDefiningOp();
      if (maker && isMadeByEach(forward, value)) {
        for (Value input : getOutsideInputs(maker))
          provide(input);
        builder.clone(*maker, own);
        return;
      }
      own.map(value, body->addArgument(value.getType(), value.getLoc()));
      attrs.push_back(getKeptAttrs(value));
      if (maker)
        kept[partOf.lookup(maker)].insert(value);
    };
    for (Operation *op : ops) {
      for (Value input : getOutsideInputs(op))
        provide(input);
      builder.clone(*op, own);
    }
    for (const Port &port : program.sent)
      provide(port.value);
    if (!attrs.empty())
      written.setArgAttrsAttr(builder.getArrayAttr(
          SmallVector<Attribute>(attrs.begin(), attrs.end())));
    old.erase();
    program.function = written;
  }
  for (auto [index, program] : llvm::enumerate(programs)) {
    SmallVector<Value> results;
    SmallVector<DictionaryAttr> attrs;
    llvm::DenseSet<Attribute> names;
    auto add = [&](DictionaryAttr port, Value value) {
      if (!names.insert(port.get(kNameAttrName)).second)
        return;
      results.push_back(values[index].lookup(value));
      attrs.push_back(port);
    };
    for (const Port &port : program.sent)
      add(port.attrs, port.value);
    for (Value value : kept[index])
      add(getKeptAttrs(value), value);
    Block &body = program.function.getBody().front();
    OpBuilder builder = OpBuilder::atBlockEnd(&body);
    builder.create<func::ReturnOp>(program.function.getLoc(), results);
    program.function.setFunctionType(builder.getFunctionType(
        body.getArgumentTypes(), TypeRange(ValueRange(results))));
    if (!attrs.empty())
      program.function.setAllResultAttrs(attrs);
  }
  function.erase();
}
