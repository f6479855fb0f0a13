//===- LiveBytes.cpp - Bytes of a device that programs use ----------------===//

#include "LiveBytes.h"
#include "dialects/Comm/Comm.h"
#include "dialects/Heddle/Heddle.h"
#include "dialects/Heddle/Ranks.h"
#include "heddle/Sharding/FactorShardings.h"
#include "heddle/Support/Bytes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/MapVector.h"
#include <map>

using namespace mlir;
using namespace heddle;

int64_t heddle::getFixedBytes(ModuleOp module, RanksAttr ranks) {
  int64_t bytes = 0;
  llvm::DenseSet<Attribute> counted;
  auto count = [&](Attribute variable, Type type) {
    if (counted.insert(variable).second)
      bytes += getBytes(type);
  };
  for (auto function : module.getOps<func::FuncOp>()) {
    if (ranks && function->getAttr(kRanksAttrName) != ranks)
      continue;
    function.walk([&](Operation *op) {
      if (auto load = dyn_cast<LoadOp>(op))
        count(load.getVariableAttr(), load.getType());
      else if (auto store = dyn_cast<StoreOp>(op))
        count(store.getVariableAttr(), store.getValue().getType());
    });
    // Each program has memory of its own for arguments and results.
    if (function->hasAttr(kKernelAttrName) || function.isPrivate())
      continue;
    auto countPort = [&](Type type, DictionaryAttr attrs) {
      if (!ranks || (attrs && attrs.contains(kRoleAttrName)))
        bytes += getBytes(type);
    };
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      countPort(type, function.getArgAttrDict(i));
    for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
      countPort(type, function.getResultAttrDict(i));
  }
  return bytes;
}

int64_t heddle::getDeviceBytes(ModuleOp module, const Cluster &cluster,
                               RanksAttr ranks) {
  MeshRef mesh = getMesh(module);
  if (!ranks || !mesh)
    return cluster.device.memory;
  return cluster.getDeviceOf(getDevicesOfRanks(mesh.mesh, ranks)).memory;
}

int64_t heddle::getFreeBytes(ModuleOp module, const Cluster &cluster,
                             RanksAttr ranks) {
  int64_t bytes =
      getDeviceBytes(module, cluster, ranks) - getFixedBytes(module, ranks);
  return std::max<int64_t>(bytes, 0);
}

//===----------------------------------------------------------------------===//
// Slots of a pipeline
//===----------------------------------------------------------------------===//

FailureOr<StageSchedule> heddle::getStageSchedule(ModuleOp module,
                                                  PipelineAttr pipeline,
                                                  MeshAttr mesh) {
  auto table = module->getAttrOfType<StringAttr>(kStageTableAttrName);
  auto count = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttrName);
  llvm::Expected<StageSchedule> schedule = getSchedule(
      pipeline, table ? table.getValue() : "",
      mesh.getAxisSize(pipeline.getAxis()), count ? count.getInt() : 0);
  if (!schedule)
    return module.emitError() << llvm::toString(schedule.takeError());
  return std::move(*schedule);
}

namespace {
/// The programs of an entry point of a pipeline.
class EntryPrograms {
public:
  explicit EntryPrograms(ArrayRef<func::FuncOp> programs);

  /// Returns the bytes of the slots on a device of `ranks`.
  int64_t getSlotBytes(const StageSchedule &schedule, RanksAttr ranks,
                       bool isStep);

private:
  /// A program of the device, and the micro-batch that it is called for.
  using Call = std::pair<func::FuncOp, int64_t>;
  using PortFn = llvm::function_ref<void(Attribute name, Type type)>;

  /// Calls `visit` for the arguments, or for the results, that other programs
  /// make or read.
  void forArguments(func::FuncOp program, PortFn visit);
  void forResults(func::FuncOp program, PortFn visit);
  /// Returns the calls of a device of `ranks` in order.
  SmallVector<Call> getCalls(const StageSchedule &schedule, RanksAttr ranks,
                             bool isStep);

