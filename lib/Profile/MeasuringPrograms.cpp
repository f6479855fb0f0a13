//===- MeasuringPrograms.cpp - Programs that run calls one at a time ------===//

#include "dialects/Rt/Rt.h"
#include "heddle/Profile/CallKey.h"
#include "heddle/Profile/Measure.h"
#include "mlir/IR/Builders.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace heddle;

/// The pairs of calls that measure the time of a wake-up.
static constexpr int64_t kWakes = 40;
/// The bytes of a message beside computation, and the most messages.
static constexpr int64_t kBesideBytes = int64_t(1) << 20;
static constexpr int64_t kMostMessages = 20000;
/// The seconds of messages per second of the call that they run beside. The
/// messages slow the call down.
static constexpr double kBesideTime = 2;

static int64_t align(int64_t bytes) { return llvm::alignTo(bytes, 64); }

namespace {
/// Writes programs that measure into a module.
class ProgramMaker {
public:
  explicit ProgramMaker(ModuleOp module)
      : module(module), builder(module.getContext()) {
    for (auto op : module.getOps<MeshOp>())
      mesh = op;
  }

  /// Returns the programs of these names, and removes all others.
  llvm::Expected<SmallVector<rt::ProgramOp>>
  takePrograms(ArrayRef<std::string> names) {
    SmallVector<rt::ProgramOp> programs;
    for (auto program :
         llvm::make_early_inc_range(module.getOps<rt::ProgramOp>())) {
      if (!llvm::is_contained(names, program.getSymName())) {
        program.erase();
        continue;
      }
      if (program->hasAttr(kRanksAttrName))
        return llvm::createStringError(
            "expected programs that all ranks run, got '" +
            program.getSymName() +
            "' of some: profile the model by a plan without pp");
      programs.push_back(program);
    }
    return programs;
  }

  /// Makes a program serial: all of its calls stand on stream 0.
  void serialize(rt::ProgramOp program, StringRef prefix) {
    program.walk([&](Operation *op) {
      if (isa<rt::RecordOp, rt::WaitOp>(op))
        op->erase();
      else if (isa<rt::DeviceCallOpInterface>(op))
        op->setAttr("stream", builder.getI32IntegerAttr(0));
    });
    program.setStreams(1);
    program.setSymName((prefix + program.getSymName()).str());
    // With a role, the program would be part of a training step.
    program->removeAttr(kRoleAttrName);
  }

  rt::ProgramOp makeProgram(StringRef name, int64_t arena, int32_t streams) {
    builder.setInsertionPointToEnd(module.getBody());
    auto program = builder.create<rt::ProgramOp>(
        module.getLoc(), builder.getStringAttr(name),
        builder.getI64IntegerAttr(arena), builder.getI32IntegerAttr(streams),
        builder.getArrayAttr({}), builder.getArrayAttr({}));
    program->getRegion(0).emplaceBlock();
    builder.setInsertionPointToEnd(&program->getRegion(0).front());
    return program;
  }

  rt::BufferAttr getArena(int64_t offset, int64_t bytes) {
    return rt::BufferAttr::get(
        builder.getContext(), rt::Space::Arena, FlatSymbolRefAttr(), 0, offset,
        RankedTensorType::get({bytes / 4}, builder.getF32Type()));
  }
  ServesAttr getServes() {
    return ServesAttr::get(builder.getContext(), DataKind::Activation,
                           builder.getStringAttr("profile"));
  }

  MeshOp getMesh() const { return mesh; }

  /// Lets stream 0, on which a program ends, wait for an event.
  void join(int32_t event) {
    builder.create<rt::WaitOp>(module.getLoc(),
                               builder.getI32IntegerAttr(event),
                               builder.getI32IntegerAttr(0));
  }

  /// Appends an all_reduce over all axes of the mesh.
  void addAllReduce(int64_t offset, int64_t bytes, int32_t stream) {
    SmallVector<StringAttr> names;
    for (MeshAxisAttr axis : mesh.getMesh().getAxes())
      names.push_back(axis.getName());
    rt::BufferAttr buffer = getArena(offset, bytes);
    builder.create<rt::AllReduceOp>(
        module.getLoc(), buffer, buffer, FlatSymbolRefAttr::get(mesh),
        AxisListAttr::get(builder.getContext(), names),
        ReductionKindAttr::get(builder.getContext(), ReductionKind::Sum),
        builder.getI32IntegerAttr(stream), getServes());
  }

