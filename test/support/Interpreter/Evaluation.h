//===- Evaluation.h - One op under interpretation ---------------*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_INTERPRETER_EVALUATION_H
#define HEDDLE_TEST_SUPPORT_INTERPRETER_EVALUATION_H

#include "Interpreter.h"

namespace heddle {

/// One op to evaluate: the values of its operands, and its results, which have
/// their shapes and are zero.
struct Evaluation {
  mlir::Operation *op;
  llvm::SmallVector<const Tensor *> operands;
  llvm::SmallVector<Tensor *> results;
  /// The value of any operand of the op.
  llvm::function_ref<const Tensor &(mlir::Value)> valueOf;
  bool hasFailed = false;

  /// Emits an error and returns true: the op is known, but not executable.
  bool fail(const llvm::Twine &message) {
    op->emitError() << message;
    return hasFailed = true;
  }
  const Tensor &operand(unsigned i) const { return *operands[i]; }
  Tensor &result(unsigned i = 0) const { return *results[i]; }
  const Tensor &operator[](mlir::Value value) const { return valueOf(value); }
};

// Each function returns false if the op is not of its family; else it executes
// the op.
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

/// Whether dropout drops an element: see heddle.dropout.
bool isDropped(int64_t linearIndex, int64_t step, llvm::StringRef stream,
               uint64_t seed, double rate);

} // namespace heddle

#endif // HEDDLE_TEST_SUPPORT_INTERPRETER_EVALUATION_H
