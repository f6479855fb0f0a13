//===- OrderProgram.cpp - heddle-order-program ----------------------------===//

#include "../Flight.h"
#include "../LiveBytes.h"
#include "ChunkProducts.h"
#include "ProgramGraph.h"
#include "heddle/Schedule/Passes.h"
#include "heddle/Sharding/ReshardSequence.h"
#include "heddle/Support/Bytes.h"
#include "llvm/Support/FormatVariadic.h"

#include <deque>

namespace heddle {
#define GEN_PASS_DEF_ORDERPROGRAMPASS
#include "heddle/Schedule/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {
/// Writes a schedule into the text of a program.
class Writer {
public:
  Writer(Block &block, const ProgramGraph &program)
      : block(block), program(program) {}

  /// Puts the ops in the order of the schedule. An op that takes no time comes
  /// right before the first op that needs it. A collective comes right behind
  /// the last computation that it needs, so that it can start as soon as its
  /// links are free. A collective that needs no computation comes before the
  /// computation during which the schedule starts it.
  void order(const Schedule &schedule);

private:
  void emit(Operation *op);
  /// Emits the collectives that can be issued right after the computations up
  /// to a position of the schedule. A collective that needs another collective
  /// is not issued before its own position in the schedule, because the
  /// computations after it would also have to wait.
  void emitCollectives(int64_t position);

  Block &block;
  const ProgramGraph &program;
  llvm::DenseSet<Operation *> emitted;
  /// The collectives of each queue that are not emitted yet, by start.
  /// `positions` has the position in the schedule after which each is emitted
  /// at the latest.
  std::vector<std::deque<int32_t>> waiting;
  std::vector<int64_t> positions;
};

/// A form of a program, and its best schedule.
struct Candidate {
  func::FuncOp function; ///< the program itself, or a changed copy of it
  ProgramGraph program;
  Schedule schedule;
};

struct OrderProgram : heddle::impl::OrderProgramPassBase<OrderProgram> {
  using Base::Base;

  void runOnOperation() override;

private:
  /// Returns the function with its best schedule. If `other` is not null,
  /// returns nullopt unless that schedule is better than that of `other`.
  std::optional<Candidate> makeCandidate(func::FuncOp function,
                                         const Candidate *other = nullptr);
  void orderFunction(func::FuncOp function);
  /// Returns the most bytes of live tensors of programs of these ranks. If
  /// nothing is left of a device's memory, warns, and returns 0: then the
  /// schedule with the fewest live bytes is the best one.
  int64_t getLiveLimit(func::FuncOp function);
  void reportOn(const Candidate &best);

  /// The data that all programs of the module share.
  struct Context {
    SymbolTable symbols;
    MeshAttr mesh;
    MeshTopology topology;
    ScheduleOptions options;
    std::optional<StageSchedule> stages; ///< if the module is a pipeline
    llvm::DenseMap<Attribute, int64_t> liveLimits; ///< by ranks
    GroupStreams groups;
    llvm::SmallSetVector<Type, 2> typesWithoutRate;
  };
  std::optional<Context> context;
};
} // namespace

void Writer::emit(Operation *op) {
  if (op->getBlock() != &block || !emitted.insert(op).second)
    return;
  op->walk([&](Operation *inner) {
    for (Value operand : inner->getOperands())
      if (Operation *maker = operand.getDefiningOp();
          maker && maker->getBlock() == &block)
        emit(maker);
  });
  if (auto it = program.before.find(op); it != program.before.end())
    for (Operation *earlier : it->second)
      emit(earlier);
  op->moveBefore(block.getTerminator());
}

void Writer::emitCollectives(int64_t position) {
  const std::vector<Unit> &units = program.graph.units;
  auto isReady = [&](int32_t unit) {
    if (positions[unit] <= position || units[unit].isAhead)
      return positions[unit] <= position;
    return llvm::all_of(units[unit].after, [&](int32_t earlier) {
      return units[earlier].queue == 0 &&
             emitted.contains(program.ops[earlier]);
    });
  };
  for (std::deque<int32_t> &queue : waiting)
    for (; !queue.empty() && isReady(queue.front()); queue.pop_front())
      emit(program.ops[queue.front()]);
}

