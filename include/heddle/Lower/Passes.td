//===- Passes.td - From kernels and libraries to native code -*- tablegen -*-===//

#ifndef HEDDLE_LOWER_PASSES
#define HEDDLE_LOWER_PASSES

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// Kernels: lib/Lower/Kernel
//===----------------------------------------------------------------------===//

//===----------------------------------------------------------------------===//
// Programs: lib/Lower/Program
//===----------------------------------------------------------------------===//

#endif // HEDDLE_LOWER_PASSES
