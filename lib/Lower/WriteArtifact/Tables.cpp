//===- Tables.cpp - The entry points of an artifact -----------------------===//

#include "Tables.h"

using namespace mlir;
using namespace heddle;

namespace {
/// The facts of a program that are the same in rt.program and rt.export.
struct ProgramPorts {
  StringRef name;
  RanksAttr ranks;
  std::optional<ProgramRole> role;
  ArrayAttr inputs, outputs;
};
} // namespace

static SmallVector<ProgramPorts> getPrograms(ModuleOp module) {
  SmallVector<ProgramPorts> programs;
  auto add = [&](auto program) {
    Operation *op = program;
    auto role = op->getAttrOfType<ProgramRoleAttr>(kRoleAttrName);
    programs.push_back({program.getSymName(),
                        op->getAttrOfType<RanksAttr>(kRanksAttrName),
                        role ? std::optional(role.getValue()) : std::nullopt,
                        program.getInputs(), program.getOutputs()});
  };
  for (Operation &op : *module.getBody()) {
    if (auto program = dyn_cast<rt::ProgramOp>(op))
      add(program);
    else if (auto program = dyn_cast<rt::ExportOp>(op))
      add(program);
  }
  return programs;
}

/// Adds the ports of a program to those of a table, and a call of it.
static void addCalls(EntryTable &table, const ProgramPorts &program,
                     int64_t microBatches) {
  TableCall call;
  call.program = program.name;
  for (auto port : program.inputs.getAsRange<rt::PortAttr>()) {
    PortRoleAttr role = port.getRole();
    if (role && role.getRole() == PortRole::MicroBatch) {
      call.inputs.push_back(std::nullopt);
      continue;
    }
    call.inputs.push_back(table.inputs.size());
    table.inputs.push_back(port);
  }
  for (auto port : program.outputs.getAsRange<rt::PortAttr>()) {
    call.outputs.push_back(table.outputs.size());
    table.outputs.push_back(port);
  }
  for (call.microBatch = 0; call.microBatch < microBatches; ++call.microBatch)
    table.calls.push_back(call);
}

std::vector<EntryTable> heddle::getTables(ModuleOp module) {
  SmallVector<ProgramPorts> programs = getPrograms(module);
  auto find = [&](ProgramRole role) {
    return llvm::find_if(programs,
                         [&](const ProgramPorts &p) { return p.role == role; });
  };
  auto *accumulate = find(ProgramRole::Accumulate),
       *update = find(ProgramRole::Update);
  auto count = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttrName);
  // Results of @accumulate would be overwritten by the next micro-batch; it has
  // none.
  bool hasStep = count && accumulate != programs.end() &&
                 update != programs.end() && accumulate->outputs.empty();
  std::vector<EntryTable> tables;
  for (ProgramPorts &program : programs) {
    if (hasStep && &program == update)
      continue;
    EntryTable &table = tables.emplace_back();
    table.name = program.name;
    table.role = program.role;
    table.ranks = program.ranks;
    if (hasStep && &program == accumulate) {
      table.name = stringifyProgramRole(ProgramRole::Step);
      table.role = ProgramRole::Step;
      table.microBatches = count.getInt();
    }
    addCalls(table, program, table.microBatches);
    if (hasStep && &program == accumulate)
      addCalls(table, *update, 1);
  }
  return tables;
}

bool heddle::takesMicroBatch(const EntryTable &table) {
  return llvm::any_of(table.calls, [](const TableCall &call) {
    return llvm::is_contained(call.inputs, std::nullopt);
  });
}
