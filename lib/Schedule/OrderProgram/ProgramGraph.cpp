//===- ProgramGraph.cpp - The units of one device's program ---------------===//

#include "ProgramGraph.h"
#include "dialects/Comm/Comm.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Cost/Roofline.h"
#include "heddle/Cost/Work.h"
#include "heddle/Schedule/Passes.h"
#include "heddle/Support/Bytes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

/// Returns whether the op takes no time: its results are views, numbers that
/// the host knows, or lie in a variable.
static bool takesNoTime(Operation &op) {
  if (isa<LoadOp, tensor::ExtractSliceOp>(op) ||
      op.hasTrait<OpTrait::ConstantLike>())
    return true;
  if (!isMemoryEffectFree(&op))
    return false;
  if (llvm::none_of(op.getResultTypes(),
                    [](Type type) { return isa<TensorType>(type); }))
    return true;
  auto work = dyn_cast<WorkOpInterface>(op);
  return work && work.getWork().bytesWritten == 0 && work.getWork().flops == 0;
}

/// Returns whether no other op may move across this one. That is so for loops
/// and transfers, which may use variables or rely on the order of other ops.
static bool isBarrier(Operation &op) {
  return !isMemoryEffectFree(&op) && !isa<func::CallOp, StoreOp>(op) &&
         !op.hasTrait<comm::Collective>();
}

namespace {
class GraphBuilder {
public:
  GraphBuilder(Block &block, const SymbolTable &symbols, MeshAttr mesh,
               const MeshTopology &topology)
      : block(block), symbols(symbols), mesh(mesh), topology(topology) {}

  ProgramGraph build();

private:
  void addUnit(Operation &op);
  void addStore(StoreOp store, int32_t unit);
  void addBarrier(Operation &op, int32_t unit);
  /// Makes the unit run after an earlier one.
  void follow(int32_t unit, int32_t earlier);
  Work getWork(Operation &op);
  void setQueueAndTime(Operation &op, Unit &unit);

  /// The units, buffers and variables that a value comes from.
  struct Origin {
    llvm::SmallSetVector<int32_t, 2> units;     ///< that compute it
    llvm::SmallSetVector<int32_t, 2> buffers;   ///< in which it lies
    llvm::SmallSetVector<Operation *, 2> loads; ///< in whose variables it lies
    bool isData = false; ///< it is computed from arguments of the program
  };
  Origin getOrigin(Operation &op) const;

  /// What happened to a variable so far.
  struct History {
    Operation *store = nullptr;
    std::optional<int32_t> storeUnit;
    SmallVector<Operation *, 2> loads; ///< since the store
  };

  Block &block;
  const SymbolTable &symbols;
  MeshAttr mesh;
  const MeshTopology &topology;
  ProgramGraph program;
  llvm::DenseMap<Value, Origin> origins;
  llvm::DenseMap<Operation *, SmallVector<int32_t, 4>> readersOfLoad;
  llvm::MapVector<Attribute, History> variables;
  llvm::DenseMap<Operation *, Work> workOfKernel;
  std::optional<int32_t> barrier;
  std::vector<bool> needsNoData; ///< by unit: it reads nothing but variables
};
} // namespace

GraphBuilder::Origin GraphBuilder::getOrigin(Operation &op) const {
  Origin all;
  auto add = [&](Value value) {
    all.isData |= isa<BlockArgument>(value) && value.getParentBlock() == &block;
    auto it = origins.find(value);
    if (it == origins.end())
      return;
    all.isData |= it->second.isData;
    all.units.insert(it->second.units.begin(), it->second.units.end());
    all.buffers.insert(it->second.buffers.begin(), it->second.buffers.end());
    all.loads.insert(it->second.loads.begin(), it->second.loads.end());
  };
  op.walk([&](Operation *inner) { llvm::for_each(inner->getOperands(), add); });
  return all;
}

void GraphBuilder::follow(int32_t unit, int32_t earlier) {
  auto &after = program.graph.units[unit].after;
  if (earlier != unit && !llvm::is_contained(after, earlier))
    after.push_back(earlier);
}

/// Returns the work of a computation. A kernel reads its operands and writes
/// its results once, whatever its body does in between. A kernel that looks up
/// rows of an operand reads only these.
Work GraphBuilder::getWork(Operation &op) {
  if (auto itself = dyn_cast<WorkOpInterface>(op))
    return itself.getWork();
  Work work;
  for (Type type : op.getOperandTypes())
    work.bytesRead += getBytes(type);
  for (Type type : op.getResultTypes())
    work.bytesWritten += getBytes(type);
  auto call = dyn_cast<func::CallOp>(op);
  auto kernel =
      call ? symbols.lookup<func::FuncOp>(call.getCallee()) : func::FuncOp();
  if (!kernel)
    return work;
  auto [it, isNew] = workOfKernel.try_emplace(kernel);
  if (isNew)
    it->second = getTotalWork(kernel.getBody());
  work.flops = it->second.flops;
  work.bytesRead = std::min(work.bytesRead, it->second.bytesRead);
  return work;
}

/// Returns the number that a measurement has attached to an op, or `absent`.
static double getNumber(Operation &op, StringRef name, double absent) {
  auto number = op.getAttrOfType<FloatAttr>(name);
  return number ? number.getValueAsDouble() : absent;
}

/// Returns the type whose rate limits a computation. Products and attention
/// compute in the type of their operands, kernels in f32.
static Type getComputeType(Operation &op) {
  if (isa<func::CallOp>(op) || op.getNumOperands() == 0)
    return Float32Type::get(op.getContext());
  return getElementTypeOrSelf(*op.operand_type_begin());
}

