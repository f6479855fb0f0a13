//===- Tables.h - The entry points of an artifact ---------------*- C++ -*-===//
//
// The calls, sends and receives of each rank in an entry point, in order of
// issue. The manifest of an artifact holds these tables (docs/artifact.md), and
// the simulator executes them.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LOWER_TABLES_H
#define HEDDLE_LOWER_TABLES_H

#include "dialects/Rt/Rt.h"
#include "mlir/IR/BuiltinOps.h"
#include <optional>
#include <vector>

namespace heddle {

/// Where a call of a table finds an argument or puts a result.
struct TablePlace {
  enum class Kind { Input, Output, Slot, MicroBatch };
  Kind kind = Kind::Input;
  unsigned index = 0; ///< of the table's input, output or slot
};

/// One entry of a table: a call of a program, or a transfer of a slot between
/// two devices of a pipeline.
struct TableEntry {
  enum class Kind { Call, Send, Receive };
  Kind kind = Kind::Call;
  llvm::StringRef program;
  int64_t microBatch = 0;
  llvm::SmallVector<TablePlace> arguments, results;
  llvm::StringRef value; ///< of a transfer: the name of what it moves
  unsigned slot = 0;
  int64_t peer = 0; ///< the other device's coordinate along the pipeline's axis
  int32_t stream = 0;
  /// Earlier entries of other streams whose ends this one waits for.
  llvm::SmallVector<unsigned> after;
};

/// The entries of all ranks of a set, in the order of issue.
struct TableList {
  RanksAttr ranks; ///< null: all
  std::vector<TableEntry> entries;
};

/// Memory for a value between two entries.
struct TableSlot {
  int64_t bytes = 0;
  int64_t device = 0; ///< along the pipeline's axis
};

/// The entries that one call of an entry point runs, on all ranks.
struct EntryTable {
  std::string name;
  std::optional<ProgramRole> role;
  int64_t microBatches = 1;
  /// False: a rank that has run its list may begin the next run of the table
  /// before the other ranks have ended this one.
  bool hasBarrier = true;
  llvm::SmallVector<rt::PortAttr> inputs, outputs;
  std::vector<TableSlot> slots;
  std::vector<TableList> lists;
  mlir::StringAttr axis; ///< of transfers; null if there are none
};

/// The facts of a program that are the same in rt.program and rt.export.
struct ProgramPorts {
  llvm::StringRef name;
  RanksAttr ranks;
  std::optional<ProgramRole> role;
  StageProgramAttr part; ///< null if the program is an entry point alone
  mlir::ArrayAttr inputs, outputs;
};

/// Returns the tables of a module of rt.program ops or their exports. The table
/// `step` calls the program of role accumulate for each micro-batch of the
/// module, then that of role update. The programs of a pipeline have tables
/// that follow its schedule. Every other program has a table of its own name
/// and role that calls it once.
std::vector<EntryTable> getTables(mlir::ModuleOp module);

/// Returns the table of an entry point of a pipeline (PipelineTable.cpp), from
/// the programs that are its parts.
EntryTable getPipelineTable(mlir::ModuleOp module, PipelineAttr pipeline,
                            llvm::ArrayRef<ProgramPorts> programs,
                            int32_t numProgramStreams);

/// Returns whether a call of a table takes the number of its micro-batch.
bool takesMicroBatch(const EntryTable &table);

} // namespace heddle

#endif // HEDDLE_LOWER_TABLES_H
