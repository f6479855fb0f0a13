//===- heddle-opt.cpp - Runs single passes on IR --------------------------===//

#include "heddle/InitAll.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/Support/raw_ostream.h"

/// Whether the argument names a pass or pipeline of Heddle that does not exist.
/// LLVM would take an unknown option that starts with h for --help, and
/// succeed.
static bool isMisspelled(llvm::StringRef argument) {
  if (!argument.consume_front("--") && !argument.consume_front("-"))
    return false;
  llvm::StringRef name = argument.split('=').first;
  return name.starts_with("heddle-") && !mlir::PassInfo::lookup(name) &&
         !mlir::PassPipelineInfo::lookup(name);
}

int main(int argc, char **argv) {
  mlir::DialectRegistry registry;
  heddle::registerAllDialects(registry);
  heddle::registerAllPasses();
  for (int i = 1; i < argc; ++i)
    if (isMisspelled(argv[i])) {
      llvm::errs() << "heddle-opt: error: expected a pass or pipeline, got '"
                   << argv[i]
                   << "'; docs/passes and heddle-opt --help list them\n";
      return 1;
    }
  return mlir::asMainReturnCode(mlir::MlirOptMain(
      argc, argv, "Heddle's optimizer and pass driver\n", registry));
}
