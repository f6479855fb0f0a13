//===- RtVerifiers.cpp - Constraints of programs and calls ----------------===//

#include "dialects/Heddle/Ops/AttentionMask.h"
#include "dialects/Rt/Rt.h"
#include "heddle_rt/abi.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Interfaces/FunctionInterfaces.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::rt;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

namespace {
/// Checks that the buffers of one program lie within their memories. Remembers
/// the sizes of the memories.
class BoundsChecker {
public:
  BoundsChecker(ProgramOp program, SymbolTableCollection &tables)
      : program(program), tables(tables) {}

  LogicalResult check(Operation &op, BufferAttr buffer) {
    FailureOr<int64_t> size = getMemorySize(op, buffer);
    if (failed(size))
      return failure();
    if (buffer.getOffset() + buffer.getBytes() <= *size)
      return success();
    return op.emitOpError()
           << "expected " << buffer << " to lie within the " << *size
           << " bytes of its memory, got bytes " << buffer.getOffset() << " to "
           << buffer.getOffset() + buffer.getBytes();
  }

private:
  FailureOr<int64_t> getMemorySize(Operation &op, BufferAttr buffer) {
    switch (buffer.getSpace()) {
    case Space::Arena:
      return static_cast<int64_t>(program.getArena());
    case Space::Variable:
    case Space::Constant:
      return getSymbolSize(op, buffer);
    case Space::Argument:
      return getPortSize(op, program.getInputs(), buffer);
    case Space::Result:
      return getPortSize(op, program.getOutputs(), buffer);
    }
    return failure();
  }

  FailureOr<int64_t> getSymbolSize(Operation &op, BufferAttr buffer) {
    auto [known, isNew] = sizes.try_emplace(buffer.getSymbol(), -1);
    if (!isNew)
      return known->second;
    Operation *target =
        tables.lookupNearestSymbolFrom(program, buffer.getSymbol());
    if (auto variable = dyn_cast_or_null<VariableOp>(target);
        variable && buffer.getSpace() == Space::Variable)
      return known->second = rt::getByteSize(rt::getLocalType(variable));
    if (auto constant = dyn_cast_or_null<ConstantOp>(target);
        constant && buffer.getSpace() == Space::Constant)
      return known->second = rt::getByteSize(
                 cast<RankedTensorType>(constant.getValue().getType()));
    return op.emitOpError()
           << "expected " << buffer.getSymbol() << " to be "
           << (buffer.getSpace() == Space::Variable ? "a heddle.variable"
                                                    : "an rt.constant")
           << " of this module";
  }

  FailureOr<int64_t> getPortSize(Operation &op, ArrayAttr ports,
                                 BufferAttr buffer) {
    if (buffer.getIndex() < 0 || buffer.getIndex() >= (int64_t)ports.size())
      return op.emitOpError()
             << "expected " << stringifySpace(buffer.getSpace())
             << " of an index below " << ports.size() << ", got "
             << buffer.getIndex();
    auto port = cast<PortAttr>(ports[buffer.getIndex()]);
    auto [known, isNew] = sizes.try_emplace(port, -1);
    if (isNew)
      known->second = rt::getByteSize(rt::getLocalType(program, port));
    return known->second;
  }

  ProgramOp program;
  SymbolTableCollection &tables;
  DenseMap<Attribute, int64_t> sizes;
};
} // namespace

/// Checks the ops of `body`, a program's body or a region of one of its loops.
static LogicalResult verifyCalls(ProgramOp program, Block &body,
                                 BoundsChecker &checker) {
  for (Operation &op : body) {
    if (!isa_and_nonnull<RtDialect, arith::ArithDialect>(op.getDialect()))
      return op.emitOpError()
             << "expected only ops of rt and arith in an rt.program";
    if (auto stream = op.getAttrOfType<IntegerAttr>("stream"))
      if (stream.getInt() < 0 ||
          stream.getInt() >= static_cast<int64_t>(program.getStreams()))
        return op.emitOpError()
               << "expected a stream below " << program.getStreams() << ", got "
               << stream.getInt();
    for (NamedAttribute attribute : op.getAttrDictionary()) {
      if (auto buffer = dyn_cast<BufferAttr>(attribute.getValue())) {
        if (failed(checker.check(op, buffer)))
          return failure();
      } else if (auto list = dyn_cast<ArrayAttr>(attribute.getValue())) {
        for (Attribute element : list)
          if (auto buffer = dyn_cast<BufferAttr>(element))
            if (failed(checker.check(op, buffer)))
              return failure();
      }
    }
    for (Region &region : op.getRegions())
      for (Block &block : region)
        if (failed(verifyCalls(program, block, checker)))
          return failure();
  }
  return success();
}