  ArrayRef<func::FuncOp> programs;
  llvm::DenseSet<Attribute> made, read; ///< the names of such values
};
} // namespace

static StageProgramAttr getPart(func::FuncOp program) {
  return program->getAttrOfType<StageProgramAttr>(kStageProgramAttrName);
}

EntryPrograms::EntryPrograms(ArrayRef<func::FuncOp> programs)
    : programs(programs) {
  for (func::FuncOp program : programs) {
    for (unsigned i = 0; i < program.getNumArguments(); ++i)
      if (!program.getArgAttr(i, kRoleAttrName))
        read.insert(program.getArgAttr(i, kNameAttrName));
    for (unsigned i = 0; i < program.getNumResults(); ++i)
      if (!program.getResultAttr(i, kRoleAttrName))
        made.insert(program.getResultAttr(i, kNameAttrName));
  }
}

void EntryPrograms::forArguments(func::FuncOp program, PortFn visit) {
  for (auto [i, type] : llvm::enumerate(program.getArgumentTypes()))
    if (Attribute name = program.getArgAttr(i, kNameAttrName);
        !program.getArgAttr(i, kRoleAttrName) && made.contains(name))
      visit(name, type);
}

void EntryPrograms::forResults(func::FuncOp program, PortFn visit) {
  for (auto [i, type] : llvm::enumerate(program.getResultTypes()))
    if (Attribute name = program.getResultAttr(i, kNameAttrName);
        !program.getResultAttr(i, kRoleAttrName) && read.contains(name))
      visit(name, type);
}

SmallVector<EntryPrograms::Call>
EntryPrograms::getCalls(const StageSchedule &schedule, RanksAttr ranks,
                        bool isStep) {
  SmallVector<Call> calls;
  auto add = [&](StageWork work, std::optional<int64_t> stage,
                 int64_t microBatch) {
    for (func::FuncOp program : programs)
      if (program->getAttr(kRanksAttrName) == ranks &&
          getPart(program).getWork() == work &&
          (!stage || getPart(program).getStage() == *stage))
        calls.push_back({program, microBatch});
  };
  int64_t stages = schedule.getNumStages();
  if (isStep) {
    for (const std::vector<StageTask> &tasks : schedule.devices)
      for (const StageTask &task : tasks)
        add(task.work, task.stage, task.microBatch);
  } else {
    for (int64_t stage = 0; stage < stages; ++stage)
      add(StageWork::Forward, stage, 0);
    for (int64_t stage = stages; stage-- > 0;)
      add(StageWork::Backward, stage, 0);
  }
  for (StageWork work :
       {StageWork::SendGradients, StageWork::Update, StageWork::Report})
    add(work, std::nullopt, 0);
  return calls;
}

int64_t EntryPrograms::getSlotBytes(const StageSchedule &schedule,
                                    RanksAttr ranks, bool isStep) {
  // Call i runs at the time 2 * i + 1. A value from another device is received
  // before the call that precedes its reader, at an even time.
  struct Life {
    int64_t bytes = 0, begin = 0, end = 0;
  };
  llvm::MapVector<std::pair<Attribute, int64_t>, Life> lives;
  for (auto [i, call] : llvm::enumerate(getCalls(schedule, ranks, isStep))) {
    auto [program, microBatch] = call;
    int64_t time = 2 * int64_t(i) + 1;
    forArguments(
        program, [&, microBatch = microBatch](Attribute name, Type type) {
          Life received{getBytes(type), std::max<int64_t>(time - 3, 0), time};
          auto [life, isNew] = lives.insert({{name, microBatch}, received});
          life->second.end = time;
        });
    forResults(
        program, [&, microBatch = microBatch](Attribute name, Type type) {
          lives.insert({{name, microBatch}, {getBytes(type), time, time}});
        });
  }
  // By size: the change of the number of slots in use at each time.
  std::map<int64_t, std::map<int64_t, int64_t>> changes;
  for (const auto &[value, life] : lives) {
    ++changes[life.bytes][life.begin];
    --changes[life.bytes][life.end + 1];
  }
  int64_t bytes = 0;
  for (const auto &[size, times] : changes) {
    int64_t used = 0, most = 0;
    for (auto [time, change] : times)
      most = std::max(most, used += change);
    bytes += size * most;
  }
  return bytes;
}