void Writer::order(const Schedule &schedule) {
  SmallVector<Operation *> text;
  for (Operation &op : block.without_terminator())
    text.push_back(&op);
  waiting.resize(program.graph.queues);
  positions.resize(program.ops.size());
  int64_t running = 0; ///< the position of the last computation
  for (auto [position, unit] : llvm::enumerate(schedule.order)) {
    const Unit &it = program.graph.units[unit];
    if (it.queue == 0) {
      running = int64_t(position);
      continue;
    }
    // A unit that runs ahead waits for no computation. It begins while the
    // computation at `running` runs, so its start op must stand before this
    // computation: it is emitted at the position before.
    positions[unit] = it.isAhead ? running - 1 : int64_t(position);
    waiting[it.queue].push_back(unit);
  }
  emitCollectives(-1);
  for (auto [position, unit] : llvm::enumerate(schedule.order)) {
    if (program.graph.units[unit].queue == 0)
      emit(program.ops[unit]);
    emitCollectives(int64_t(position));
  }
  for (Operation *op : text)
    emit(op);
}

/// An operand that is larger than its collective's result by this many bytes is
/// worth a wait of its own.
static constexpr int64_t kManyBytes = 1 << 20;

/// Returns whether an early wait before `op` frees much memory: the
/// collective's operand has many more bytes than its result, memory of its own,
/// and no later reader.
static bool freesOperand(Flight flight, Operation *op) {
  Operation *collective = flight.start.getCollective();
  Value operand = collective->getOperand(0);
  Operation *maker = operand.getDefiningOp();
  if (!maker || isa<LoadOp>(maker) || isView(maker) ||
      getBytes(operand.getType()) <
          getBytes(collective->getResult(0).getType()) + kManyBytes)
    return false;
  return llvm::all_of(operand.getUsers(), [&](Operation *user) {
    return op->getBlock()->findAncestorOpInBlock(*user)->isBeforeInBlock(op);
  });
}

/// Lets the collectives of a block, which is in its final order, run beside the
/// computations. A wait stands before the first reader. The wait of a
/// collective that reads much more than it writes, such as the scatter of a
/// gradient, may stand earlier, so that its operand is freed: before the first
/// computation that the schedule begins after the collective has ended, and as
/// much time again has passed. So a collective that takes longer than expected
/// delays nothing, up to twice its time.
static void startCollectives(Block &block, const ProgramGraph &program,
                             const Schedule &schedule, GroupStreams &groups) {
  std::vector<Operation *> computations;
  std::vector<double> starts;
  llvm::DenseMap<Operation *, double> until; // by collective
  for (int32_t unit : schedule.order) {
    Operation *op = program.ops[unit];
    const Unit &it = program.graph.units[unit];
    // A collective of one device has no links, so it has the queue of
    // computations.
    if (it.queue > 0 || op->hasTrait<comm::Collective>()) {
      until[op] = schedule.start[unit] + 2 * it.seconds;
      continue;
    }
    computations.push_back(op);
    starts.push_back(schedule.start[unit]);
  }
  SmallVector<Flight> flights;
  for (Operation &op : llvm::make_early_inc_range(block))
    if (op.hasTrait<comm::Collective>())
      flights.push_back(makeFlight(&op, groups.get(&op)));
  // Finds all places before the first move, because each move makes the block
  // number its ops again for the next comparison.
  SmallVector<Operation *> places;
  for (Flight flight : flights) {
    Operation *&place = places.emplace_back(getFirstReader(flight));
    auto known = until.find(flight.start.getCollective());
    if (known == until.end())
      continue;
    auto next = llvm::lower_bound(starts, known->second);
    if (next == starts.end())
      continue;
    Operation *early = computations[next - starts.begin()];
    if (flight.start->isBeforeInBlock(early) && early->isBeforeInBlock(place) &&
        freesOperand(flight, early))
      place = early;
  }
  for (auto [flight, place] : llvm::zip(flights, places))
    flight.wait->moveBefore(place);
}

static std::string inMilliseconds(double seconds) {
  return llvm::formatv("{0:f3} ms", seconds * 1e3);
}

