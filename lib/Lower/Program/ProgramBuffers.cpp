//===- ProgramBuffers.cpp - A place for every tensor of a program ---------===//

#include "ProgramBuffers.h"
#include "BufferSharing.h"
#include "OffsetAssignment.h"
#include "dialects/Comm/Comm.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

std::optional<int64_t> heddle::getViewOffset(OpResult result) {
  Operation *op = result.getOwner();
  if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op))
    return 0;
  auto type = dyn_cast<RankedTensorType>(result.getType());
  if (isa<UnstackOp>(op))
    return result.getResultNumber() * rt::getByteSize(type);
  auto slice = dyn_cast<tensor::ExtractSliceOp>(op);
  if (!slice)
    return std::nullopt;
  // Contiguous: one element along the first dimensions, all along the last,
  // any number along the one between.
  ArrayRef<int64_t> shape = slice.getSourceType().getShape();
  ArrayRef<int64_t> sizes = slice.getStaticSizes();
  if (ShapedType::isDynamicShape(sizes) ||
      ShapedType::isDynamicShape(slice.getStaticOffsets()) ||
      llvm::any_of(slice.getStaticStrides(), [](int64_t s) { return s != 1; }))
    return std::nullopt;
  size_t split = 0;
  while (split < sizes.size() && sizes[split] == 1)
    ++split;
  for (size_t i = split + 1; i < sizes.size(); ++i)
    if (sizes[i] != shape[i])
      return std::nullopt;
  int64_t offset = 0;
  for (auto [index, stride] :
       llvm::zip(slice.getStaticOffsets(), rt::getDenseStrides(shape)))
    offset += index * stride;
  return offset * rt::getByteSize(type.getElementType());
}

/// The operands of `op` whose buffer its result may take.
static SmallVector<int64_t> getInplaceOperands(OpResult result,
                                               SymbolTable &symbols) {
  Operation *op = result.getOwner();
  if (isa<comm::AllReduceOp, comm::BroadcastOp, comm::PermuteOp>(op))
    return {0};
  if (auto contract = dyn_cast<ContractOp>(op)) {
    if (contract.getAccumulate())
      return {contract.getAccumulateMutable().begin()->getOperandNumber()};
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
      kernel ? kernel->getAttrOfType<ArrayAttr>(rt::kInplaceAttrName) : nullptr;
  if (!inplace || inplace.size() <= result.getResultNumber())
    return {};
  auto operands =
      dyn_cast<DenseI64ArrayAttr>(inplace[result.getResultNumber()]);
  return operands ? SmallVector<int64_t>(operands.asArrayRef())
                  : SmallVector<int64_t>();
}

/// Whether a program can run the op (index arithmetic included).
static bool isProgramOp(Operation *op) {
  if (isa<ContractOp, heddle::AttentionOp, heddle::AttentionGradOp,
          heddle::EmbeddingGradOp, heddle::RotaryTableOp, LoadOp, StoreOp,
          StackOp, UnstackOp, func::CallOp, func::ReturnOp,
          tensor::ExpandShapeOp, tensor::CollapseShapeOp,
          tensor::ExtractSliceOp>(op))
    return true;
  if (isa<comm::CommDialect>(op->getDialect()))
    return true;
  if (isa<arith::ArithDialect>(op->getDialect()))
    return isa<arith::ConstantOp>(op) ||
           llvm::none_of(op->getResultTypes(),
                         [](Type type) { return isa<TensorType>(type); });
  return false;
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
  /// Memories given from outside, in the order in which they are pinned.
  struct Memory {
    rt::Space space;
    FlatSymbolRefAttr symbol;
    int64_t index;
  };
  /// The values of a variable between two stores, and what is stored last.
  struct Variable {
    int first = -1;              ///< the content before the first store
    SmallVector<StoreOp> stores; ///< in order
    SmallVector<LoadOp> loads;
  };

  LogicalResult numberOps();
  LogicalResult addContents();
  int addContent(Value value, int64_t first);
  int addPinned(Memory memory, int64_t bytes, int64_t first, int64_t last);
  void placeVariable(StringAttr name, Variable &variable);
  void placeResults();
  void placeStacks();
  void placeInPlace();
  bool mayOverwrite(int read, int written);
  /// The last use of a value or of a view of it.
  int64_t getLastUse(Value value);
  /// The position of an op at which its operands are needed to the last.
  int64_t getUsePosition(Operation *user);
  ProgramBuffers finish();

  int64_t end() const { return static_cast<int64_t>(ops.size()); }

  func::FuncOp program;
  const PlacementOptions &options;
  BufferSharing sharing;
  SmallVector<Operation *> ops;
  DenseMap<Operation *, int64_t> positions;
  DenseMap<Value, int> contents;
  SmallVector<Value> values; ///< of each content, null for none
  SmallVector<Memory> memories;
  llvm::MapVector<StringAttr, Variable> variables;
};
} // namespace