static LogicalResult verifyStreams(Operation *op, int32_t streams) {
  if (streams >= 1 && streams <= kMaxStreams)
    return success();
  return op->emitOpError() << "expected from 1 to " << kMaxStreams
                           << " streams, got " << streams;
}

LogicalResult ExportOp::verify() { return verifyStreams(*this, getStreams()); }

LogicalResult ProgramOp::verifySymbolUses(SymbolTableCollection &tables) {
  if (static_cast<int64_t>(getArena()) < 0)
    return emitOpError() << "expected an arena of at least 0 bytes, got "
                         << static_cast<int64_t>(getArena());
  if (failed(verifyStreams(*this, getStreams())))
    return failure();
  BoundsChecker checker(*this, tables);
  return verifyCalls(*this, getBody().front(), checker);
}

LogicalResult rt::WhileOp::verify() {
  RankedTensorType type = getCondition().getType();
  if (!type.getElementType().isInteger(1) || type.getNumElements() != 1)
    return emitOpError() << "expected a condition of one i1, got " << type;
  return success();
}

LogicalResult CoordinateOp::verifySymbolUses(SymbolTableCollection &tables) {
  auto mesh = tables.lookupNearestSymbolFrom<MeshOp>(*this, getMeshAttr());
  if (!mesh)
    return emitOpError() << "expected " << getMeshAttr()
                         << " to be a heddle.mesh in this module";
  if (!mesh.getMesh().getAxisSize(getAxis()))
    return emitOpError() << "expected an axis of " << mesh.getMesh()
                         << ", got \"" << getAxis() << '"';
  return success();
}

//===----------------------------------------------------------------------===//
// Compute
//===----------------------------------------------------------------------===//

LogicalResult LaunchOp::verifySymbolUses(SymbolTableCollection &tables) {
  size_t units = llvm::count_if(getOperands_(),
                                [](Attribute a) { return isa<UnitAttr>(a); });
  for (Attribute element : getOperands_())
    if (!isa<UnitAttr, BufferAttr>(element))
      return emitOpError() << "expected buffers and units in 'operands_', got "
                           << element;
  if (units != getIndices().size())
    return emitOpError() << "expected " << units << " indices, got "
                         << getIndices().size();
  Operation *kernel = tables.lookupNearestSymbolFrom(*this, getKernelAttr());
  if (!kernel)
    return emitOpError() << "expected " << getKernelAttr()
                         << " to be a kernel of this module";
  auto function = dyn_cast<func::FuncOp>(kernel);
  if (!function) {
    // A lowered kernel: its buffers have become pointers.
    if (isa<FunctionOpInterface>(kernel) && kernel->hasAttr(kBlocksAttrName))
      return success();
    return emitOpError() << "expected " << getKernelAttr()
                         << " to be a func.func, or a lowered function with "
                         << kBlocksAttrName;
  }
  auto check = [&](StringRef what, TypeRange types,
                   ArrayAttr buffers) -> LogicalResult {
    if (types.size() != buffers.size())
      return emitOpError() << "expected " << types.size() << ' ' << what
                           << "s for " << getKernelAttr() << ", got "
                           << buffers.size();
    for (auto [i, type, element] : llvm::enumerate(types, buffers)) {
      auto buffer = dyn_cast<BufferAttr>(element);
      if (buffer ? type != buffer.getType() : !type.isIndex())
        return emitOpError() << "expected " << what << ' ' << i << " to be "
                             << type << ", got " << element;
    }
    return success();
  };
  if (failed(check("operand", function.getArgumentTypes(), getOperands_())))
    return failure();
  return check("result", function.getResultTypes(), getResults_());
}

