//===- Evaluation.h - One op under interpretation ---------------*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_INTERPRETER_EVALUATION_H
#define HEDDLE_TEST_SUPPORT_INTERPRETER_EVALUATION_H

#include "Interpreter.h"

namespace heddle {

/// One op to evaluate: its operands' values, and its results, which are zeros
/// of the right shape before.
struct Evaluation {
  mlir::Operation *op;
  llvm::SmallVector<const Tensor *> operands;
  llvm::SmallVector<Tensor *> results;
  /// Returns the value of any operand of the op.
  llvm::function_ref<const Tensor &(mlir::Value)> valueOf;
  bool hasFailed = false;

  /// Emits an error and returns true, because the op belongs to the family but
  /// cannot be executed.
  bool fail(const llvm::Twine &message) {
    op->emitError() << message;
    return hasFailed = true;
  }
  const Tensor &operand(unsigned i) const { return *operands[i]; }
  Tensor &result(unsigned i = 0) const { return *results[i]; }
  const Tensor &operator[](mlir::Value value) const { return valueOf(value); }
};

// Each function executes ops of one family and returns false for other ops.
bool evaluateElementwise(Evaluation &e);
bool evaluateInteger(Evaluation &e);
bool evaluateProduct(Evaluation &e);
bool evaluateNormalization(Evaluation &e);
bool evaluateVocabulary(Evaluation &e);
bool evaluateShape(Evaluation &e);
bool evaluatePositional(Evaluation &e);

/// Wraps the integers of a tensor around at the width of `type`.
void wrapAround(mlir::Type type, Tensor &tensor);

/// Calls `body` with every index of a tensor of that shape, row-major.
template <typename Body>
void forEachIndex(llvm::ArrayRef<int64_t> shape, Body body) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  llvm::SmallVector<int64_t> index(shape.size());
  for (int64_t i = 0; i < count; ++i) {
    body(llvm::ArrayRef<int64_t>(index));
    for (int64_t d = shape.size(); d-- > 0;) {
      if (++index[d] < shape[d])
        break;
      index[d] = 0;
    }
  }
}

/// Returns whether dropout drops an element, as heddle.dropout defines it.
bool isDropped(int64_t linearIndex, int64_t step, llvm::StringRef stream,
               uint64_t seed, double rate);

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_INTERPRETER_EVALUATION_H
