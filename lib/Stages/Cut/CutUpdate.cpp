//===- CutUpdate.cpp - The update of each device's variables --------------===//

#include "UpdateCutter.h"
#include "heddle/Stages/CutNames.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace heddle;

/// Returns whether an op passes on a sum of the devices' terms.
static bool isLinear(Operation *op) {
  return isa<arith::AddFOp, ReshardOp>(op);
}

static bool isScalar(Value value) {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return type && type.getRank() == 0 && type.getElementType().isF32();
}

LogicalResult UpdateCutter::findRoots() {
  llvm::DenseSet<Value> mixed;
  llvm::BitVector all(pipeline.devices, true);
  for (Operation &op : update.getBody().front().without_terminator()) {
    llvm::BitVector devices = all, some(pipeline.devices);
    bool isMixed = false, isAfter = false;
    if (auto load = dyn_cast<LoadOp>(op)) {
      VariableOp variable = getVariable(load.getVariableAttr());
      // Each device has its own sum of losses.
      isMixed = variable.getRole() == VariableRole::Loss && pipeline.hasBarrier;
      if (llvm::BitVector own = owners.getDevices(getParameterOf(variable));
          own.any())
        devices = own;
    }
    SmallVector<Value> inputs = getInputs(&op);
    for (Value input : inputs) {
      isMixed |= mixed.contains(input);
      isAfter |= afterRoots.contains(input);
      devices &= getDevices(input);
      some |= getDevices(input);
    }
    // A scalar sum is mixed even if some devices have all of its terms, because
    // other devices may need the sum.
    bool isScalarSum = isa<arith::AddFOp>(op) && isScalar(op.getResult(0));
    if (!isMixed && !isAfter && isLinear(&op) &&
        (devices.none() || (isScalarSum && devices != some)))
      isMixed = true;
    if (!pipeline.hasBarrier && isAfter && (devices.none() || isa<StoreOp>(op)))
      return op.emitOpError()
             << "depends on a sum over all stages, such as the norm of all "
                "gradients, for which every stage has to wait: expected no "
                "clipping (--clip 0), or a barrier at the end of each step "
                "(--pipeline-barrier step, or no \"pipeline_barrier\" in the "
                "plan)";
    if (devices.none() && !isMixed)
      return op.emitOpError()
             << "needs the variables of several stages, and is no sum of "
                "scalars: it cannot be cut";
    bool isSum = isMixed && isLinear(&op) && !isAfter;
    if (isMixed && !isSum && !isa<LoadOp>(op)) {
      // The inputs that are sums over devices are whole from here on.
      for (Value input : inputs)
        if (mixed.contains(input)) {
          if (!isScalar(input))
            return op.emitOpError()
                   << "reads a sum over stages of type " << input.getType()
                   << ": expected tensor<f32>";
          roots.insert(input);
        }
      isAfter = true;
      // The op runs on the devices that have all its other inputs.
      devices = all;
      for (Value input : inputs)
        if (!mixed.contains(input))
          devices &= getDevices(input);
      if (devices.none())
        return op.emitOpError() << "needs the variables of several stages";
      if (!pipeline.hasBarrier)
        devices &= getLastDevice();
      isMixed = false;
    }
    if (isSum)
      sums.insert(&op);
    for (Value result : op.getResults()) {
      devicesOf[result] = isMixed ? all : devices;
      if (isMixed)
        mixed.insert(result);
      if (isAfter)
        afterRoots.insert(result);
    }
  }
  for (Value result : update.getBody().front().getTerminator()->getOperands())
    if (mixed.contains(result))
      roots.insert(result);
  // The ops that the roots depend on.
  SmallVector<Value> pending(roots.begin(), roots.end());
  while (!pending.empty()) {
    Operation *op = pending.pop_back_val().getDefiningOp();
    if (!op || !beforeRoots.insert(op).second)
      continue;
    for (Value input : getInputs(op)) {
      if (roots.contains(input) && afterRoots.contains(op->getResult(0)))
        return op->emitOpError() << "adds up over stages what depends on "
                                    "another sum over stages";
      pending.push_back(input);
    }
  }
  return success();
}

SmallVector<VariableOp> UpdateCutter::getSharedGradients(int64_t device) {
  SmallVector<VariableOp> shared;
  for (auto variable :
       update->getParentOfType<ModuleOp>().getOps<VariableOp>()) {
    StringAttr parameter = getParameterOf(variable);
    if (variable.getRole() == VariableRole::Gradient &&
        owners.isShared(parameter) && owners.getDevices(parameter)[device])
      shared.push_back(variable);
  }
  return shared;
}

