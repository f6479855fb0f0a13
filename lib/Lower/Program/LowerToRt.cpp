//===- LowerToRt.cpp - heddle-lower-to-rt ---------------------------------===//

#include "ContractionLayout.h"
#include "ProgramBuffers.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Lower/Passes.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

namespace heddle {
#define GEN_PASS_DEF_LOWERTORTPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

/// The global type of an argument or result whose function type is local.

namespace {
constexpr int32_t kComputeStream = 0, kCommStream = 1;

/// Writes the rt program of one function.
class ProgramLowering {
public:
  ProgramLowering(func::FuncOp function, rt::ProgramOp program)
      : function(function), program(program),
        builder(OpBuilder::atBlockEnd(&program.getBody().front())) {}

  LogicalResult run();

private:
  LogicalResult lower(Operation *op);
  LogicalResult lowerContract(ContractOp op);
  template <typename RtOp, typename Op> RtOp lowerAttention(Op op);
  LogicalResult lowerCall(func::CallOp op);
  LogicalResult lowerCollective(Operation *op, rt::BufferAttr out,
                                int32_t stream);
  LogicalResult lowerSlice(comm::SliceOp op);
  void lowerStart(comm::StartOp op);
  Value lowerAxisIndex(FlatSymbolRefAttr mesh, AxisListAttr axes);
  void lowerTransfer(Operation *op);

  /// Where a tensor lies; null, with an error, if no place was planned.
  rt::BufferAttr place(Value value);
  Value index(Value value) { return indices.lookup(value); }
  SmallVector<Value> indexRange(ValueRange values) {
    return llvm::map_to_vector(values, [&](Value v) { return index(v); });
  }
  Value constant(int64_t value) {
    return builder.create<arith::ConstantIndexOp>(loc, value);
  }
  /// Copies unless both are the same place.
  void copy(rt::BufferAttr from, rt::BufferAttr to, StringAttr name);
  IntegerAttr stream(int32_t number) {
    return builder.getI32IntegerAttr(number);
  }
  StringAttr nameOf(Operation *op) {
    StringRef name = getOpName(op);
    return name.empty() ? nullptr : builder.getStringAttr(name);
  }

