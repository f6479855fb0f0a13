//===- Tables.cpp - The entry points of an artifact -----------------------===//

#include "heddle/Lower/Tables.h"

using namespace mlir;
using namespace heddle;

static SmallVector<ProgramPorts> getPrograms(ModuleOp module) {
  SmallVector<ProgramPorts> programs;
  auto add = [&](auto program) {
    Operation *op = program;
    auto role = op->getAttrOfType<ProgramRoleAttr>(kRoleAttrName);
    programs.push_back(
        {program.getSymName(), op->getAttrOfType<RanksAttr>(kRanksAttrName),
         role ? std::optional(role.getValue()) : std::nullopt,
         op->getAttrOfType<StageProgramAttr>(kStageProgramAttrName),
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

/// Adds the ports of a program to those of a table, and calls of it to the
/// table's only list.
static void addCalls(EntryTable &table, const ProgramPorts &program,
                     int64_t microBatches) {
  TableEntry call;
  call.program = program.name;
  for (auto port : program.inputs.getAsRange<rt::PortAttr>()) {
    PortRoleAttr role = port.getRole();
    if (role && role.getRole() == PortRole::MicroBatch) {
      call.arguments.push_back({TablePlace::Kind::MicroBatch, 0});
      continue;
    }
    call.arguments.push_back(
        {TablePlace::Kind::Input, unsigned(table.inputs.size())});
    table.inputs.push_back(port);
  }
  for (auto port : program.outputs.getAsRange<rt::PortAttr>()) {
    call.results.push_back(
        {TablePlace::Kind::Output, unsigned(table.outputs.size())});
    table.outputs.push_back(port);
  }
  for (call.microBatch = 0; call.microBatch < microBatches; ++call.microBatch)
    table.lists.front().entries.push_back(call);
}

/// Returns the most streams that a program uses.
static int32_t getNumStreams(ModuleOp module) {
  int32_t most = 1;
  for (Operation &op : *module.getBody()) {
    if (auto program = dyn_cast<rt::ProgramOp>(op))
      most = std::max<int32_t>(most, program.getStreams());
    else if (auto program = dyn_cast<rt::ExportOp>(op))
      most = std::max<int32_t>(most, program.getStreams());
  }
  return most;
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
  // A step needs an @accumulate without results, because the next micro-batch
  // would overwrite them.
  bool hasStep = count && accumulate != programs.end() &&
                 update != programs.end() && accumulate->outputs.empty();
  std::vector<EntryTable> tables;
  auto pipeline = module->getAttrOfType<PipelineAttr>(kPipelineAttrName);
  if (module.getOps<MeshOp>().empty())
    pipeline = PipelineAttr();
  llvm::SmallDenseSet<StringAttr> entries; // of the pipeline
  for (ProgramPorts &program : programs) {
    if (hasStep && &program == update)
      continue;
    if (pipeline && program.part) {
      StringAttr entry = program.part.getEntry();
      if (!entries.insert(entry).second)
        continue;
      SmallVector<ProgramPorts> parts;
      for (const ProgramPorts &other : programs)
        if (other.part && other.part.getEntry() == entry)
          parts.push_back(other);
      tables.push_back(
          getPipelineTable(module, pipeline, parts, getNumStreams(module)));
      continue;
    }
    EntryTable &table = tables.emplace_back();
    table.name = program.name.str();
    table.role = program.role;
    table.lists.push_back({program.ranks, {}});
    if (hasStep && &program == accumulate) {
      table.name = stringifyProgramRole(ProgramRole::Step).str();
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
  return llvm::any_of(table.lists, [](const TableList &list) {
    return llvm::any_of(list.entries, [](const TableEntry &entry) {
      return llvm::any_of(entry.arguments, [](const TablePlace &place) {
        return place.kind == TablePlace::Kind::MicroBatch;
      });
    });
  });
}