/// Returns the attributes of an argument or result that carries the gradient of
/// a shared variable from a device to another one.
DictionaryAttr UpdateCutter::getGradientAttrs(VariableOp gradient,
                                              int64_t device) {
  Builder builder(update.getContext());
  SmallVector<NamedAttribute> attrs = {builder.getNamedAttr(
      kNameAttrName,
      builder.getStringAttr(getGivenName(device, gradient.getSymName())))};
  if (ShardingAttr storage = gradient.getStorageAttr())
    attrs.push_back(builder.getNamedAttr(kShardingAttrName, storage));
  return builder.getDictionaryAttr(attrs);
}

func::FuncOp UpdateCutter::addFunction(StageWork work, int64_t device,
                                       TypeRange arguments,
                                       ArrayRef<DictionaryAttr> attrs) {
  MLIRContext *context = update.getContext();
  OpBuilder builder(update);
  auto function = builder.create<func::FuncOp>(
      update.getLoc(), getPartName(entry, {work, device}),
      builder.getFunctionType(arguments, {}));
  function.addEntryBlock();
  if (!attrs.empty())
    function.setAllArgAttrs(attrs);
  function->setAttr(kStageProgramAttrName,
                    StageProgramAttr::get(context,
                                          StringAttr::get(context, entry), work,
                                          device));
  if (RanksAttr ranks = pipeline.getRanks(device))
    function->setAttr(kRanksAttrName, ranks);
  return function;
}

void heddle::addReturn(func::FuncOp function, ValueRange results,
                       ArrayRef<DictionaryAttr> attrs) {
  OpBuilder builder = OpBuilder::atBlockEnd(&function.getBody().front());
  builder.create<func::ReturnOp>(function.getLoc(), results);
  function.setFunctionType(
      builder.getFunctionType(function.getArgumentTypes(), TypeRange(results)));
  if (!attrs.empty())
    function.setAllResultAttrs(attrs);
}

static LoadOp loadGradient(OpBuilder &builder, VariableOp gradient) {
  auto load =
      builder.create<LoadOp>(gradient.getLoc(), gradient.getTensorType(),
                             FlatSymbolRefAttr::get(gradient));
  load->setAttr(kShardingAttrName, gradient.getStorageAttr());
  return load;
}

func::FuncOp UpdateCutter::writeGradients(int64_t device) {
  func::FuncOp function = addFunction(StageWork::SendGradients, device, {}, {});
  OpBuilder builder = OpBuilder::atBlockEnd(&function.getBody().front());
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> attrs;
  for (VariableOp gradient : getSharedGradients(device)) {
    results.push_back(loadGradient(builder, gradient));
    attrs.push_back(getGradientAttrs(gradient, device));
  }
  addReturn(function, results, attrs);
  return function;
}

/// Returns whether a device runs an op, which is no sum over devices.
bool UpdateCutter::isOfDevice(Operation *op, int64_t device) {
  if (auto store = dyn_cast<StoreOp>(op)) {
    llvm::BitVector own =
        owners.getDevices(getParameterOf(getVariable(store.getVariableAttr())));
    return own.none() || own[device];
  }
  return op->getNumResults() == 0 || getDevices(op->getResult(0))[device];
}

/// Builds the device's own terms of a sum over devices; null if it has none. A
/// term of several devices is that of the first of them.
Value UpdateCutter::addTerms(OpBuilder &builder, Operation *op,
                             IRMapping &values, int64_t device) {
  SmallVector<Value> terms;
  for (Value operand : op->getOperands()) {
    Value own = values.lookupOrNull(operand);
    Operation *maker = operand.getDefiningOp();
    bool isTerm = !(maker && (sums.contains(maker) || isa<LoadOp>(maker)));
    const llvm::BitVector &devices = getDevices(operand);
    if (own && (!isTerm || devices.find_first() == device))
      terms.push_back(own);
    else
      terms.push_back(Value());
  }
  if (llvm::all_of(terms, [](Value term) { return !term; }))
    return Value();
  if (terms.size() == 2 && (!terms[0] || !terms[1]))
    return terms[0] ? terms[0] : terms[1];
  IRMapping own;
  for (auto [operand, term] : llvm::zip(op->getOperands(), terms))
    own.map(operand, term);
  return builder.clone(*op, own)->getResult(0);
}