LogicalResult Placer::numberOps() {
  if (!program.getBody().hasOneBlock())
    return program.emitOpError() << "expected a program of one block";
  for (Operation &op : program.getBody().front()) {
    if (!isProgramOp(&op))
      return op.emitOpError()
             << "is not an op that a program can run; expected library calls, "
                "kernels, collectives and views (heddle-form-kernels makes "
                "kernels of the rest)";
    positions[&op] = ops.size();
    ops.push_back(&op);
  }
  return success();
}

int64_t Placer::getUsePosition(Operation *user) {
  // The operand of a collective in flight is read until the wait.
  if (auto start = dyn_cast<comm::StartOp>(user->getParentOp())) {
    int64_t last = positions[start];
    for (Operation *wait : start->getUsers())
      last = std::max(last, positions[wait]);
    return last;
  }
  return positions[user];
}

int64_t Placer::getLastUse(Value value) {
  int64_t last = value.getDefiningOp() ? positions[value.getDefiningOp()] : -1;
  for (Operation *user : value.getUsers()) {
    last = std::max(last, getUsePosition(user));
    for (OpResult result : user->getResults())
      if (getViewOffset(result))
        last = std::max(last, getLastUse(result));
  }
  return last;
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

LogicalResult Placer::addContents() {
  for (BlockArgument argument : program.getArguments()) {
    auto type = dyn_cast<RankedTensorType>(argument.getType());
    if (!type)
      return program.emitOpError()
             << "expected arguments that are tensors, got "
             << argument.getType();
    // Arguments belong to the caller: never overwritten.
    int memory =
        addPinned({rt::Space::Argument, nullptr, argument.getArgNumber()},
                  rt::getByteSize(type), -1, end());
    sharing.addView(memory, addContent(argument, -1), 0);
  }
  for (Operation *op : ops) {
    int64_t position = positions[op];
    if (auto store = dyn_cast<StoreOp>(op))
      variables[store.getVariableAttr().getAttr()].stores.push_back(store);
    for (OpResult result : op->getResults()) {
      auto type = dyn_cast<RankedTensorType>(result.getType());
      if (!type)
        continue;
      if (!type.hasStaticShape() || !rt::getByteSize(type.getElementType()))
        return op->emitOpError()
               << "expected tensors of static shape and of a type that the "
                  "runtime has (f32, bf16, f16, f64, i1, i8, i32, i64), got "
               << type;
      int64_t first = position;
      if (auto wait = dyn_cast<comm::WaitOp>(op))
        if (Operation *start = wait.getToken().getDefiningOp())
          first = positions[start];
      int content = addContent(result, first);
      if (std::optional<int64_t> offset = getViewOffset(result))
        sharing.addView(contents.lookup(op->getOperand(0)), content, *offset);
      else if (auto load = dyn_cast<LoadOp>(op))
        variables[load.getVariableAttr().getAttr()].loads.push_back(load);
      else if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
        auto elements = dyn_cast<ElementsAttr>(constant.getValue());
        if (!elements)
          return op->emitOpError() << "expected a tensor of known elements";
        int memory =
            addPinned({rt::Space::Constant, options.getConstant(elements), 0},
                      rt::getByteSize(type), -1, end());
        sharing.tryPlace(memory, content, 0, /*same=*/true);
      }
    }
  }
  return success();
}

