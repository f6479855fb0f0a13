//===- ProgramForm.cpp - What programs are made of ------------------------===//

#include "ProgramBuffers.h"
#include "dialects/Comm/Comm.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace heddle;

std::optional<int64_t> heddle::getViewOffset(OpResult result) {
  Operation *op = result.getOwner();
  if (isa<tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op))
    return 0;
  auto type = dyn_cast<RankedTensorType>(result.getType());
  if (isa<UnstackOp>(op))
    return result.getResultNumber() * rt::getByteSize(type);
  auto slice = dyn_cast<tensor::ExtractSliceOp>(op);
  if (!slice)
    return std::nullopt;
  // A slice is contiguous if it has one element along its first dimensions, any
  // number along the next one, and all elements along the dimensions after
  // that.
  ArrayRef<int64_t> shape = slice.getSourceType().getShape();
  ArrayRef<int64_t> sizes = slice.getStaticSizes();
  if (ShapedType::isDynamicShape(sizes) ||
      ShapedType::isDynamicShape(slice.getStaticOffsets()) ||
      llvm::any_of(slice.getStaticStrides(), [](int64_t s) { return s != 1; }))
    return std::nullopt;
  size_t split = 0;
  while (split < sizes.size() && sizes[split] == 1)
    ++split;
  for (size_t i = split + 1; i < sizes.size(); ++i)
    if (sizes[i] != shape[i])
      return std::nullopt;
  int64_t offset = 0;
  for (auto [index, stride] :
       llvm::zip(slice.getStaticOffsets(), rt::getDenseStrides(shape)))
    offset += index * stride;
  return offset * rt::getByteSize(type.getElementType());
}

bool heddle::isJoin(Operation *op) {
  if (isa<StackOp>(op))
    return true;
  auto concat = dyn_cast<tensor::ConcatOp>(op);
  if (!concat || !concat.getType().hasStaticShape())
    return false;
  ArrayRef<int64_t> outer =
      concat.getType().getShape().take_front(concat.getDim());
  return llvm::all_of(outer, [](int64_t size) { return size == 1; });
}

bool heddle::isZeroPart(OpOperand &use) {
  return isJoin(use.getOwner()) && (matchPattern(use.get(), m_PosZeroFloat()) ||
                                    matchPattern(use.get(), m_Zero()));
}

/// Returns whether a program can run the op. Index arithmetic counts, too.
static bool isProgramOp(Operation *op) {
  if (isJoin(op) || isa<ContractOp, FusedContractOp, heddle::AttentionOp,
                        heddle::AttentionGradOp, heddle::EmbeddingGradOp,
                        heddle::RotaryTableOp, LoadOp, StoreOp, UnstackOp,
                        BarrierOp, WhileOp, func::CallOp, func::ReturnOp,
                        tensor::ExpandShapeOp, tensor::CollapseShapeOp>(op))
    return true;
  if (auto slice = dyn_cast<tensor::ExtractSliceOp>(op))
    return !slice.getSourceType().hasStaticShape() ||
           getViewOffset(op->getResult(0)).has_value();
  if (isa_and_nonnull<comm::CommDialect>(op->getDialect()))
    return true;
  if (isa_and_nonnull<arith::ArithDialect>(op->getDialect()))
    return isa<arith::ConstantOp>(op) ||
           llvm::none_of(op->getResultTypes(),
                         [](Type type) { return isa<TensorType>(type); });
  return false;
}

static LogicalResult verifyOps(func::FuncOp program) {
  for (Operation &op : program.getBody().front()) {
    if (isProgramOp(&op))
      continue;
    InFlightDiagnostic diag =
        op.emitOpError()
        << "is not an op that a program can run; expected library calls, "
           "kernels, collectives and views (heddle-form-kernels makes "
           "kernels of the rest)";
    StringRef dialect = op.getName().getDialectNamespace();
    if (!llvm::is_contained({"heddle", "comm", "func", "linalg", "tensor",
                             "arith", "math", "scf"},
                            dialect))
      diag << "; ops of '" << dialect
           << "' have to become linalg, tensor, arith, math or scf first";
    return diag;
  }
  return success();
}

/// Returns whether the runtime can hold a tensor of this type.
static bool isStorable(Type type) {
  auto tensor = dyn_cast<RankedTensorType>(type);
  return tensor && tensor.hasStaticShape() && tensor.getNumElements() > 0 &&
         rt::getByteSize(tensor.getElementType());
}

/// Returns advice for a tensor that is not storable.
static StringRef getStorableHint(Type type) {
  return getElementTypeOrSelf(type).isIndex()
             ? "; make its elements i64 (arith.index_cast)"
             : "";
}

static constexpr StringLiteral kStorableTypes =
    "tensors of static shape, with an element at least, and of a type that the "
    "runtime has (f32, bf16, f16, f64, i1, i8, i32, i64)";

static LogicalResult verifyTypes(func::FuncOp program) {
  Block &body = program.getBody().front();
  for (auto [what, types] :
       {std::pair<StringRef, TypeRange>("arguments",
                                        program.getArgumentTypes()),
        {"results", body.getTerminator()->getOperandTypes()}})
    for (auto [i, type] : llvm::enumerate(types))
      if (!isStorable(type))
        return program.emitOpError()
               << "expected " << what << " to be " << kStorableTypes << ", got "
               << type << " (number " << i << ")" << getStorableHint(type);
  for (Operation &op : body)
    for (Type type : op.getResultTypes())
      if (isa<RankedTensorType>(type) && !isStorable(type))
        return op.emitOpError() << "expected " << kStorableTypes << ", got "
                                << type << getStorableHint(type);
  return success();
}

LogicalResult heddle::verifyProgramForm(func::FuncOp program) {
  if (!program.getBody().hasOneBlock())
    return program.emitOpError() << "expected a program of one block";
  return success(succeeded(verifyOps(program)) &&
                 succeeded(verifyTypes(program)));
}