  func::FuncOp function;
  rt::ProgramOp program;
  OpBuilder builder;
  Location loc = function.getLoc();
  IRMapping indices;
  int32_t events = 0;
  DenseMap<Operation *, int32_t> eventOfStart;
  bool failedPlace = false;
};
} // namespace

rt::BufferAttr ProgramLowering::place(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  if (auto argument = dyn_cast<BlockArgument>(value))
    return rt::BufferAttr::get(builder.getContext(), rt::Space::Argument,
                               nullptr, argument.getArgNumber(), 0, type);
  auto result = cast<OpResult>(value);
  auto places = result.getOwner()->getAttrOfType<ArrayAttr>(kPlacesAttrName);
  if (places && result.getResultNumber() < places.size())
    if (auto buffer =
            dyn_cast<rt::BufferAttr>(places[result.getResultNumber()]))
      if (buffer.getType() == type)
        return buffer;
  if (!failedPlace)
    result.getOwner()->emitOpError()
        << "expected a place of type " << type << " for result "
        << result.getResultNumber() << " in " << kPlacesAttrName
        << "; run heddle-plan-arenas first";
  failedPlace = true;
  // Anything that lets the caller go on to the end of this op.
  return rt::BufferAttr::get(builder.getContext(), rt::Space::Arena, nullptr, 0,
                             0, type);
}

void ProgramLowering::copy(rt::BufferAttr from, rt::BufferAttr to,
                           StringAttr name) {
  if (from == to || from.getBytes() == 0 ||
      (from.sameMemory(to) && from.getOffset() == to.getOffset()))
    return;
  builder.create<rt::CopyOp>(loc, from, to, Value(), Value(), 1, 0, 0,
                             kComputeStream, name);
}

LogicalResult ProgramLowering::lowerContract(ContractOp op) {
  std::string why;
  std::optional<ArrayRef<int64_t>> along = op.getBiasAlong();
  std::optional<ProductLayout> layout =
      getProductLayout(op.getContraction(), op.getLhs().getType(),
                       op.getRhs().getType(), op.getType(), along, why);
  if (!layout)
    return op.emitOpError() << "cannot be a matrix product: " << why;
  rt::BufferAttr c = place(op.getResult());
  if (Value accumulate = op.getAccumulate())
    copy(place(accumulate), c, op.getOpNameAttr());
  SmallVector<Attribute> loops;
  for (const ProductLayout::Loop &loop : layout->loops)
    loops.push_back(rt::LoopAttr::get(builder.getContext(), loop.extent, loop.a,
                                      loop.b, loop.c, loop.bias));
  Value a = op.getLhs(), b = op.getRhs();
  if (layout->swapped)
    std::swap(a, b);
  builder.create<rt::MatmulOp>(
      loc, place(a), place(b), c,
      op.getBias() ? place(op.getBias()) : rt::BufferAttr(),
      builder.getI64IntegerAttr(layout->m),
      builder.getI64IntegerAttr(layout->n),
      builder.getI64IntegerAttr(layout->k),
      builder.getDenseI64ArrayAttr(layout->aStrides),
      builder.getDenseI64ArrayAttr(layout->bStrides),
      builder.getI64IntegerAttr(layout->cRowStride),
      op.getAccumulate() ? builder.getUnitAttr() : UnitAttr(),
      builder.getArrayAttr(loops), stream(kComputeStream), op.getOpNameAttr());
  return success();
}

LogicalResult ProgramLowering::lowerCall(func::CallOp op) {
  SmallVector<Attribute> operands, results;
  SmallVector<Value> scalars;
  for (Value operand : op.getOperands()) {
    if (isa<RankedTensorType>(operand.getType())) {
      operands.push_back(place(operand));
    } else if (operand.getType().isIndex()) {
      operands.push_back(builder.getUnitAttr());
      scalars.push_back(index(operand));
    } else {
      return op.emitOpError() << "expected tensors and indices as operands of "
                                 "a kernel, got "
                              << operand.getType();
    }
  }
  for (Value result : op.getResults()) {
    if (!isa<RankedTensorType>(result.getType()))
      return op.emitOpError() << "expected tensors as results of a kernel, got "
                              << result.getType();
    results.push_back(place(result));
  }
  builder.create<rt::LaunchOp>(
      loc, op.getCalleeAttr(), scalars, builder.getArrayAttr(operands),
      builder.getArrayAttr(results), stream(kComputeStream), nameOf(op));
  return success();
}

Value ProgramLowering::lowerAxisIndex(FlatSymbolRefAttr mesh,
                                      AxisListAttr axes) {
  MeshOp op = lookupMesh(function, mesh);
  Value linear;
  for (StringAttr axis : axes.getAxes()) {
    Value coordinate = builder.create<rt::CoordinateOp>(
        loc, builder.getIndexType(), mesh, axis);
    int64_t size = op ? op.getMesh().getAxisSize(axis) : 1;
    linear =
        linear ? builder.create<arith::AddIOp>(
                     loc,
                     builder.create<arith::MulIOp>(loc, linear, constant(size)),
                     coordinate)
               : coordinate;
  }
  return linear ? linear : constant(0);
}

LogicalResult ProgramLowering::lowerSlice(comm::SliceOp op) {
  rt::BufferAttr from = place(op.getInput()), to = place(op.getResult());
  int64_t dim = op.getDim();
  ArrayRef<int64_t> shape = from.getType().getShape();
  int64_t total = shape[dim], local = to.getType().getDimSize(dim);
  int64_t outer = 1, row = rt::getByteSize(from.getType().getElementType());
  for (int64_t i = 0; i < dim; ++i)
    outer *= shape[i];
  for (size_t i = dim + 1; i < shape.size(); ++i)
    row *= shape[i];
  MeshOp mesh = lookupMesh(op, op.getMeshAttr());
  if (!mesh)
    return op.emitOpError() << "expected " << op.getMeshAttr()
                            << " to be a heddle.mesh in this module";
  int64_t members = mesh.getMesh().getSize(op.getAxes().getAxes());
  Value first = builder.create<arith::MulIOp>(
      loc, lowerAxisIndex(op.getMeshAttr(), op.getAxes()), constant(local));
  Value bytes;
  if (members * local != total) {
    // The last members' parts reach beyond the end: zeros there.
    builder.create<rt::FillZeroOp>(loc, to, kComputeStream, nullptr);
    first = builder.create<arith::MinSIOp>(loc, first, constant(total));
    Value rest = builder.create<arith::SubIOp>(loc, constant(total), first);
    bytes = builder.create<arith::MulIOp>(
        loc, builder.create<arith::MinSIOp>(loc, rest, constant(local)),
        constant(row));
  }
  Value offset = builder.create<arith::MulIOp>(loc, first, constant(row));
  builder.create<rt::CopyOp>(loc, from, to, offset, bytes, outer, total * row,
                             local * row, kComputeStream, nullptr);
  return success();
}

LogicalResult ProgramLowering::lowerCollective(Operation *op,
                                               rt::BufferAttr out,
                                               int32_t number) {
  rt::BufferAttr in = place(op->getOperand(0));
  auto mesh = op->getAttrOfType<FlatSymbolRefAttr>("mesh");
  auto axes = op->getAttrOfType<AxisListAttr>("axes");
  IntegerAttr on = stream(number);
  StringAttr name = nameOf(op);
  llvm::TypeSwitch<Operation *>(op)
      .Case<comm::AllReduceOp>([&](auto c) {
        builder.create<rt::AllReduceOp>(loc, in, out, mesh, axes,
                                        c.getKindAttr(), on, name);
      })
      .Case<comm::AllGatherOp>([&](auto c) {
        builder.create<rt::AllGatherOp>(loc, in, out, mesh, axes,
                                        c.getDimAttr(), on, name);
      })
      .Case<comm::ReduceScatterOp>([&](auto c) {
        builder.create<rt::ReduceScatterOp>(loc, in, out, mesh, axes,
                                            c.getKindAttr(), c.getDimAttr(), on,
                                            name);
      })
      .Case<comm::AllToAllOp>([&](auto c) {
        builder.create<rt::AllToAllOp>(loc, in, out, mesh, axes,
                                       c.getSplitDimAttr(),
                                       c.getConcatDimAttr(), on, name);
      })
      .Case<comm::BroadcastOp>([&](auto c) {
        builder.create<rt::BroadcastOp>(loc, in, out, mesh, axes,
                                        c.getRootAttr(), on, name);
      })
      .Case<comm::PermuteOp>([&](auto c) {
        builder.create<rt::PermuteOp>(loc, in, out, mesh, axes,
                                      c.getSourcesAttr(), on, name);
      })
      .Default([&](Operation *) {
        op->emitOpError() << "is not a collective that programs can run";
        failedPlace = true;
      });
  return success(!failedPlace);
}

void ProgramLowering::lowerStart(comm::StartOp op) {
  Operation *collective = &op.getBody().front().front();
  rt::BufferAttr out;
  int waits = 0;
  for (Operation *user : op->getUsers())
    if (auto wait = dyn_cast<comm::WaitOp>(user)) {
      out = place(wait.getResult());
      ++waits;
    }
  if (waits != 1) {
    op.emitOpError() << "expected one comm.wait for the token, got " << waits;
    failedPlace = true;
    return;
  }
  // The collective waits for what was issued before it, and only for that.
  builder.create<rt::RecordOp>(loc, events, kComputeStream);
  builder.create<rt::WaitOp>(loc, events, kCommStream);
  if (failed(lowerCollective(collective, out, kCommStream)))
    return;
  builder.create<rt::RecordOp>(loc, ++events, kCommStream);
  eventOfStart[op] = events++;
  program.setStreams(2);
}

void ProgramLowering::lowerTransfer(Operation *op) {
  auto mesh = op->getAttrOfType<FlatSymbolRefAttr>("mesh");
  auto axes = op->getAttrOfType<AxisListAttr>("axes");
  MeshOp meshOp = lookupMesh(op, mesh);
  int64_t members = std::max<int64_t>(
      1, meshOp ? meshOp.getMesh().getSize(axes.getAxes()) : 1);
  int64_t shift = op->getAttrOfType<IntegerAttr>("shift").getInt();
  int64_t distance = (shift % members + members) % members;
  Value peer = builder.create<arith::RemSIOp>(
      loc,
      builder.create<arith::AddIOp>(loc, lowerAxisIndex(mesh, axes),
                                    constant(distance)),
      constant(members));
  if (isa<comm::SendOp>(op))
    builder.create<rt::SendOp>(loc, place(op->getOperand(0)), peer, mesh, axes,
                               stream(kComputeStream), nameOf(op));
  else
    builder.create<rt::RecvOp>(loc, place(op->getResult(0)), peer, mesh, axes,
                               stream(kComputeStream), nameOf(op));
}

LogicalResult ProgramLowering::lower(Operation *op) {
  loc = op->getLoc();
  StringAttr name = nameOf(op);
  IntegerAttr compute = stream(kComputeStream);
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<LoadOp>([&](LoadOp load) {
        rt::BufferAttr to = place(load.getResult());
        copy(rt::BufferAttr::get(builder.getContext(), rt::Space::Variable,
                                 load.getVariableAttr(), 0, 0, to.getType()),
             to, load.getVariableAttr().getAttr());
        return success();
      })
      .Case<StoreOp>([&](StoreOp store) {
        rt::BufferAttr from = place(store.getValue());
        copy(from,
             rt::BufferAttr::get(builder.getContext(), rt::Space::Variable,
                                 store.getVariableAttr(), 0, 0, from.getType()),
             store.getVariableAttr().getAttr());
        return success();
      })
      .Case<func::ReturnOp>([&](func::ReturnOp ret) {
        for (OpOperand &operand : ret->getOpOperands()) {
          rt::BufferAttr from = place(operand.get());
          copy(from,
               rt::BufferAttr::get(builder.getContext(), rt::Space::Result,
                                   nullptr, operand.getOperandNumber(), 0,
                                   from.getType()),
               nullptr);
        }
        return success();
      })
      .Case<StackOp>([&](StackOp stack) {
        rt::BufferAttr to = place(stack.getResult());
        int64_t offset = 0;
        for (Value slice : stack.getSlices()) {
          rt::BufferAttr from = place(slice);
          copy(from, to.getView(offset, from.getType()), name);
          offset += from.getBytes();
        }
        return success();
      })
      .Case<ContractOp>([&](ContractOp c) { return lowerContract(c); })
      .Case<heddle::AttentionOp>([&](heddle::AttentionOp a) {
        builder.create<rt::AttentionOp>(
            loc, place(a.getQuery()), place(a.getKey()), place(a.getValue()),
            place(a.getOutput()), place(a.getLse()),
            a.getStep() ? place(a.getStep()) : rt::BufferAttr(),
            indexRange(a.getOffsets()), a.getScaleAttr(), a.getCausalAttr(),
            a.getDropoutAttr(), a.getSeedAttr(), a.getGlobalShapeAttr(),
            compute, name);
        return success();
      })
      .Case<heddle::AttentionGradOp>([&](heddle::AttentionGradOp a) {
        builder.create<rt::AttentionGradOp>(
            loc, place(a.getQuery()), place(a.getKey()), place(a.getValue()),
            place(a.getOutput()), place(a.getLse()), place(a.getOutputGrad()),
            place(a.getQueryGrad()), place(a.getKeyGrad()),
            place(a.getValueGrad()),
            a.getStep() ? place(a.getStep()) : rt::BufferAttr(),
            indexRange(a.getOffsets()), a.getScaleAttr(), a.getCausalAttr(),
            a.getDropoutAttr(), a.getSeedAttr(), a.getGlobalShapeAttr(),
            compute, name);
        return success();
      })
      .Case<heddle::EmbeddingGradOp>([&](heddle::EmbeddingGradOp e) {
        rt::BufferAttr table = place(e.getResult());
        if (Value accumulate = e.getAccumulate())
          copy(place(accumulate), table, name);
        builder.create<rt::EmbeddingGradOp>(
            loc, place(e.getIds()), place(e.getYGrad()), table,
            e.getOffset() ? index(e.getOffset()) : Value(),
            e.getAccumulate() ? builder.getUnitAttr() : UnitAttr(), compute,
            name);
        return success();
      })
      .Case<heddle::RotaryTableOp>([&](heddle::RotaryTableOp r) {
        builder.create<rt::RotaryTableOp>(
            loc, place(r.getCos()), place(r.getSin()),
            r.getOffset() ? index(r.getOffset()) : Value(),
            r.getFrequenciesAttr(), compute, name);
        return success();
      })
      .Case<func::CallOp>([&](func::CallOp call) { return lowerCall(call); })
      .Case<comm::AxisIndexOp>([&](comm::AxisIndexOp axis) {
        indices.map(axis.getResult(),
                    lowerAxisIndex(axis.getMeshAttr(), axis.getAxes()));
        return success();
      })
      .Case<comm::SliceOp>([&](comm::SliceOp s) { return lowerSlice(s); })
      .Case<comm::StartOp>([&](comm::StartOp start) {
        lowerStart(start);
        return success();
      })
      .Case<comm::WaitOp>([&](comm::WaitOp wait) {
        builder.create<rt::WaitOp>(
            loc, eventOfStart.lookup(wait.getToken().getDefiningOp()),
            kComputeStream);
        return success();
      })
      .Case<comm::SendOp, comm::RecvOp>([&](Operation *) {
        lowerTransfer(op);
        return success();
      })
      .Default([&](Operation *) -> LogicalResult {
        if (isa<comm::CommDialect>(op->getDialect()))
          return lowerCollective(op, place(op->getResult(0)), kComputeStream);
        if (isa<arith::ArithDialect>(op->getDialect())) {
          if (!isa<RankedTensorType>(op->getResult(0).getType()))
            builder.clone(*op, indices);
          return success(); // constant tensors are data of the artifact
        }
        if (op->getNumResults() && getViewOffset(op->getResult(0)))
          return success();
        return op->emitOpError() << "is not an op that a program can run";
      });
}

LogicalResult ProgramLowering::run() {
  for (Operation &op : function.getBody().front())
    if (failed(lower(&op)) || failedPlace)
      return failure();
  builder.create<rt::SynchronizeOp>(loc);
  return success();
}

namespace {
struct LowerToRt : heddle::impl::LowerToRtPassBase<LowerToRt> {
  void runOnOperation() override {
    for (auto function :
         llvm::make_early_inc_range(getOperation().getOps<func::FuncOp>())) {
      if (function.isExternal() || function->hasAttr(kKernelAttrName))
        continue;
      if (failed(lower(function)))
        return signalPassFailure();
    }
  }

