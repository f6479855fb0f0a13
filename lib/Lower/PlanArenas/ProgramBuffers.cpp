//===- ProgramBuffers.cpp - A place for every tensor of a program ---------===//

#include "ProgramBuffers.h"
#include "../Batches/Batches.h"
#include "BufferSharing.h"
#include "OffsetAssignment.h"
#include "dialects/Comm/Comm.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace heddle;

/// Returns the op that computes `result`. For the result of a comm.wait, this
/// is the collective.
static Operation *getMaker(OpResult result) {
  if (auto wait = dyn_cast<comm::WaitOp>(result.getOwner()))
    if (comm::StartOp start = wait.getStart())
      return start.getCollective();
  return result.getOwner();
}

/// Returns the operands of the op that computes `result` whose buffer `result`
/// may take.
static SmallVector<int64_t> getInplaceOperands(OpResult result,
                                               SymbolTable &symbols) {
  Operation *op = getMaker(result);
  if (isa<comm::AllReduceOp, comm::BroadcastOp>(op))
    return {0};
  if (auto contract = dyn_cast<ContractOp>(op)) {
    if (contract.getAccumulate())
      return {contract.getAccumulateMutable().begin()->getOperandNumber()};
    return {};
  }
  if (auto contract = dyn_cast<FusedContractOp>(op)) {
    if (contract.getAccumulate() && result.getResultNumber() == 0)
      return {contract.getAccumulateMutable().begin()->getOperandNumber()};
    return {};
  }
  if (auto loop = dyn_cast<WhileOp>(op)) {
    // The carried values start in the buffers of the loop's operands.
    int64_t carried =
        int64_t(result.getResultNumber()) - int64_t(loop.getResults().size());
    if (carried >= 0 && carried < int64_t(loop.getCarried().size()))
      return {carried};
    return {};
  }
  if (auto grad = dyn_cast<EmbeddingGradOp>(op)) {
    if (grad.getAccumulate())
      return {grad.getAccumulateMutable().begin()->getOperandNumber()};
    return {};
  }
  auto call = dyn_cast<func::CallOp>(op);
  if (!call)
    return {};
  Operation *kernel = symbols.lookup(call.getCallee());
  auto inplace =
      kernel ? kernel->getAttrOfType<ArrayAttr>(kInplaceAttrName) : nullptr;
  if (!inplace || inplace.size() <= result.getResultNumber())
    return {};
  auto operands =
      dyn_cast<DenseI64ArrayAttr>(inplace[result.getResultNumber()]);
  return operands ? SmallVector<int64_t>(operands.asArrayRef())
                  : SmallVector<int64_t>();
}

namespace {
class Placer {
public:
  Placer(func::FuncOp program, const PlacementOptions &options)
      : program(program), options(options),
        sharing([this](int read, int written) {
          return mayOverwrite(read, written);
        }) {}

  FailureOr<ProgramBuffers> run();

private:
  /// A memory that exists before the program runs. The list holds them in the
  /// order in which they are pinned.
  struct Memory {
    rt::Space space;
    FlatSymbolRefAttr symbol;
    int64_t index;
  };
  struct Variable {
    /// Contents of the variable's memory: one before the first store, and one
    /// after each store.
    SmallVector<int, 2> versions;
    SmallVector<int, 1> loads; ///< contents of the loaded values
    int stored = -1;           ///< content of the value stored last
  };

  void numberOps();
  LogicalResult addContents();
  int addContent(Value value, int64_t first);
  int addPinned(Memory memory, int64_t bytes, int64_t first, int64_t last);
  /// Adds a content without a place: zeros that a join writes.
  int addZeros(OpOperand &part);
  void addView(int outer, int inner, int64_t offset) {
    sharing.setValues(inner, outer, offset);
    sharing.tryPlace(outer, inner, offset);
  }
  Variable &getVariable(StringAttr name);
  void addLoad(LoadOp load);
  void addStore(StoreOp store);
  void placeVariable(Variable &variable);
  void placeResults();
  void placeJoined();
  void placeInPlace();
  bool mayOverwrite(int read, int written);
  /// Returns the last position at which `user` reads its operands.
  int64_t getUsePosition(Operation *user);
  ProgramBuffers finish();

  int64_t end() const { return static_cast<int64_t>(ops.size()); }

  func::FuncOp program;
  const PlacementOptions &options;
  BufferSharing sharing;
  SmallVector<Operation *> ops;
  DenseMap<Operation *, int64_t> positions;
  DenseMap<Value, int> contents;
  SmallVector<Value> values; ///< by content; null if no value has it
  SmallVector<Memory> memories;
  llvm::MapVector<StringAttr, Variable> variables;
};
} // namespace

void Placer::numberOps() {
  for (Operation &op : program.getBody().front()) {
    // The calls of a batch run at the same time.
    Attribute batch = op.getAttr(kBatchAttrName);
    bool isLater =
        batch && !ops.empty() && ops.back()->getAttr(kBatchAttrName) == batch;
    positions[&op] = isLater ? positions[ops.back()] : ops.size();
    ops.push_back(&op);
  }
}

