//===- ScalarBodies.h - Facts about upstream's scalar ops -------*- C++ -*-===//
//
// Facts about upstream's scalar ops. They are for transformations that run a
// body where the program would not run it: over the padding of a device's part,
// or in the branch that is not taken.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_INTERFACES_SCALARBODIES_H
#define HEDDLE_DIALECTS_INTERFACES_SCALARBODIES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace heddle {

/// An operand that makes its op trap on some values, and a harmless value for
/// it.
struct Trap {
  mlir::OpOperand *operand;
  int64_t harmless;
};

/// The operands in `root`, its regions included, that may trap: divisors of
/// integer divisions and positions at which tensors are read or written. A
/// constant divisor, or a constant position of a tensor.extract, is listed only
/// if it traps. A valid program may contain such a constant in a branch that is
/// never taken. Constant positions of other ops are never listed.
llvm::SmallVector<Trap> findTraps(mlir::Operation *root);

/// The trap's harmless value, as a constant of its operand's type (scalar or
/// tensor).
mlir::TypedAttr getHarmless(const Trap &trap);

/// The right-hand operand that leaves the combiner's accumulator unchanged:
/// zero for a sum or a difference. Null if the combiner has none.
mlir::TypedAttr getNeutral(mlir::Operation *combiner);

} // namespace heddle

#endif // HEDDLE_DIALECTS_INTERFACES_SCALARBODIES_H