/// `lastOfC` and `lastOfSums` are the last elements of C and of a vector that
/// the loops step through like the bias.
static LogicalResult verifyEpilogue(MatmulOp op, int64_t lastOfC,
                                    int64_t lastOfSums) {
  if (bool(op.getEpilogue()) != bool(op.getExtra()))
    return op.emitOpError()
           << "expected an epilogue and its buffer, or neither";
  if (!op.getEpilogue())
    return success();
  BufferAttr extra = *op.getExtra();
  ProductEpilogue epilogue = *op.getEpilogue();
  StringRef name = stringifyProductEpilogue(epilogue);
  bool isSums = epilogue == ProductEpilogue::LhsSums ||
                epilogue == ProductEpilogue::RhsSums;
  if ((!isSums || epilogue == ProductEpilogue::LhsSums) &&
      !op.getLoops().empty())
    return op.emitOpError() << "expected no loops with " << name;
  if (epilogue == ProductEpilogue::LhsSums)
    lastOfSums = op.getM() - 1;
  if (int64_t last = isSums ? lastOfSums : lastOfC;
      last >= extra.getNumElements())
    return op.emitOpError()
           << "expected the buffer of " << name << " to hold " << last + 1
           << " elements, got " << extra.getNumElements();
  if (extra.getType().getElementType() != op.getC().getType().getElementType())
    return op.emitOpError() << "expected the buffer of " << name
                            << " to have C's type, got " << extra.getType();
  if (op.getBias() && epilogue != ProductEpilogue::Gelu)
    return op.emitOpError() << "expected no bias with " << name;
  if (op.getAccumulate() && !isSums)
    return op.emitOpError() << "expected no accumulate with " << name;
  // Each product of the loops overwrites its sums and must not add to the C of
  // another one.
  if (llvm::any_of(op.getLoops().getAsRange<LoopAttr>(), [](LoopAttr loop) {
        return loop.getExtent() > 1 &&
               (loop.getC() == 0 || loop.getBias() == 0);
      }))
    return op.emitOpError()
           << "expected each product to have a C and " << name << " of its own";
  SmallVector<BufferAttr> others = {op.getA(), op.getB(), op.getC()};
  if (op.getBias())
    others.push_back(*op.getBias());
  for (BufferAttr other : others)
    if (extra.overlaps(other) &&
        (epilogue != ProductEpilogue::GeluGrad || other == op.getC()))
      return op.emitOpError()
             << "expected the buffer of " << name << " to overlap no other one";
  return success();
}

LogicalResult MatmulOp::verify() {
  if (getAStrides().size() != 2 || getBStrides().size() != 2)
    return emitOpError() << "expected two strides for A and two for B";
  int64_t m = getM(), n = getN(), k = getK();
  if (m < 1 || n < 1 || k < 1)
    return emitOpError() << "expected m, n and k to be positive, got " << m
                         << ", " << n << " and " << k;
  if (!llvm::is_contained(getAStrides(), 1))
    return emitOpError() << "expected one of A's strides to be 1, got ["
                         << getAStrides() << "]";
  if (!llvm::is_contained(getBStrides(), 1))
    return emitOpError() << "expected one of B's strides to be 1, got ["
                         << getBStrides() << "]";
  if (getLoops().size() > HEDDLE_RT_MATMUL_MAX_LOOPS)
    return emitOpError() << "expected at most "
                         << int(HEDDLE_RT_MATMUL_MAX_LOOPS) << " loops, got "
                         << getLoops().size();
  int64_t a = (m - 1) * getAStrides()[0] + (k - 1) * getAStrides()[1];
  int64_t b = (k - 1) * getBStrides()[0] + (n - 1) * getBStrides()[1];
  int64_t c = (m - 1) * getCRowStride() + (n - 1), bias = n - 1;
  for (auto loop : getLoops().getAsRange<LoopAttr>()) {
    if (loop.getExtent() < 1)
      return emitOpError() << "expected loops of a positive extent, got "
                           << loop;
    a += (loop.getExtent() - 1) * loop.getA();
    b += (loop.getExtent() - 1) * loop.getB();
    c += (loop.getExtent() - 1) * loop.getC();
    bias += (loop.getExtent() - 1) * loop.getBias();
  }
  auto check = [&](StringRef what, BufferAttr buffer,
                   int64_t last) -> LogicalResult {
    if (last >= 0 && last < buffer.getNumElements())
      return success();
    return emitOpError() << "expected " << what << " to hold " << last + 1
                         << " elements, got " << buffer.getNumElements();
  };
  if (failed(check("A", getA(), a)) || failed(check("B", getB(), b)) ||
      failed(check("C", getC(), c)))
    return failure();
  if (getBias() && failed(check("the bias", *getBias(), bias)))
    return failure();
  if (getC().overlaps(getA()) || getC().overlaps(getB()))
    return emitOpError() << "expected C to overlap neither A nor B";
  return verifyEpilogue(*this, c, bias);
}

static LogicalResult expectSameShape(Operation *op, StringRef what,
                                     BufferAttr buffer,
                                     ArrayRef<int64_t> shape) {
  if (buffer.getType().getShape() == shape)
    return success();
  return op->emitOpError() << "expected " << what << " of shape [" << shape
                           << "], got [" << buffer.getType().getShape() << "]";
}