int64_t Placer::getUsePosition(Operation *user) {
  // An asynchronous collective reads its operand until the wait.
  if (auto start = dyn_cast<comm::StartOp>(user->getParentOp())) {
    int64_t last = positions[start];
    for (Operation *wait : start->getUsers())
      last = std::max(last, positions[wait]);
    return last;
  }
  return positions[user];
}

int Placer::addContent(Value value, int64_t first) {
  auto type = cast<RankedTensorType>(value.getType());
  int64_t last = first;
  for (Operation *user : value.getUsers())
    last = std::max(last, getUsePosition(user));
  int content = sharing.add(rt::getByteSize(type), first, last);
  values.push_back(value);
  contents[value] = content;
  return content;
}

int Placer::addPinned(Memory memory, int64_t bytes, int64_t first,
                      int64_t last) {
  int content = sharing.add(bytes, first, last);
  values.push_back(nullptr);
  sharing.pin(content, memories.size());
  memories.push_back(memory);
  return content;
}

int Placer::addZeros(OpOperand &part) {
  int64_t position = positions[part.getOwner()];
  int content =
      sharing.add(rt::getByteSize(cast<RankedTensorType>(part.get().getType())),
                  position, position);
  values.push_back(nullptr);
  return content;
}

LogicalResult Placer::addContents() {
  for (BlockArgument argument : program.getArguments()) {
    auto type = cast<RankedTensorType>(argument.getType());
    // The caller owns the arguments, so nothing overwrites them.
    int memory =
        addPinned({rt::Space::Argument, nullptr, argument.getArgNumber()},
                  rt::getByteSize(type), -1, end());
    addView(memory, addContent(argument, -1), 0);
  }
  for (Operation *op : ops) {
    int64_t position = positions[op];
    if (auto store = dyn_cast<StoreOp>(op))
      addStore(store);
    for (OpResult result : op->getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      if (!type ||
          (!result.use_empty() && llvm::all_of(result.getUses(), isZeroPart)))
        continue;
      comm::StartOp start;
      if (auto wait = dyn_cast<comm::WaitOp>(op))
        start = wait.getStart();
      int content = addContent(result, start ? positions[start] : position);
      sharing.setReady(content, position);
      sharing.extend(content, position); // live while it is written
      if (std::optional<int64_t> offset = getViewOffset(result))
        addView(contents.lookup(op->getOperand(0)), content, *offset);
      else if (auto load = dyn_cast<LoadOp>(op))
        addLoad(load);
      else if (isJoin(op))
        sharing.setValues(
            content,
            llvm::map_to_vector(op->getOpOperands(), [&](OpOperand &part) {
              return isZeroPart(part) ? addZeros(part)
                                      : contents.lookup(part.get());
            }));
      else if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
        auto elements = dyn_cast<ElementsAttr>(constant.getValue());
        if (!elements)
          return op->emitOpError() << "expected a tensor of known elements";
        int memory = addPinned({rt::Space::Constant,
                                options.getConstant(op->getLoc(), elements), 0},
                               rt::getByteSize(type), -1, end());
        addView(memory, content, 0);
      }
    }
  }
  return success();
}

Placer::Variable &Placer::getVariable(StringAttr name) {
  auto [known, isNew] = variables.try_emplace(name);
  if (isNew) {
    auto op = options.symbols.lookup<VariableOp>(name);
    int64_t bytes = op ? rt::getByteSize(rt::getLocalType(op)) : 0;
    known->second.versions.push_back(addPinned(
        {rt::Space::Variable, FlatSymbolRefAttr::get(name), 0}, bytes, -1, -1));
  }
  return known->second;
}

void Placer::addLoad(LoadOp load) {
  Variable &variable = getVariable(load.getVariableAttr().getAttr());
  int content = contents.lookup(load.getResult());
  sharing.setValues(content, variable.versions.back());
  // If the loaded value gets a buffer of its own, the load becomes a copy,
  // which reads the variable at the position of the load.
  sharing.extend(variable.versions.back(), positions[load]);
  variable.loads.push_back(content);
}

void Placer::addStore(StoreOp store) {
  Variable &variable = getVariable(store.getVariableAttr().getAttr());
  int stored = contents.lookup(store.getValue());
  int version = sharing.add(sharing.getBytes(variable.versions[0]),
                            positions[store], positions[store]);
  values.push_back(nullptr);
  sharing.setValues(version, stored);
  variable.versions.push_back(version);
  variable.stored = stored;
}

void Placer::placeVariable(Variable &variable) {
  // The last version of the variable lives to the end. The lives of versions
  // follow one another, so they always fit into the variable. A content that is
  // placed later must not overlap them.
  sharing.extend(variable.versions.back(), end());
  for (int version : ArrayRef<int>(variable.versions).drop_front())
    sharing.tryPlace(variable.versions[0], version, 0);
  for (int load : variable.loads)
    sharing.tryPlace(variable.versions[0], load, 0);
  if (options.inPlace && variable.stored >= 0)
    sharing.tryPlace(variable.versions[0], variable.stored, 0);
}