/// Returns the bytes of the largest buffer of a unit that runs ahead.
static int64_t getLargestAhead(const UnitGraph &graph) {
  int64_t most = 0;
  for (const UnitBuffer &buffer : graph.buffers)
    if (graph.units[buffer.writer].isAhead)
      most = std::max(most, buffer.bytes);
  return most;
}

/// Returns the best schedule found. Beyond the limit of live bytes, units are
/// chosen by their bytes alone, and a limit that no schedule meets gives poor
/// schedules. So if the best schedule exceeds the limit, searches with higher
/// limits, each half of the bytes of the last schedule, as long as that helps.
static Schedule findFittingSchedule(const UnitGraph &graph,
                                    const ScheduleOptions &options) {
  Schedule best = findSchedule(graph, options);
  while (best.peakBytes / 2 > options.limits.liveBytes) {
    ScheduleOptions loose = options;
    loose.limits.liveBytes = best.peakBytes / 2;
    Schedule next = findSchedule(graph, loose);
    if (!isBetter(next, best, options.limits))
      break;
    best = std::move(next);
  }
  return best;
}

/// Chunks are used only if they make a program shorter by this fraction: the
/// cost model is no more exact than that, and each chunk is one more collective
/// to issue.
static constexpr double kLeastGain = 0.005;

std::optional<Candidate> OrderProgram::makeCandidate(func::FuncOp function,
                                                     const Candidate *other) {
  ProgramGraph program =
      buildProgramGraph(function.getBody().front(), context->symbols,
                        context->mesh, context->topology);
  for (Type type : program.typesWithoutRate)
    if (context->typesWithoutRate.insert(type))
      function.emitWarning()
          << "the cluster '" << context->topology.getCluster().name
          << "' states no peak rate of " << type
          << ": the order is chosen as if it were that of f32 (device.peak)";
  ScheduleOptions options = context->options;
  options.limits.aheadBytes =
      ahead > 0 ? int64_t(ahead) : getLargestAhead(program.graph);
  const UnitGraph &graph = program.graph;
  std::optional<Schedule> schedule;
  if (order == ProgramOrder::Turns)
    schedule = scheduleByRank(graph, getTurns(graph), options.limits);
  else if (other && other->schedule.peakBytes <= options.limits.liveBytes)
    schedule = findShorterSchedule(graph, options,
                                   other->schedule.seconds * (1 - kLeastGain));
  else
    schedule = findFittingSchedule(graph, options);
  if (!schedule ||
      (other && !isBetter(*schedule, other->schedule, options.limits)))
    return std::nullopt;
  return Candidate{function, std::move(program), std::move(*schedule)};
}

/// Returns whether chunks of products cannot make a program much shorter.
static bool isNearBound(const Candidate &candidate,
                        const ScheduleOptions &options) {
  ScheduleBounds bounds = getBounds(candidate.program.graph);
  return candidate.schedule.seconds <=
             std::max(bounds.computation, bounds.links) *
                 (1 + options.tolerance) &&
         candidate.schedule.peakBytes <= options.limits.liveBytes;
}

void OrderProgram::reportOn(const Candidate &best) {
  const UnitGraph &graph = best.program.graph;
  ScheduleBounds bounds = getBounds(graph);
  Schedule sequence = scheduleInSequence(graph);
  func::FuncOp function = best.function;
  function.emitRemark() << "@" << function.getName() << " takes "
                        << inMilliseconds(best.schedule.seconds)
                        << " by the cost model, "
                        << inMilliseconds(sequence.seconds)
                        << " if nothing overlaps; at least "
                        << inMilliseconds(bounds.get()) << " (computation "
                        << inMilliseconds(bounds.computation) << ", links "
                        << inMilliseconds(bounds.links) << ", longest chain "
                        << inMilliseconds(bounds.criticalPath) << "); "
                        << best.schedule.peakBytes
                        << " bytes are live at most, " << sequence.peakBytes
                        << " in the order of the text";
}