  /// What the manifest says of an argument or result.
  static rt::PortAttr getPort(StringRef kind, unsigned index, Type type,
                              DictionaryAttr attributes) {
    auto global = cast<RankedTensorType>(type);
    StringAttr name;
    ShardingAttr sharding;
    if (attributes) {
      name = attributes.getAs<StringAttr>(kNameAttrName);
      sharding = attributes.getAs<ShardingAttr>(kShardingAttrName);
      if (auto attribute = attributes.getAs<TypeAttr>(kGlobalTypeAttrName))
        if (auto given = dyn_cast<RankedTensorType>(attribute.getValue()))
          global = given;
    }
    if (!name)
      name = StringAttr::get(type.getContext(), kind + Twine(index));
    return rt::PortAttr::get(type.getContext(), name, global, sharding);
  }

  static LogicalResult getPorts(func::FuncOp function, StringRef kind,
                                TypeRange types, ArrayAttr attributes,
                                SmallVectorImpl<Attribute> &ports) {
    DenseMap<StringAttr, unsigned> numbers;
    for (auto [i, type] : llvm::enumerate(types)) {
      if (!isa<RankedTensorType>(type))
        return function.emitOpError() << "expected " << kind << ' ' << i
                                      << " to be a tensor, got " << type;
      rt::PortAttr port = getPort(
          kind, i, type,
          attributes ? cast<DictionaryAttr>(attributes[i]) : DictionaryAttr());
      auto [known, isNew] = numbers.try_emplace(port.getName(), i);
      if (!isNew)
        return function.emitOpError()
               << "expected " << kNameAttrName << " to tell each " << kind
               << " from the others, got " << port.getName() << " for "
               << known->second << " and " << i;
      if (RankedTensorType local = rt::getLocalType(function, port);
          local != type)
        return function.emitOpError()
               << "expected " << kind << ' ' << i << " to be " << local
               << ", one device's part of " << port << ", got " << type;
      ports.push_back(port);
    }
    return success();
  }

  static LogicalResult lower(func::FuncOp function) {
    auto arena = function->getAttrOfType<IntegerAttr>(kArenaAttrName);
    if (!arena)
      return function.emitOpError() << "expected " << kArenaAttrName
                                    << "; run heddle-plan-arenas first";
    SmallVector<Attribute> inputs, outputs;
    if (failed(getPorts(function, "argument", function.getArgumentTypes(),
                        function.getArgAttrsAttr(), inputs)) ||
        failed(getPorts(function, "result", function.getResultTypes(),
                        function.getResAttrsAttr(), outputs)))
      return failure();
    OpBuilder builder(function);
    auto program = builder.create<rt::ProgramOp>(
        function.getLoc(), function.getName(), arena.getInt(), 1,
        builder.getArrayAttr(inputs), builder.getArrayAttr(outputs));
    program.getBody().emplaceBlock();
    if (failed(ProgramLowering(function, program).run()))
      return failure();
    function.erase();
    return success();
  }
};
} // namespace