void Placer::placeResults() {
  for (OpOperand &operand :
       program.getBody().front().getTerminator()->getOpOperands()) {
    int value = contents.lookup(operand.get());
    int memory =
        addPinned({rt::Space::Result, nullptr, operand.getOperandNumber()},
                  sharing.getBytes(value), 0, -1);
    if (options.inPlace)
      sharing.tryPlace(memory, value, 0);
  }
}

void Placer::placeJoined() {
  for (Operation *op : ops)
    if (isJoin(op)) {
      int64_t offset = 0;
      for (OpOperand &part : op->getOpOperands()) {
        if (!isZeroPart(part))
          sharing.tryPlace(contents.lookup(op->getResult(0)),
                           contents.lookup(part.get()), offset);
        offset += rt::getByteSize(cast<RankedTensorType>(part.get().getType()));
      }
    }
}

void Placer::placeInPlace() {
  for (Operation *op : ops) {
    for (OpResult result : op->getResults()) {
      if (!isa<RankedTensorType>(result.getType()))
        continue;
      for (int64_t k : getInplaceOperands(result, options.symbols)) {
        Operation *maker = getMaker(result);
        if (k < 0 || k >= maker->getNumOperands() ||
            !isa<RankedTensorType>(maker->getOperand(k).getType()))
          continue;
        int read = contents.lookup(maker->getOperand(k));
        int written = contents.lookup(result);
        if (sharing.getBytes(read) != sharing.getBytes(written))
          continue;
        // A result that takes a part of a larger buffer keeps the whole buffer
        // alive. A buffer that is larger only by its padding is fine.
        int group = sharing.getGroup(read);
        int64_t bytes = sharing.getBytes(written);
        if (sharing.getBytesOfGroup(group) > bytes + bytes / 16 &&
            sharing.getMemory(group) < 0 &&
            sharing.getLife(group).second < sharing.getLast(written))
          continue;
        if (sharing.tryPlace(read, written, 0))
          break;
      }
    }
  }
}

bool Placer::mayOverwrite(int read, int written) {
  Value from = values[read], to = values[written];
  if (!from || !to)
    return false;
  auto result = dyn_cast<OpResult>(to);
  if (!result)
    return false;
  Operation *op = getMaker(result);
  // Other ops may still read the operand while an op in the background
  // overwrites it.
  for (Operation *user : from.getUsers())
    if (user != op && getUsePosition(user) >= sharing.getFirst(written))
      return false;
  SmallVector<int64_t> allowed = getInplaceOperands(result, options.symbols);
  bool found = false;
  for (OpOperand &operand : op->getOpOperands()) {
    if (operand.get() == from) {
      if (found || !llvm::is_contained(allowed, operand.getOperandNumber()))
        return false;
      found = true;
    } else if (auto other = contents.find(operand.get());
               other != contents.end() &&
               sharing.overlap(other->second, read)) {
      // Another operand of the op reads the same memory.
      return false;
    }
  }
  return found;
}

ProgramBuffers Placer::finish() {
  ProgramBuffers buffers;
  MLIRContext *context = program.getContext();
  SmallVector<LiveBuffer> live;
  SmallVector<int> index(sharing.getNumGroups(), -1);
  for (size_t group = 0; group < sharing.getNumGroups(); ++group) {
    if (sharing.getMembers(group).empty() || sharing.getMemory(group) >= 0)
      continue;
    // A group without values is a version of a variable that could not be
    // placed in the variable: the stored value is copied there, and needs no
    // memory of its own here.
    if (llvm::none_of(sharing.getMembers(group),
                      [&](int member) { return bool(values[member]); }))
      continue;
    index[group] = live.size();
    auto [first, last] = sharing.getLife(group);
    live.push_back({sharing.getBytesOfGroup(group), first, last});
  }
  OffsetAssignment assignment = assignOffsets(live, kBufferAlignment);
  buffers.arenaBytes = assignment.peak;
  buffers.arenaBound = getMaxLiveBytes(live, kBufferAlignment);
  for (auto [value, content] : contents) {
    int group = sharing.getGroup(content);
    int64_t offset = sharing.getOffset(content);
    auto type = cast<RankedTensorType>(value.getType());
    if (int memory = sharing.getMemory(group); memory >= 0) {
      const Memory &m = memories[memory];
      buffers.places[value] = rt::BufferAttr::get(context, m.space, m.symbol,
                                                  m.index, offset, type);
    } else {
      buffers.places[value] =
          rt::BufferAttr::get(context, rt::Space::Arena, nullptr, 0,
                              assignment.offsets[index[group]] + offset, type);
    }
  }
  return buffers;
}

FailureOr<ProgramBuffers> Placer::run() {
  if (failed(verifyProgramForm(program)))
    return failure();
  numberOps();
  if (failed(addContents()))
    return failure();
  for (auto &[name, variable] : variables)
    placeVariable(variable);
  placeResults();
  if (options.inPlace) {
    placeJoined();
    placeInPlace();
  }
  return finish();
}

FailureOr<ProgramBuffers>
heddle::placeBuffers(func::FuncOp program, const PlacementOptions &options) {
  return Placer(program, options).run();
}
