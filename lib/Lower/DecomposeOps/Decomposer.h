//===- Decomposer.h - Builds structured ops from model ops ------*- C++ -*-===//
//
// A builder of linalg.generic ops, shared by the decompositions. The loops of
// an op are the result's dimensions, then the reduced ones.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_DECOMPOSEOPS_DECOMPOSER_H
#define HEDDLE_LIB_LOWER_DECOMPOSEOPS_DECOMPOSER_H

#include "../KernelPlan/KernelTarget.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/AffineMap.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace heddle::lower {

/// Builds scalar arithmetic in the body of a structured op. Floats are computed
/// in f32 (f64 where an operand is f64) and rounded where they are stored.
class Body : public mlir::ImplicitLocOpBuilder {
public:
  using ImplicitLocOpBuilder::ImplicitLocOpBuilder;

  mlir::Value constant(mlir::Type type, double value);
  mlir::Value integer(mlir::Type type, int64_t value);
  /// Converts a float to another float type, by extension or truncation.
  mlir::Value convert(mlir::Value value, mlir::Type type);
  /// Converts bf16 and f16 to f32. Other types stay.
  mlir::Value widen(mlir::Value value);

  mlir::Value add(mlir::Value a, mlir::Value b);
  mlir::Value sub(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, mlir::Value b);
  mlir::Value mul(mlir::Value a, double b);
  mlir::Value add(mlir::Value a, double b);
  mlir::Value div(mlir::Value a, mlir::Value b);
  mlir::Value neg(mlir::Value a);
  mlir::Value exp(mlir::Value a);
  /// 1 / (1 + exp(-a)).
  mlir::Value sigmoid(mlir::Value a);
  /// Returns the current index of loop `dim`, of type index.
  mlir::Value index(int64_t dim);
  /// Converts an integer or index to another integer type or index.
  mlir::Value toInteger(mlir::Value value, mlir::Type type);
};

/// One operand of a structured op and how it is indexed.
struct Operand {
  mlir::Value value;
  mlir::AffineMap map;
};

class Decomposer {
public:
  Decomposer(mlir::OpBuilder &builder, mlir::Location loc)
      : builder(builder), loc(loc),
        target(KernelTarget::of(builder.getBlock()->getParentOp())) {}

  using MapBody =
      llvm::function_ref<mlir::Value(Body &, mlir::ValueRange operands)>;
  using ReduceBody = llvm::function_ref<mlir::Value(
      Body &, mlir::ValueRange operands, mlir::Value accumulator)>;

  /// Builds result[i] = body(operands at i).
  mlir::Value map(mlir::RankedTensorType result,
                  llvm::ArrayRef<Operand> operands, MapBody body);
  /// Builds a reduction of `operands`. `reduced` gives the sizes of the reduced
  /// loops, which follow the result's dimensions in the iteration space. The
  /// body combines with the accumulator itself.
  mlir::Value reduce(mlir::RankedTensorType result,
                     llvm::ArrayRef<int64_t> reduced,
                     llvm::ArrayRef<Operand> operands, ReductionKind kind,
                     ReduceBody body);
  /// Reduces the dimensions `over` of a tensor. A reduction over rows has two
  /// stages of fixed blocks, every other one has one stage.
  mlir::Value reduceDims(mlir::Value x, llvm::ArrayRef<int64_t> over,
                         ReductionKind kind, mlir::RankedTensorType result);

  mlir::AffineMap identity(int64_t rank);
  /// Returns the map to the first `count` of `rank` dimensions.
  mlir::AffineMap leading(int64_t rank, int64_t count);
  /// Returns the map to the last of `rank` dimensions.
  mlir::AffineMap last(int64_t rank);
  mlir::AffineMap dims(int64_t rank, llvm::ArrayRef<int64_t> positions);

  mlir::OpBuilder &builder;
  mlir::Location loc;
  KernelTarget target;
};

/// Returns the type in which elements are computed: f32 for narrower floats,
/// otherwise `elementType`.
mlir::Type getComputeType(mlir::Type elementType);
/// Returns the tensor type with another element type.
mlir::RankedTensorType withElement(mlir::RankedTensorType type,
                                   mlir::Type element);
/// Returns the type without its last dimension and with another element type.
mlir::RankedTensorType rowsOf(mlir::RankedTensorType type, mlir::Type element);

/// Each function handles one family of ops. It builds structured ops and
/// replaces the uses of `op`, or returns false for an op that stays.
bool decomposeNormalization(mlir::Operation *op, mlir::OpBuilder &builder);
bool decomposeVocabulary(mlir::Operation *op, mlir::OpBuilder &builder);
bool decomposeElementwise(mlir::Operation *op, mlir::OpBuilder &builder);
bool decomposeShape(mlir::Operation *op, mlir::OpBuilder &builder);
bool decomposeLookup(mlir::Operation *op, mlir::OpBuilder &builder);

/// Brings a structured op into the form that kernels accept; see
/// Structured.cpp. Emits an error on an op without such a form.
mlir::LogicalResult normalizeStructured(mlir::RewriterBase &rewriter,
                                        mlir::linalg::LinalgOp op);

} // namespace heddle::lower

#endif // HEDDLE_LIB_LOWER_DECOMPOSEOPS_DECOMPOSER_H