LogicalResult UpdateCutter::writeDevice(int64_t device) {
  SmallVector<VariableOp> shared = getSharedGradients(device);
  SmallVector<Type> types;
  SmallVector<DictionaryAttr> attrs;
  llvm::DenseMap<std::pair<StringAttr, int64_t>, unsigned> arguments;
  for (VariableOp gradient : shared) {
    llvm::BitVector sharing = owners.getDevices(getParameterOf(gradient));
    for (unsigned other : sharing.set_bits()) {
      if (other == device)
        continue;
      arguments[{gradient.getSymNameAttr(), other}] = types.size();
      types.push_back(gradient.getTensorType());
      attrs.push_back(getGradientAttrs(gradient, other));
    }
  }
  func::FuncOp function = addFunction(StageWork::Update, device, types, attrs);
  OpBuilder builder = OpBuilder::atBlockEnd(&function.getBody().front());
  IRMapping values;
  bool isComplete = true;
  auto write = [&](Operation &op) {
    auto load = dyn_cast<LoadOp>(op);
    if (sums.contains(&op)) {
      if (Value sum = addTerms(builder, &op, values, device))
        values.map(op.getResult(0), sum);
      return;
    }
    if (!isOfDevice(&op, device))
      return;
    for (Value input : getInputs(&op))
      if (!values.contains(input)) {
        op.emitOpError() << "needs a value that device " << device
                         << " of the pipeline does not have: it cannot be cut";
        isComplete = false;
        return;
      }
    builder.clone(op, values);
    if (!load ||
        !llvm::is_contained(shared, getVariable(load.getVariableAttr())))
      return;
    // The sum of all devices' gradients, in the devices' order.
    Value own = values.lookup(load.getResult()), sum;
    auto name = load.getVariableAttr().getAttr();
    VariableOp variable = getVariable(load.getVariableAttr());
    llvm::BitVector sharing = owners.getDevices(getParameterOf(variable));
    for (unsigned other : sharing.set_bits()) {
      Value term = own;
      if (other != device)
        term = function.getArgument(arguments.lookup({name, other}));
      if (!sum) {
        sum = term;
        continue;
      }
      auto addition = builder.create<arith::AddFOp>(load.getLoc(), sum, term);
      ShardingAttr storage = variable.getStorageAttr();
      ShardingRule rule = getRule(addition);
      FactorAxes axes(rule.factors.size());
      for (auto [dim, list] :
           llvm::zip(rule.results[0], getDimensions(storage)))
        if (dim.size() == 1)
          axes[dim[0]] = list;
      writeFactorAxes(addition, rule, axes);
      sum = addition;
    }
    values.map(load.getResult(), sum);
  };
  Block &body = update.getBody().front();
  for (Operation &op : body.without_terminator())
    if (beforeRoots.contains(&op))
      write(op);
  if (pipeline.hasBarrier)
    sumRoots(builder, values, device);
  for (Operation &op : body.without_terminator())
    if (!beforeRoots.contains(&op) &&
        (pipeline.hasBarrier || !isAfterRoots(&op)))
      write(op);
  if (!isComplete)
    return failure();
  SmallVector<Value> results;
  SmallVector<DictionaryAttr> resultAttrs;
  for (OpOperand &operand : body.getTerminator()->getOpOperands()) {
    Value own = values.lookupOrNull(operand.get());
    if (!own || (!pipeline.hasBarrier && roots.contains(operand.get())))
      continue;
    results.push_back(own);
    resultAttrs.push_back(update.getResultAttrDict(operand.getOperandNumber()));
  }
  if (!pipeline.hasBarrier &&
      failed(takeTerms(values, device, results, resultAttrs)))
    return failure();
  addReturn(function, results, resultAttrs);
  return success();
}

LogicalResult UpdateCutter::run() {
  if (failed(findRoots()))
    return failure();
  for (int64_t device = 0; device < pipeline.devices; ++device) {
    if (!getSharedGradients(device).empty())
      writeGradients(device);
    if (failed(writeDevice(device)))
      return failure();
    if (!pipeline.hasBarrier)
      writeReport(device);
  }
  update.erase();
  return success();
}

LogicalResult heddle::cutUpdate(func::FuncOp update, StringRef entry,
                                const Pipeline &pipeline,
                                const VariableOwners &owners) {
  return UpdateCutter(update, entry, pipeline, owners).run();
}
