//===- Tables.h - The entry points of an artifact ---------------*- C++ -*-===//

#ifndef HEDDLE_LIB_LOWER_WRITEARTIFACT_TABLES_H
#define HEDDLE_LIB_LOWER_WRITEARTIFACT_TABLES_H

#include "dialects/Rt/Rt.h"
#include "mlir/IR/BuiltinOps.h"
#include <optional>
#include <vector>

namespace heddle {

/// A call of a program in a table.
struct TableCall {
  llvm::StringRef program;
  int64_t microBatch = 0;
  /// By argument: the table's input, or nothing for the micro-batch's number.
  llvm::SmallVector<std::optional<unsigned>> inputs;
  llvm::SmallVector<unsigned> outputs; ///< by result
};

/// What one call of an entry point runs, in order, on all ranks of a set.
struct EntryTable {
  llvm::StringRef name;
  std::optional<ProgramRole> role;
  RanksAttr ranks; ///< null: all
  int64_t microBatches = 1;
  llvm::SmallVector<rt::PortAttr> inputs, outputs;
  llvm::SmallVector<TableCall> calls;
};

/// Returns the tables of a module of rt.program ops or their exports. The table
/// `step` calls the program of role accumulate for each micro-batch of the
/// module, then that of role update. Every other program has a table of its own
/// name and role that calls it once.
std::vector<EntryTable> getTables(mlir::ModuleOp module);

/// Returns whether a call of a table takes the number of its micro-batch.
bool takesMicroBatch(const EntryTable &table);

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_WRITEARTIFACT_TABLES_H