void GraphBuilder::setQueueAndTime(Operation &op, Unit &unit) {
  if (isa<StoreOp>(op))
    return;
  if (AxisListAttr axes = getCollectiveAxes(&op)) {
    unit.queue =
        topology.getOutermostLevel(getAxisMask(mesh, axes.getAxes())) + 1;
    unit.seconds = getCollectiveCost(&op, mesh, topology).seconds *
                   getNumber(op, kLinkFactorAttrName, 1);
    unit.load = getNumber(op, kLoadAttrName, 1);
    return;
  }
  unit.slowdown = getNumber(op, kSlowdownAttrName, 1);
  if (op.hasAttr(kSecondsAttrName)) {
    unit.seconds = getNumber(op, kSecondsAttrName, 0);
    return;
  }
  Type type = getComputeType(op);
  const ClusterDevice &device = topology.getCluster().device;
  Work work = getWork(op);
  if (work.flops > 0 && isa<FloatType>(type) && !getProductRate(type, device))
    program.typesWithoutRate.insert(type);
  unit.seconds =
      getRooflineSeconds(work, getNearProductRate(type, device), device);
}

void GraphBuilder::addStore(StoreOp store, int32_t unit) {
  History &history = variables[store.getVariableAttr()];
  Operation *maker = store.getValue().getDefiningOp();
  auto origin = origins.find(store.getValue());
  auto follows = [&](int32_t earlier) {
    follow(unit, earlier);
    if (maker && origin != origins.end())
      for (int32_t computes : origin->second.units)
        if (earlier < computes)
          follow(computes, earlier);
  };
  if (history.storeUnit)
    follows(*history.storeUnit);
  for (Operation *load : history.loads) {
    program.before[store].push_back(load);
    for (int32_t reader : readersOfLoad[load])
      follows(reader);
  }
  history = {store, unit, {}};
}

void GraphBuilder::addBarrier(Operation &op, int32_t unit) {
  for (int32_t earlier = barrier.value_or(0); earlier < unit; ++earlier)
    follow(unit, earlier);
  for (auto &[variable, history] : variables) {
    llvm::append_range(program.before[&op], history.loads);
    history = {&op, unit, {}};
  }
  barrier = unit;
}

void GraphBuilder::addUnit(Operation &op) {
  auto number = static_cast<int32_t>(program.ops.size());
  program.ops.push_back(&op);
  program.graph.units.emplace_back();
  setQueueAndTime(op, program.graph.units.back());
  program.graph.queues =
      std::max(program.graph.queues, program.graph.units.back().queue + 1);
  if (barrier)
    follow(number, *barrier);
  Origin read = getOrigin(op);
  for (int32_t earlier : read.units)
    follow(number, earlier);
  for (Operation *load : read.loads)
    readersOfLoad[load].push_back(number);
  for (int32_t buffer : read.buffers)
    program.graph.buffers[buffer].readers.push_back(number);
  // Gathers of weights may run ahead. They and the ops that prepare their
  // operands read nothing but variables. A product does not count as such an
  // op: a collective of its result is no gather of weights.
  Unit &unit = program.graph.units.back();
  bool isProduct = isa<WorkOpInterface>(op) && getWork(op).flops > 0;
  needsNoData.push_back(!read.isData && !isa<StoreOp>(op) && !isProduct &&
                        !barrier &&
                        llvm::all_of(unit.after, [&](int32_t earlier) {
                          return needsNoData[earlier];
                        }));
  unit.isAhead = unit.queue != 0 && needsNoData.back();
  if (auto store = dyn_cast<StoreOp>(op))
    addStore(store, number);
  else if (isBarrier(op))
    addBarrier(op, number);
  for (Value result : op.getResults()) {
    Origin &origin = origins[result];
    origin.isData = read.isData;
    origin.units.insert(number);
    if (int64_t bytes = getBytes(result.getType())) {
      origin.buffers.insert(program.graph.buffers.size());
      program.graph.buffers.push_back({bytes, number, {}});
    }
  }
}

ProgramGraph GraphBuilder::build() {
  for (Operation &op : block.without_terminator()) {
    if (!takesNoTime(op)) {
      addUnit(op);
      continue;
    }
    Origin origin = getOrigin(op);
    if (auto load = dyn_cast<LoadOp>(op)) {
      History &history = variables[load.getVariableAttr()];
      if (history.store)
        program.before[load].push_back(history.store);
      else if (barrier)
        program.before[load].push_back(program.ops[*barrier]);
      if (history.storeUnit)
        origin.units.insert(*history.storeUnit);
      else if (barrier)
        origin.units.insert(*barrier);
      history.loads.push_back(load);
      origin.loads.insert(load);
    }
    for (OpResult result : op.getResults())
      origins[result] = origin;
    // A barrier's result lies where its value does, but comes after all that
    // the barrier waits for.
    if (auto barrier = dyn_cast<BarrierOp>(op))
      for (auto [result, value] :
           llvm::zip(barrier.getResults(), barrier.getValues())) {
        Origin own = origins.lookup(value);
        own.units = origin.units;
        origins[result] = std::move(own);
      }
  }
  // A returned value lives to the end.
  if (!program.ops.empty())
    for (int32_t buffer : getOrigin(*block.getTerminator()).buffers)
      program.graph.buffers[buffer].readers.push_back(program.ops.size() - 1);
  return std::move(program);
}

ProgramGraph heddle::buildProgramGraph(Block &block, const SymbolTable &symbols,
                                       MeshAttr mesh,
                                       const MeshTopology &topology) {
  return GraphBuilder(block, symbols, mesh, topology).build();
}
