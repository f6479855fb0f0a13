//===- Entry.cpp - What an entry point calls ------------------------------===//

#include "heddle/Lower/Tables.h"
#include "heddle/Simulate/Simulate.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringExtras.h"

using namespace mlir;
using namespace heddle;

static CallList makeList(std::vector<ProgramCall> calls) {
  CallList list;
  list.ranks = calls.front().program->getAttrOfType<RanksAttr>(kRanksAttrName);
  list.calls = std::move(calls);
  return list;
}

//===----------------------------------------------------------------------===//
// Pipelines
//===----------------------------------------------------------------------===//

namespace {
/// Makes a list of a table's list. Transfers become ops in a module of their
/// own.
class ListMaker {
public:
  ListMaker(ModuleOp module, const EntryTable &table)
      : table(table), symbols(module), mesh(*module.getOps<MeshOp>().begin()),
        transfers(std::make_shared<OwningOpRef<ModuleOp>>(
            ModuleOp::create(module.getLoc()))),
        builder(OpBuilder::atBlockEnd((*transfers)->getBody())) {}

  CallList make(const TableList &from) {
    CallList list;
    list.ranks = from.ranks;
    list.transfers = transfers;
    list.hasBarrier = table.hasBarrier;
    for (const TableSlot &slot : table.slots)
      list.slots.push_back(slot.bytes);
    for (const TableEntry &entry : from.entries)
      list.calls.push_back(makeCall(entry));
    return list;
  }

private:
  ProgramCall makeCall(const TableEntry &entry) {
    ProgramCall call;
    call.microBatch = entry.microBatch;
    call.after.assign(entry.after.begin(), entry.after.end());
    if (entry.kind != TableEntry::Kind::Call) {
      call.transfer = getTransfer(entry);
      return call;
    }
    call.program = symbols.lookup<rt::ProgramOp>(entry.program);
    auto getSlots = [](ArrayRef<TablePlace> places) {
      SmallVector<int64_t> slots;
      for (TablePlace place : places)
        slots.push_back(
            place.kind == TablePlace::Kind::Slot ? int64_t(place.index) : -1);
      return slots;
    };
    call.argumentSlots = getSlots(entry.arguments);
    call.resultSlots = getSlots(entry.results);
    return call;
  }

  /// Returns the op of a transfer. Equal transfers of several micro-batches
  /// share one.
  rt::DeviceCallOpInterface getTransfer(const TableEntry &entry) {
    bool sends = entry.kind == TableEntry::Kind::Send;
    Operation *&op =
        ops[{sends, entry.value, entry.slot, entry.peer, entry.stream}];
    if (op)
      return cast<rt::DeviceCallOpInterface>(op);
    MLIRContext *context = builder.getContext();
    Location loc = mesh.getLoc();
    auto type = RankedTensorType::get(table.slots[entry.slot].bytes,
                                      builder.getI8Type());
    auto buffer = rt::BufferAttr::get(
        context, sends ? rt::Space::Argument : rt::Space::Result,
        FlatSymbolRefAttr(), entry.slot, 0, type);
    auto serves = ServesAttr::get(context, DataKind::Activation,
                                  builder.getStringAttr(entry.value));
    Value peer = builder.create<arith::ConstantIndexOp>(loc, entry.peer);
    StringRef symbol = mesh.getSymName();
    auto axes = AxisListAttr::get(context, {table.axis});
    if (sends)
      op = builder.create<rt::SendOp>(loc, buffer, peer, symbol, axes,
                                      entry.stream, serves);
    else
      op = builder.create<rt::RecvOp>(loc, buffer, peer, symbol, axes,
                                      entry.stream, serves);
    return cast<rt::DeviceCallOpInterface>(op);
  }

  const EntryTable &table;
  SymbolTable symbols;
  MeshOp mesh;
  std::shared_ptr<OwningOpRef<ModuleOp>> transfers;
  OpBuilder builder;
  std::map<std::tuple<bool, StringRef, unsigned, int64_t, int32_t>, Operation *>
      ops;
};
} // namespace

//===----------------------------------------------------------------------===//
// Entry points
//===----------------------------------------------------------------------===//

llvm::Expected<std::vector<CallList>> heddle::getEntry(ModuleOp module,
                                                       StringRef name) {
  std::vector<std::string> names;
  if (module->hasAttr(kPipelineAttrName))
    for (const EntryTable &table : getTables(module)) {
      if (table.name != (name.empty() ? "step" : name)) {
        names.push_back(table.name);
        continue;
      }
      ListMaker maker(module, table);
      std::vector<CallList> lists;
      for (const TableList &list : table.lists)
        lists.push_back(maker.make(list));
      return lists;
    }
  else
    for (auto program : module.getOps<rt::ProgramOp>())
      names.push_back(program.getSymName().str());
  auto find = [&](StringRef symbol) {
    return module.lookupSymbol<rt::ProgramOp>(symbol);
  };
  if (auto program = find(name.empty() ? "step" : name))
    return std::vector<CallList>{makeList({{program, 1}})};
  if (name.empty() || name == "step") {
    auto accumulate = find("accumulate"), update = find("update");
    auto count = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttrName);
    if (accumulate && update)
      return std::vector<CallList>{
          makeList({{accumulate, count ? count.getInt() : 1}, {update, 1}})};
  }
  if (name.empty() && names.size() == 1)
    return std::vector<CallList>{makeList({{find(names.front()), 1}})};
  if (names.empty())
    return llvm::createStringError("expected a module with rt programs, got "
                                   "none");
  return llvm::createStringError("expected the name of a program, one of " +
                                 llvm::join(names, ", ") +
                                 (name.empty() ? ", because there is no step"
                                               : ", got '" + name.str() + "'"));
}