void Placer::placeVariable(StringAttr name, Variable &variable) {
  auto op = options.symbols.lookup<VariableOp>(name);
  int64_t bytes = op ? rt::getByteSize(rt::getLocalType(op)) : 0;
  Memory memory{rt::Space::Variable, FlatSymbolRefAttr::get(name), 0};
  ArrayRef<StoreOp> stores = variable.stores;
  // Version i of the value lives from store i - 1 to store i: only the last use
  // of a load that lies in the variable, and the last version to the end.
  SmallVector<int> versions;
  versions.push_back(addPinned(memory, bytes, -1, stores.empty() ? end() : -1));
  for (auto [i, store] : llvm::enumerate(stores)) {
    bool isLast = i + 1 == stores.size();
    int64_t position = positions[store];
    int version = sharing.add(bytes, position, isLast ? end() : position);
    values.push_back(nullptr);
    versions.push_back(version);
    if (!isLast)
      sharing.tryPlace(versions[0], version, 0);
  }
  for (LoadOp load : variable.loads) {
    size_t version = 0;
    while (version < stores.size() &&
           positions[stores[version]] < positions[load])
      ++version;
    int64_t next = version < stores.size() ? positions[stores[version]] : end();
    if (getLastUse(load.getResult()) > next)
      continue; // the load is copied to the arena
    sharing.extend(versions[version], positions[load]);
    if (version + 1 == versions.size() && !stores.empty())
      continue; // joined below, once the version itself has its place
    sharing.tryPlace(versions[version], contents.lookup(load.getResult()), 0,
                     /*same=*/true);
  }
  if (stores.empty())
    return;
  // The last store: straight into the variable, or a copy.
  StoreOp last = stores.back();
  int version = versions.back(), stored = contents.lookup(last.getValue());
  if (options.inPlace && sharing.getMemory(sharing.getGroup(stored)) < 0 &&
      sharing.tryPlace(versions[0], stored, 0))
    sharing.addView(stored, version, 0); // the stored value lives on
  else
    sharing.tryPlace(versions[0], version, 0);
  for (LoadOp load : variable.loads)
    if (positions[load] > positions[last])
      sharing.tryPlace(version, contents.lookup(load.getResult()), 0,
                       /*same=*/true);
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

void Placer::placeStacks() {
  for (Operation *op : ops)
    if (auto stack = dyn_cast<StackOp>(op))
      for (auto [i, slice] : llvm::enumerate(stack.getSlices()))
        sharing.tryPlace(
            contents.lookup(stack.getResult()), contents.lookup(slice),
            i * rt::getByteSize(cast<RankedTensorType>(slice.getType())),
            /*same=*/true);
}

void Placer::placeInPlace() {
  for (Operation *op : ops) {
    for (OpResult result : op->getResults()) {
      if (!isa<RankedTensorType>(result.getType()))
        continue;
      for (int64_t k : getInplaceOperands(result, options.symbols)) {
        if (k < 0 || k >= op->getNumOperands() ||
            !isa<RankedTensorType>(op->getOperand(k).getType()))
          continue;
        int read = contents.lookup(op->getOperand(k));
        int written = contents.lookup(result);
        if (sharing.getBytes(read) != sharing.getBytes(written))
          continue;
        // A part of a larger buffer would keep the whole alive.
        int group = sharing.getGroup(read);
        if (sharing.getBytesOfGroup(group) > sharing.getBytes(written) &&
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
  Operation *op = result.getOwner();
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
      // The same memory is read through another operand.
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
    // A variable's version that is copied to the variable has no value.
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
  if (failed(numberOps()) || failed(addContents()))
    return failure();
  for (auto &[name, variable] : variables)
    placeVariable(name, variable);
  placeResults();
  if (options.inPlace) {
    placeStacks();
    placeInPlace();
  }
  return finish();
}

FailureOr<ProgramBuffers>
heddle::placeBuffers(func::FuncOp program, const PlacementOptions &options) {
  return Placer(program, options).run();
}
