//===- ProgramFingerprint.cpp - Which program a trace is of ---------------===//

#include "heddle/Lower/ProgramFingerprint.h"
#include "dialects/Heddle/Heddle.h"
#include "dialects/Rt/Rt.h"
#include "heddle/Lower/Tables.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/xxhash.h"

using namespace mlir;
using namespace heddle;

static void writeCall(llvm::raw_ostream &out, rt::DeviceCallOpInterface call) {
  out << call->getName().getStringRef();
  for (Type type : call->getOperandTypes())
    out << ' ' << type;
  for (NamedAttribute attribute : call->getAttrDictionary())
    if (attribute.getValue() != Attribute(call.getServes()))
      out << ' ' << attribute.getName().getValue() << '='
          << attribute.getValue();
  out << '\n';
}

static void writeTable(llvm::raw_ostream &out, const EntryTable &table) {
  out << table.name << ' ' << table.microBatches << '\n';
  for (const TableList &list : table.lists) {
    for (const TableEntry &entry : list.entries)
      out << int(entry.kind) << ' ' << entry.program << ' ' << entry.microBatch
          << ' ' << entry.slot << ' ' << entry.peer << ' ' << entry.stream
          << ';';
    out << '\n';
  }
}

std::string heddle::getProgramFingerprint(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream out(text);
  for (auto mesh : module.getOps<MeshOp>())
    out << mesh.getMesh() << '\n';
  for (const EntryTable &table : getTables(module))
    writeTable(out, table);
  for (auto program : module.getOps<rt::ProgramOp>()) {
    out << program.getSymName() << '\n';
    program->walk<WalkOrder::PreOrder>(
        [&](rt::DeviceCallOpInterface call) { writeCall(out, call); });
  }
  std::string digits;
  llvm::raw_string_ostream(digits) << llvm::format(
      "%016llx", static_cast<unsigned long long>(llvm::xxh3_64bits(out.str())));
  return digits;
}
