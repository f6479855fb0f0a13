//===- CallNumbers.h - The number of a call in its program ------*- C++ -*-===//

#ifndef HEDDLE_SIMULATE_CALLNUMBERS_H
#define HEDDLE_SIMULATE_CALLNUMBERS_H

#include "dialects/Rt/Rt.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

namespace heddle {

/// A call as traces name it.
struct CallNumber {
  llvm::StringRef program;
  int64_t index = -1; ///< in the program's order, loops written out once
};

/// The numbers of all calls of a module's rt.programs.
class CallNumbers {
public:
  explicit CallNumbers(mlir::ModuleOp module) {
    for (auto program : module.getOps<rt::ProgramOp>()) {
      int64_t index = 0;
      program->walk<mlir::WalkOrder::PreOrder>(
          [&](rt::DeviceCallOpInterface call) {
            numbers[call] = {program.getSymName(), index++};
          });
    }
  }

  CallNumber get(mlir::Operation *call) const { return numbers.lookup(call); }

private:
  llvm::DenseMap<mlir::Operation *, CallNumber> numbers;
};

} // namespace heddle

#endif // HEDDLE_SIMULATE_CALLNUMBERS_H
