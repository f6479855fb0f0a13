//===- MathLibrary.cpp - Functions that kernels of CPUs call --------------===//

#include "KernelEmitter.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

/// Returns the C library's function for an op that has neither an intrinsic nor
/// a polynomial. Returns an empty string for other ops. Polynomials exist for
/// f32 only.
static StringRef libraryFunction(Operation *op, Type type) {
  StringRef always = llvm::TypeSwitch<Operation *, StringRef>(op)
                         .Case([](math::TanOp) { return "tan"; })
                         .Case([](math::SinhOp) { return "sinh"; })
                         .Case([](math::CoshOp) { return "cosh"; })
                         .Case([](math::AsinOp) { return "asin"; })
                         .Case([](math::AcosOp) { return "acos"; })
                         .Case([](math::AsinhOp) { return "asinh"; })
                         .Case([](math::AcoshOp) { return "acosh"; })
                         .Case([](math::AtanhOp) { return "atanh"; })
                         .Default(StringRef());
  if (!always.empty() || type.isF32())
    return always;
  return llvm::TypeSwitch<Operation *, StringRef>(op)
      .Case([](math::TanhOp) { return "tanh"; })
      .Case([](math::ErfOp) { return "erf"; })
      .Case([](math::AtanOp) { return "atan"; })
      .Case([](math::Atan2Op) { return "atan2"; })
      .Case([](math::CbrtOp) { return "cbrt"; })
      .Case([](math::ExpM1Op) { return "expm1"; })
      .Case([](math::Log1pOp) { return "log1p"; })
      .Default(StringRef());
}

Value KernelEmitter::callLibrary(StringRef name, Type type,
                                 ValueRange operands) {
  std::string symbol = name.str() + (type.isF32() ? "f" : "");
  auto module = plan.kernel->getParentOfType<ModuleOp>();
  if (!module.lookupSymbol(symbol)) {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(module.getBody());
    b.create<LLVM::LLVMFuncOp>(
        symbol, LLVM::LLVMFunctionType::get(
                    type, SmallVector<Type>(operands.size(), type)));
  }
  return b.create<LLVM::CallOp>(TypeRange{type}, symbol, operands).getResult();
}

/// Calls libm where the polynomial is inexact or missing.
Value KernelEmitter::emitMath(Operation *op, ValueRange operands) {
  if (!isa_and_nonnull<math::MathDialect>(op->getDialect()))
    return Value();
  Type type = operands[0].getType();
  if (isa<math::SinOp>(op))
    return b.create<LLVM::SinOp>(type, operands);
  if (isa<math::CosOp>(op))
    return b.create<LLVM::CosOp>(type, operands);
  if (isa<math::PowFOp>(op))
    return b.create<LLVM::PowOp>(type, operands);
  if (StringRef name = libraryFunction(op, type); !name.empty())
    return callLibrary(name, type, operands);
  return Value();
}
