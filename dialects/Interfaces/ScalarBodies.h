//===- ScalarBodies.h - What scalar code may do -----------------*- C++ -*-===//
//
// Facts about upstream's scalar ops that several transformations rest on when
// they let a body run where the program would not have: over the padding of a
// device's part, or in the branch that is not taken.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_INTERFACES_SCALARBODIES_H
#define HEDDLE_DIALECTS_INTERFACES_SCALARBODIES_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"

namespace heddle {

/// An operand that makes its op trap on some values, and one that does not.
struct Trap {
  mlir::OpOperand *operand;
  int64_t harmless;
};

/// The operands in `root`, its regions included, that may trap: divisors of
/// integer divisions, and positions at which tensors are read or written. A
/// constant divisor or position of tensor.extract is one only if it does trap:
/// in a branch that is never taken. Other constants are as the program has
/// them.
llvm::SmallVector<Trap> findTraps(mlir::Operation *root);

/// A constant of the operand's type, scalar or tensor.
mlir::TypedAttr getHarmless(const Trap &trap);

/// What changes no accumulator when combined with it on the right: zero for a
/// sum or a difference. Null where there is nothing such.
mlir::TypedAttr getNeutral(mlir::Operation *combiner);

} // namespace heddle

#endif // HEDDLE_DIALECTS_INTERFACES_SCALARBODIES_H