int64_t heddle::getSlotBytes(ModuleOp module, const StageSchedule &schedule,
                             RanksAttr ranks) {
  llvm::MapVector<StringAttr, SmallVector<func::FuncOp>> entries;
  for (auto function : module.getOps<func::FuncOp>())
    if (StageProgramAttr part = getPart(function))
      entries[part.getEntry()].push_back(function);
  int64_t bytes = 0;
  for (const auto &[entry, programs] : entries)
    bytes += EntryPrograms(programs).getSlotBytes(
        schedule, ranks,
        entry.getValue() == stringifyProgramRole(ProgramRole::Step) &&
            module->hasAttr(kMicroBatchesAttrName));
  return bytes;
}

//===----------------------------------------------------------------------===//
// Live tensors
//===----------------------------------------------------------------------===//

bool heddle::isView(Operation *op) {
  auto work = dyn_cast<WorkOpInterface>(op);
  if (!work || op->getNumOperands() == 0 || !isMemoryEffectFree(op))
    return false;
  Work all = work.getWork();
  return all.flops == 0 && all.bytesRead == 0 && all.bytesWritten == 0;
}

/// Returns the tensor in which a value lies.
static Value getBase(OpResult result) {
  Operation *op = result.getOwner();
  if (auto barrier = dyn_cast<BarrierOp>(op))
    return barrier.getValues()[result.getResultNumber()];
  return isView(op) && op->getNumOperands() > 0 ? op->getOperand(0) : Value();
}

/// Returns whether a scatter reads the op's result, perhaps in another shape or
/// order, and nothing else does. True of the scatter, too.
static bool isOnlyScattered(Operation *op) {
  if (isa<comm::ReduceScatterOp>(op))
    return true;
  auto work = dyn_cast<WorkOpInterface>(op);
  return (!work || work.getWork().flops == 0) && isMemoryEffectFree(op) &&
         op->hasOneUse() && isOnlyScattered(*op->user_begin());
}

/// Returns the place of each op of a block in the order in which memory is
/// counted: that of the text, but values that are only scattered are scattered
/// as soon as they are known.
static llvm::DenseMap<Operation *, size_t> getPlaces(Block &block) {
  llvm::DenseMap<Operation *, size_t> places;
  for (auto [i, op] : llvm::enumerate(block)) {
    places[&op] = i;
    if (op.getNumOperands() == 0 || !isOnlyScattered(&op))
      continue;
    size_t place = 0;
    for (Value operand : op.getOperands())
      if (Operation *def = operand.getDefiningOp())
        place = std::max(place, places.lookup(def));
    places[&op] = place;
  }
  return places;
}

int64_t heddle::getPeakBytes(Block &block) {
  llvm::DenseMap<Operation *, size_t> places = getPlaces(block);
  // From the back, so that a view's last use is known before its base's.
  llvm::DenseMap<Value, size_t> lastUse;
  SmallVector<int64_t> change(block.getOperations().size() + 2, 0);
  for (Operation &op : llvm::reverse(block)) {
    size_t place = places[&op];
    bool isPlaced = !isa<LoadOp>(op) && !op.hasTrait<OpTrait::ConstantLike>();
    for (OpResult result : op.getResults()) {
      size_t last = std::max(lastUse.lookup(result), place);
      for (Operation *user : result.getUsers())
        last = std::max(last, places[block.findAncestorOpInBlock(*user)]);
      if (Value base = getBase(result)) {
        size_t &use = lastUse[base];
        use = std::max(use, last);
      } else if (isPlaced) {
        int64_t bytes = getBytes(result.getType());
        change[place] += bytes;
        change[last + 1] -= bytes;
      }
    }
  }
  int64_t live = 0, peak = 0;
  for (int64_t bytes : change)
    peak = std::max(peak, live += bytes);
  return peak;
}
