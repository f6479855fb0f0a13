//===- CallWork.h - FLOPs and bytes of calls --------------------*- C++ -*-===//

#ifndef HEDDLE_SIMULATE_CALLWORK_H
#define HEDDLE_SIMULATE_CALLWORK_H

#include "dialects/Rt/Rt.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"

namespace heddle {

/// Counts the work of the calls of a module's programs. Remembers the work of
/// kernels, because many calls launch the same kernel.
class CallWork {
public:
  explicit CallWork(mlir::ModuleOp module) : symbols(module) {}

  /// Returns the work of a call. A product counts 2 m n k FLOPs an iteration of
  /// its loops. A kernel has the FLOPs of its body, and moves each operand and
  /// result once; of an operand from which its body extracts single elements,
  /// it reads these elements alone. A copy whose length is known only at run
  /// time counts as whole. A collective has none.
  Work getWork(rt::DeviceCallOpInterface call);

  /// Returns the element type whose peak rate limits the call: that of a
  /// product's or attention's operands, and f32 for all other calls.
  static mlir::Type getComputeType(rt::DeviceCallOpInterface call);

private:
  Work getKernelWork(rt::LaunchOp launch);

  mlir::SymbolTable symbols;
  llvm::DenseMap<mlir::Attribute, Work> kernels;
};

} // namespace heddle

#endif // HEDDLE_SIMULATE_CALLWORK_H
