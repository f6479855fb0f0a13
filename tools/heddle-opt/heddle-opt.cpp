//===- heddle-opt.cpp - Runs single passes on IR --------------------------===//

#include "heddle/InitAll.h"
#include "mlir/Pass/PassRegistry.h"
#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/Support/raw_ostream.h"
#include <vector>

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
  // An error shows its line of the source. The op that it is about, often a
  // whole function, is printed only if the command line says so.
  std::vector<char *> arguments(argv, argv + argc);
  char quiet[] = "--mlir-print-op-on-diagnostic=false";
  bool isStated = llvm::any_of(arguments, [](llvm::StringRef argument) {
    return argument.ltrim('-').starts_with("mlir-print-op-on-diagnostic");
  });
  if (!isStated && argc > 0)
    arguments.insert(arguments.begin() + 1, quiet);
  return mlir::asMainReturnCode(
      mlir::MlirOptMain(static_cast<int>(arguments.size()), arguments.data(),
                        "Heddle's optimizer and pass driver\n", registry));
}