  /// Appends a copy of a collective with a message of another size.
  void addCollective(Operation *collective, int64_t bytes) {
    auto axes = collective->getAttrOfType<AxisListAttr>("axes");
    int64_t members = mesh.getMesh().getSize(axes.getAxes());
    int64_t in = bytes, out = bytes;
    if (isa<rt::AllGatherOp>(collective))
      out = bytes * members;
    else if (isa<rt::ReduceScatterOp>(collective))
      in = bytes * members;
    else if (isa<rt::AllToAllOp>(collective))
      in = out = bytes * members;
    Operation *copy = builder.clone(*collective);
    copy->setAttr("in", getArena(0, in));
    copy->setAttr("out", getArena(align(in), out));
    copy->setAttr("stream", builder.getI32IntegerAttr(0));
    copy->setAttr("serves", getServes());
    arena = std::max(arena, align(in) + align(out));
  }

  void makeCollectives(ArrayRef<rt::ProgramOp> programs, int64_t mostBytes) {
    llvm::MapVector<std::pair<StringRef, Attribute>, Operation *> kinds;
    for (rt::ProgramOp program : programs)
      program.walk([&](rt::DeviceCallOpInterface call) {
        if (call.isCommunication() && call->hasAttr("in"))
          kinds.insert({{call->getName().getStringRef(), call->getAttr("axes")},
                        call.getOperation()});
      });
    if (kinds.empty())
      return;
    rt::ProgramOp program = makeProgram("collectives", 0, 1);
    for (const auto &[kind, collective] : kinds)
      for (int64_t bytes = 1024; bytes <= mostBytes; bytes *= 4)
        addCollective(collective, bytes);
    if (arena == 0)
      program.erase();
    else
      program.setArena(arena);
  }

  void makeWake() {
    makeProgram(kWakeProgram, 128, 2);
    Location loc = module.getLoc();
    for (int64_t i = 0; i < kWakes; ++i)
      for (int32_t stream : {0, 1}) {
        auto number = builder.getI32IntegerAttr(stream);
        auto other = builder.getI32IntegerAttr(1 - stream);
        if (i > 0 || stream > 0)
          builder.create<rt::WaitOp>(loc, other, number);
        builder.create<rt::FillZeroOp>(loc, getArena(64 * stream, 64), number,
                                       getServes());
        builder.create<rt::RecordOp>(loc, number, number);
      }
    join(1);
  }

  ModuleOp module;
  OpBuilder builder;

private:
  MeshOp mesh;
  int64_t arena = 0; ///< of the collectives
};
} // namespace

llvm::Error heddle::makeAloneProgram(ModuleOp module,
                                     ArrayRef<std::string> names,
                                     const MeasureOptions &options) {
  ProgramMaker maker(module);
  auto programs = maker.takePrograms(names);
  if (!programs)
    return programs.takeError();
  if (maker.getMesh())
    maker.makeCollectives(*programs, options.mostBytes);
  maker.makeWake();
  for (rt::ProgramOp program : *programs)
    maker.serialize(program, "alone_");
  return llvm::Error::success();
}

llvm::Expected<bool> heddle::makeBesideProgram(ModuleOp module,
                                               ArrayRef<std::string> names,
                                               const MachineProfile &measured) {
  ProgramMaker maker(module);
  auto programs = maker.takePrograms(names);
  if (!programs)
    return programs.takeError();
  if (!maker.getMesh() || maker.getMesh().getMesh().getNumDevices() == 1)
    return false;
  double each = 0;
  for (const auto &[key, times] : measured.collectives)
    if (key.kind == "all_reduce")
      each = std::max(each, interpolate(times, kBesideBytes));
  // Without a measured time, assumes that a message moves 5 GB/s.
  if (each <= 0)
    each = double(kBesideBytes) / 5e9;
  CallKeys keys(module);
  OpBuilder &builder = maker.builder;
  for (rt::ProgramOp program : *programs) {
    maker.serialize(program, "beside_");
    int64_t arena = align(program.getArena());
    program.setArena(arena + kBesideBytes);
    program.setStreams(2);
    // Messages are issued before the call that they run beside, because the
    // queue of a stream is short.
    double needed = 0;
    int64_t issued = 0;
    Block &body = program->getRegion(0).front();
    auto calls = llvm::to_vector(body.getOps<rt::DeviceCallOpInterface>());
    for (rt::DeviceCallOpInterface call : calls) {
      auto known = measured.operators.find(keys.get(call));
      if (known != measured.operators.end())
        needed += kBesideTime * known->second.seconds;
      builder.setInsertionPoint(call);
      for (; issued < kMostMessages && double(issued) * each < needed; ++issued)
        maker.addAllReduce(arena, kBesideBytes, 1);
    }
    builder.setInsertionPointToEnd(&body);
    builder.create<rt::RecordOp>(module.getLoc(), builder.getI32IntegerAttr(0),
                                 builder.getI32IntegerAttr(1));
    maker.join(0);
  }
  return true;
}
