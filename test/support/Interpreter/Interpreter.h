//===- Interpreter.h - Interpreter of programs, in plain loops --*- C++ -*-===//
//
// The oracle of Heddle's tests. It executes a global program (one that no pass
// has sharded) op by op. Each op runs as the plain loops of its description,
// for clarity and not for speed. Numbers are doubles whatever their type, so
// that gradients can be compared with finite differences. On request each
// result is rounded to its type, for comparison with a compiled program.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_SUPPORT_INTERPRETER_INTERPRETER_H
#define HEDDLE_TEST_SUPPORT_INTERPRETER_INTERPRETER_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/StringMap.h"
#include <vector>

namespace heddle {

/// A row-major tensor; a scalar is a tensor without dimensions. Integers and
/// booleans are stored as doubles (exact below 2^53).
struct Tensor {
  llvm::SmallVector<int64_t> shape;
  std::vector<double> values;

  Tensor() : values(1) {}
  explicit Tensor(llvm::ArrayRef<int64_t> shape, double value = 0);
  Tensor(llvm::ArrayRef<int64_t> shape, std::vector<double> values)
      : shape(shape), values(std::move(values)) {}

  int64_t rank() const { return shape.size(); }
  int64_t size() const { return values.size(); }
  int64_t rows() const { return size() / std::max<int64_t>(last(), 1); }
  int64_t last() const { return shape.empty() ? 1 : shape.back(); }
  /// The position in `values` of the element at an index.
  int64_t offset(llvm::ArrayRef<int64_t> index) const;
  double &at(llvm::ArrayRef<int64_t> index) { return values[offset(index)]; }
  double at(llvm::ArrayRef<int64_t> index) const {
    return values[offset(index)];
  }
};

/// The values of a module's variables, by symbol.
using Variables = llvm::StringMap<Tensor>;

struct InterpreterOptions {
  /// Round every op's results to their element type.
  bool roundToType = false;
};

/// Executes a function of one block. `heddle.load` reads `variables` (an absent
/// variable is an error) and `heddle.store` writes them. Emits an error on an
/// unknown op, and on values that the interpreter cannot hold (dynamic shapes,
/// more than 2^28 elements, integers wider than 64 bits).
mlir::FailureOr<std::vector<Tensor>>
interpret(mlir::func::FuncOp function, llvm::ArrayRef<Tensor> arguments,
          Variables &variables, const InterpreterOptions &options = {});

/// Adds the module's variables that `variables` lacks. Initializers of zeros,
/// ones and constants give their values. Variables with random initializers get
/// the numbers of `random` (tests pass uniform ones in [-1, 1)) times the
/// standard deviation.
void initializeVariables(mlir::ModuleOp module, Variables &variables,
                         llvm::function_ref<double()> random);

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_INTERPRETER_INTERPRETER_H