int64_t OrderProgram::getLiveLimit(func::FuncOp function) {
  if (memory > 0)
    return memory;
  auto ranks = function->getAttrOfType<RanksAttr>(kRanksAttrName);
  auto [known, isNew] = context->liveLimits.try_emplace(ranks);
  if (!isNew)
    return known->second;
  ModuleOp module = getOperation();
  int64_t capacity =
      getDeviceBytes(module, context->topology.getCluster(), ranks);
  int64_t fixed = getFixedBytes(module, ranks);
  // Without ranks, values between programs are among the arguments and results.
  int64_t slots = ranks && context->stages
                      ? getSlotBytes(module, *context->stages, ranks)
                      : 0;
  int64_t free = std::max<int64_t>(capacity - fixed - slots, 0);
  known->second = free - std::min<int64_t>(reserve, free);
  if (free == 0) {
    InFlightDiagnostic warning = function.emitWarning();
    warning << "variables, arguments and results take " << fixed
            << " bytes of a device";
    if (slots > 0)
      warning << ", and values between stages " << slots;
    warning << "; it has " << capacity << ": @" << function.getName();
    if (ranks)
      warning << " and the other programs of its ranks are";
    else
      warning << " is";
    warning << " ordered for the fewest live bytes, which may take longer";
  }
  return known->second;
}

void OrderProgram::orderFunction(func::FuncOp function) {
  if (llvm::none_of(function.getBody().front(), [](Operation &op) {
        return op.hasTrait<comm::Collective>();
      }))
    return;
  context->options.limits.liveBytes = getLiveLimit(function);
  Candidate best = *makeCandidate(function);
  // Smaller chunks hide more and cost more launches.
  for (int64_t count = 2;
       count <= chunks && !isNearBound(best, context->options); count *= 2) {
    func::FuncOp copy = function.clone();
    if (chunkProducts(copy.getBody().front(), count) == 0) {
      copy.erase();
      break; // no product has so many rows, or a multiple of so many
    }
    std::optional<Candidate> next = makeCandidate(copy, &best);
    if (!next) {
      copy.erase();
      continue;
    }
    if (best.function != function)
      best.function.erase();
    best = std::move(*next);
  }
  Writer(best.function.getBody().front(), best.program).order(best.schedule);
  startCollectives(best.function.getBody().front(), best.program, best.schedule,
                   context->groups);
  if (best.function != function) {
    function.getBody().takeBody(best.function.getBody());
    best.function.erase();
    best.function = function;
  }
  if (report)
    reportOn(best);
}

void OrderProgram::runOnOperation() {
  ModuleOp module = getOperation();
  if (failed(verifyStreams(module, streams)))
    return signalPassFailure();
  for (auto [name, bytes] : {std::pair("memory", int64_t(memory)),
                             std::pair("reserve", int64_t(reserve)),
                             std::pair("look-ahead", int64_t(ahead))})
    if (bytes < 0) {
      module.emitError() << "expected a " << name
                         << " of at least 0 bytes, got " << bytes;
      return signalPassFailure();
    }
  MeshRef mesh = getMesh(module);
  if (!mesh)
    return;
  auto sequences = ReshardSequences::create(module, mesh, cluster);
  if (failed(sequences))
    return signalPassFailure();
  const MeshTopology &topology = sequences->getTopology();
  std::optional<StageSchedule> stages;
  if (auto pipeline = module->getAttrOfType<PipelineAttr>(kPipelineAttrName)) {
    FailureOr<StageSchedule> schedule =
        getStageSchedule(module, pipeline, mesh.mesh);
    if (failed(schedule))
      return signalPassFailure();
    stages = std::move(*schedule);
  }
  ScheduleOptions options;
  options.tries = tries;
  options.seed = seed;
  context.emplace(Context{SymbolTable(module),
                          mesh.mesh,
                          topology,
                          options,
                          std::move(stages),
                          llvm::DenseMap<Attribute, int64_t>(),
                          GroupStreams(streams),
                          {}});
  for (auto function : module.getOps<func::FuncOp>())
    if (!function.isExternal() && !function->hasAttr(kKernelAttrName) &&
        function.getBody().hasOneBlock())
      orderFunction(function);
  module.walk([](Operation *op) {
    for (StringRef name : {kSecondsAttrName, kSlowdownAttrName,
                           kLinkFactorAttrName, kLoadAttrName})
      op->removeDiscardableAttr(name);
  });
  context.reset();
}