template <typename OpTy> static LogicalResult verifyAttention(OpTy op) {
  ArrayRef<int64_t> q = op.getQ().getType().getShape();
  ArrayRef<int64_t> k = op.getK().getType().getShape();
  if ((q.size() != 4 && q.size() != 5) || k.size() != 4)
    return op.emitOpError() << "expected queries of 4 or 5 dimensions and keys "
                               "of 4, got ["
                            << q << "] and [" << k << "]";
  if (k[0] != q[0] || k[2] != q[2] || k[3] != q.back())
    return op.emitOpError()
           << "expected queries and keys to agree in batch, group and head "
              "size, got ["
           << q << "] and [" << k << "]";
  if (op.getOffsets().size() != 0 && op.getOffsets().size() != 5)
    return op.emitOpError()
           << "expected none or 5 offsets, got " << op.getOffsets().size();
  if (op.getGlobalShape() && op.getGlobalShape()->size() != 4)
    return op.emitOpError() << "expected a global shape of 4 sizes, got "
                            << op.getGlobalShape()->size();
  if (op.getDropout().convertToDouble() > 0 && !op.getStep())
    return op.emitOpError() << "expected a step with dropout";
  if (!op.getLse().getType().getElementType().isF32())
    return op.emitOpError() << "expected lse to be f32, got "
                            << op.getLse().getType().getElementType();
  if (failed(expectSameShape(op, "values", op.getV(), k)) ||
      failed(expectSameShape(op, "an output", op.getO(), q)) ||
      failed(expectSameShape(op, "an lse", op.getLse(), q.drop_back())))
    return failure();
  // The runtime gets one element type for all the tensors.
  Type type = op.getQ().getType().getElementType();
  for (BufferAttr other : {op.getK(), op.getV(), op.getO()})
    if (other.getType().getElementType() != type)
      return op.emitOpError()
             << "expected queries, keys, values and output of one element "
                "type, got "
             << type << " and " << other.getType().getElementType();
  if (!op.getMask())
    return success();
  // The call reads the mask by strides that follow from its shape and type.
  RankedTensorType mask = op.getMask()->getType();
  if (!mask.getElementType().isInteger(1) && !mask.getElementType().isF32())
    return op.emitOpError()
           << "expected a mask of i1 or f32, got " << mask.getElementType();
  return verifyAttentionMask(op, mask.getShape(), q.drop_back(),
                             op.getGlobalShape() ? (*op.getGlobalShape())[1]
                                                 : k[1]);
}

LogicalResult rt::AttentionOp::verify() { return verifyAttention(*this); }

LogicalResult rt::AttentionGradOp::verify() {
  if (failed(verifyAttention(*this)))
    return failure();
  ArrayRef<int64_t> q = getQ().getType().getShape();
  ArrayRef<int64_t> k = getK().getType().getShape();
  if (failed(expectSameShape(*this, "an output gradient", getOGrad(), q)) ||
      failed(expectSameShape(*this, "a query gradient", getQGrad(), q)) ||
      failed(expectSameShape(*this, "a key gradient", getKGrad(), k)) ||
      failed(expectSameShape(*this, "a value gradient", getVGrad(), k)))
    return failure();
  return success();
}

LogicalResult rt::EmbeddingGradOp::verify() {
  RankedTensorType table = getTable().getType();
  if (table.getRank() != 2 || !table.getElementType().isF32())
    return emitOpError() << "expected a table of f32 with 2 dimensions, got "
                         << table;
  if (!getIds().getType().getElementType().isInteger(32))
    return emitOpError() << "expected ids of i32, got "
                         << getIds().getType().getElementType();
  SmallVector<int64_t> rows(getIds().getType().getShape());
  rows.push_back(table.getDimSize(1));
  return expectSameShape(*this, "rows", getRows(), rows);
}

LogicalResult rt::RotaryTableOp::verify() {
  RankedTensorType cos = getCos().getType();
  if (cos.getRank() != 2 || !cos.getElementType().isF32() ||
      cos.getDimSize(1) != (int64_t)getFrequencies().size())
    return emitOpError() << "expected tables of f32 [positions, "
                         << getFrequencies().size() << "], got " << cos;
  return expectSameShape(*this, "sin", getSin(), cos.getShape());
}

LogicalResult rt::CopyOp::verify() {
  int64_t blocks = getBlocks();
  if (blocks < 1 || getTo().getBytes() % blocks != 0)
    return emitOpError() << "expected a positive number of blocks that divides "
                         << getTo().getBytes() << " bytes, got " << blocks;
  if (static_cast<int64_t>(getFromStride()) < 0 ||
      static_cast<int64_t>(getToStride()) < 0)
    return emitOpError() << "expected strides of at least 0";
  int64_t run = getTo().getBytes() / blocks;
  auto check = [&](StringRef what, BufferAttr buffer,
                   int64_t stride) -> LogicalResult {
    int64_t end = (blocks - 1) * stride + run;
    if (end <= buffer.getBytes())
      return success();
    return emitOpError() << "expected " << what << " to hold " << end
                         << " bytes, got " << buffer.getBytes();
  };
  if (!getFromOffset() && !getBytes() &&
      failed(check("the source", getFrom(), getFromStride())))
    return failure();
  if (!getBytes() && failed(check("the destination", getTo(), getToStride())))
    return failure();
  return success();
}
