//===- ProgramLowering.cpp - One function as calls of the runtime ---------===//

#include "ProgramLowering.h"
#include "../Batches/Batches.h"
#include "../PlanArenas/ProgramBuffers.h"
#include "../Products/ContractionLayout.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

rt::BufferAttr
ProgramMemory::find(rt::BufferAttr buffer,
                    llvm::function_ref<InFlightDiagnostic()> emitError) const {
  rt::BufferAttr outer;
  switch (buffer.getSpace()) {
  case rt::Space::Arena:
    outer = arena;
    break;
  case rt::Space::Argument:
  case rt::Space::Result: {
    ArrayRef<rt::BufferAttr> ports =
        buffer.getSpace() == rt::Space::Argument ? arguments : results;
    int64_t index = buffer.getIndex();
    if (index < 0 || index >= int64_t(ports.size())) {
      emitError() << "expected " << rt::stringifySpace(buffer.getSpace())
                  << " of an index below " << ports.size() << ", got " << index;
      return {};
    }
    outer = ports[index];
    break;
  }
  case rt::Space::Variable:
  case rt::Space::Constant:
    return buffer;
  }
  return rt::BufferAttr::getChecked(
      emitError, buffer.getContext(), outer.getSpace(), outer.getSymbol(),
      outer.getIndex(), outer.getOffset() + buffer.getOffset(),
      buffer.getType());
}

ProgramLowering::ProgramLowering(func::FuncOp function, rt::ProgramOp program)
    : function(function), program(program),
      builder(OpBuilder::atBlockEnd(&program.getBody().front())) {}

ProgramLowering::ProgramLowering(func::FuncOp function, Block *body,
                                 const ProgramMemory &memory,
                                 const ProgramLowering *caller)
    : function(function), program(caller->program),
      builder(OpBuilder::atBlockEnd(body)), memory(memory), caller(caller),
      events(caller->events) {}

rt::BufferAttr ProgramLowering::place(Value value) {
  auto type = cast<RankedTensorType>(value.getType());
  rt::BufferAttr buffer;
  Operation *op = value.getDefiningOp();
  if (auto argument = dyn_cast<BlockArgument>(value)) {
    buffer = rt::BufferAttr::get(builder.getContext(), rt::Space::Argument,
                                 nullptr, argument.getArgNumber(), 0, type);
  } else {
    unsigned number = cast<OpResult>(value).getResultNumber();
    auto places = op->getAttrOfType<ArrayAttr>(kPlacesAttrName);
    if (places && number < places.size())
      buffer = dyn_cast<rt::BufferAttr>(places[number]);
    if (buffer && buffer.getType() != type)
      buffer = {};
    if (!buffer && !failedPlace)
      op->emitOpError() << "expected a place of type " << type << " for result "
                        << number << " in " << kPlacesAttrName
                        << "; run heddle-plan-arenas first";
  }
  if (buffer)
    return findInProgram(op, buffer);
  failedPlace = true;
  // Returns any buffer. An error was emitted, and the caller stops after this
  // op.
  return rt::BufferAttr::get(builder.getContext(), rt::Space::Arena, nullptr, 0,
                             0, type);
}

rt::BufferAttr ProgramLowering::placeResult(OpOperand &returned) {
  auto type = cast<RankedTensorType>(returned.get().getType());
  return findInProgram(
      returned.getOwner(),
      rt::BufferAttr::get(builder.getContext(), rt::Space::Result, nullptr,
                          returned.getOperandNumber(), 0, type));
}

rt::BufferAttr ProgramLowering::findInProgram(Operation *op,
                                              rt::BufferAttr buffer) {
  if (!memory)
    return buffer;
  rt::BufferAttr found =
      memory->find(buffer, [&] { return (op ? op : function)->emitOpError(); });
  failedPlace |= !found;
  return found ? found : buffer;
}

ServesAttr ProgramLowering::servesOf(Operation *op) {
  FlatSymbolRefAttr accessed;
  if (auto load = dyn_cast<LoadOp>(op))
    accessed = load.getVariableAttr();
  else if (auto store = dyn_cast<StoreOp>(op))
    accessed = store.getVariableAttr();
  if (accessed)
    if (auto variable =
            symbols.lookupNearestSymbolFrom<VariableOp>(function, accessed))
      return getServes(variable);
  if (ServesAttr serves = getServes(op))
    return serves;
  StringRef what = op->getName().getStringRef();
  if (auto call = dyn_cast<func::CallOp>(op))
    what = call.getCallee();
  return ServesAttr::get(
      builder.getContext(), DataKind::Activation,
      builder.getStringAttr(function.getSymName() + "." + what));
}

ServesAttr ProgramLowering::servesOfValue(Value value) {
  // A view serves the same operators as its operand.
  while (auto result = dyn_cast<OpResult>(value)) {
    Operation *op = result.getOwner();
    if (!getViewOffset(result) || op->getNumOperands() == 0)
      return servesOf(op);
    value = op->getOperand(0);
  }
  unsigned index = cast<BlockArgument>(value).getArgNumber();
  auto name = function.getArgAttrOfType<StringAttr>(index, kNameAttrName);
  if (!name || name.empty())
    name = builder.getStringAttr(function.getSymName() + ".argument" +
                                 Twine(index));
  return ServesAttr::get(builder.getContext(), DataKind::Activation, name);
}

void ProgramLowering::copy(rt::BufferAttr from, rt::BufferAttr to,
                           ServesAttr serves) {
  if (from == to || from.getBytes() == 0 ||
      (from.sameMemory(to) && from.getOffset() == to.getOffset()))
    return;
  builder.create<rt::CopyOp>(loc, from, to, Value(), Value(), 1, 0, 0,
                             kComputeStream, serves);
}

template <typename Op>
LogicalResult
ProgramLowering::lowerContract(Op op, std::optional<ProductEpilogue> epilogue,
                               Value extra) {
  Type element = op.getLhs().getType().getElementType();
  if (!element.isF32() && !element.isBF16() && !element.isF16())
    return op.emitOpError() << "cannot be compiled: expected operands of f32, "
                               "bf16 or f16, got "
                            << element;
  std::string why;
  std::optional<ArrayRef<int64_t>> along = op.getBiasAlong();
  std::optional<ProductLayout> layout;
  if (epilogue == ProductEpilogue::LhsSums ||
      epilogue == ProductEpilogue::RhsSums) {
    if (std::optional<SumsLayout> sums =
            getSumsLayout(op.getContraction(), op.getLhs().getType(),
                          op.getRhs().getType(), op.getResult().getType(),
                          epilogue == ProductEpilogue::LhsSums, why)) {
      layout = sums->product;
      epilogue =
          sums->ofA ? ProductEpilogue::LhsSums : ProductEpilogue::RhsSums;
    }
  } else {
    layout = getProductLayout(op.getContraction(), op.getLhs().getType(),
                              op.getRhs().getType(), op.getResult().getType(),
                              along, why);
  }
  if (!layout)
    return op.emitOpError() << "cannot be a matrix product: " << why;
  rt::BufferAttr c = place(op.getResult());
  if (Value accumulate = op.getAccumulate())
    copy(place(accumulate), c, servesOf(op));
  SmallVector<Attribute> loops;
  for (const ProductLayout::Loop &loop : layout->loops)
    loops.push_back(rt::LoopAttr::get(builder.getContext(), loop.extent, loop.a,
                                      loop.b, loop.c, loop.bias));
  Value a = op.getLhs(), b = op.getRhs();
  if (layout->swapped)
    std::swap(a, b);
  ProductEpilogueAttr epilogueAttr;
  if (epilogue)
    epilogueAttr = ProductEpilogueAttr::get(builder.getContext(), *epilogue);
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
      builder.getArrayAttr(loops), epilogueAttr,
      extra ? place(extra) : rt::BufferAttr(), stream(kComputeStream),
      servesOf(op));
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
  auto launch = builder.create<rt::LaunchOp>(
      loc, op.getCalleeAttr(), scalars, builder.getArrayAttr(operands),
      builder.getArrayAttr(results), stream(kComputeStream), servesOf(op));
  if (Attribute batch = op->getAttr(kBatchAttrName))
    launch->setAttr(kBatchAttrName, batch);
  return success();
}

LogicalResult ProgramLowering::lowerCallee(WhileOp loop, FlatSymbolRefAttr name,
                                           Region &region, ValueRange arguments,
                                           ValueRange results) {
  auto callee =
      SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(function, name);
  if (!callee || !callee->hasAttr(kArenaAttrName))
    return loop.emitOpError()
           << "expected " << name << " to be a func.func with "
           << kArenaAttrName << "; run heddle-plan-arenas first";
  for (const ProgramLowering *open = this; open; open = open->caller)
    if (open->function == callee)
      return loop.emitOpError() << "expected " << name << " not to call itself";
  ProgramMemory places;
  for (Value argument : arguments)
    places.arguments.push_back(place(argument));
  for (Value result : results)
    places.results.push_back(place(result));
  places.arena = place(loop.getWorkspace());
  if (failedPlace)
    return failure();
  ProgramLowering lowering(callee, &region.emplaceBlock(), places, this);
  if (failed(lowering.lowerOps()))
    return failure();
  events = lowering.events;
  return success();
}

LogicalResult ProgramLowering::lowerLoop(WhileOp loop) {
  for (auto [init, carried] : llvm::zip(loop.getInits(), loop.getCarried()))
    copy(place(init), place(carried), servesOfValue(init));
  auto local = builder.create<rt::WhileOp>(loc, place(loop.getCondition()));
  auto followed = [](ValueRange values, ValueRange by) {
    SmallVector<Value> all(values);
    llvm::append_range(all, by);
    return all;
  };
  return success(
      succeeded(
          lowerCallee(loop, loop.getBeforeAttr(), local.getBefore(),
                      followed(loop.getCarried(), loop.getCaptured()),
                      followed(loop.getCondition(), loop.getResults()))) &&
      succeeded(lowerCallee(loop, loop.getAfterAttr(), local.getAfter(),
                            followed(loop.getResults(), loop.getCaptured()),
                            loop.getCarried())));
}

LogicalResult ProgramLowering::lower(Operation *op) {
  loc = op->getLoc();
  IntegerAttr compute = stream(kComputeStream);
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case<LoadOp>([&](LoadOp load) {
        rt::BufferAttr to = place(load.getResult());
        copy(rt::BufferAttr::get(builder.getContext(), rt::Space::Variable,
                                 load.getVariableAttr(), 0, 0, to.getType()),
             to, servesOf(load));
        return success();
      })
      .Case<StoreOp>([&](StoreOp store) {
        rt::BufferAttr from = place(store.getValue());
        copy(from,
             rt::BufferAttr::get(builder.getContext(), rt::Space::Variable,
                                 store.getVariableAttr(), 0, 0, from.getType()),
             servesOf(store));
        return success();
      })
      .Case<func::ReturnOp>([&](func::ReturnOp ret) {
        for (OpOperand &operand : ret->getOpOperands()) {
          rt::BufferAttr from = place(operand.get());
          copy(from, placeResult(operand), servesOfValue(operand.get()));
        }
        return success();
      })
      .Case<StackOp, tensor::ConcatOp>([&](Operation *join) {
        rt::BufferAttr to = place(join->getResult(0));
        int64_t offset = 0;
        for (OpOperand &part : join->getOpOperands()) {
          rt::BufferAttr into =
              to.getView(offset, cast<RankedTensorType>(part.get().getType()));
          if (isZeroPart(part))
            builder.create<rt::FillZeroOp>(loc, into, kComputeStream,
                                           servesOf(join));
          else
            copy(place(part.get()), into, servesOfValue(part.get()));
          offset += into.getBytes();
        }
        return success();
      })
      .Case<ContractOp>([&](ContractOp c) { return lowerContract(c); })
      .Case<FusedContractOp>([&](FusedContractOp c) {
        return lowerContract(c, c.getEpilogue(),
                             c.getExtra() ? c.getExtra() : c.getInput());
      })
      .Case<heddle::AttentionOp>([&](heddle::AttentionOp a) {
        builder.create<rt::AttentionOp>(
            loc, place(a.getQuery()), place(a.getKey()), place(a.getValue()),
            place(a.getOutput()), place(a.getLse()),
            a.getStep() ? place(a.getStep()) : rt::BufferAttr(),
            a.getMask() ? place(a.getMask()) : rt::BufferAttr(),
            indexRange(a.getOffsets()), a.getScaleAttr(), a.getCausalAttr(),
            a.getWindowAttr(), a.getDropoutAttr(), a.getSeedAttr(),
            a.getGlobalShapeAttr(), a.getOpNameAttr(), compute, servesOf(a));
        return success();
      })
      .Case<heddle::AttentionGradOp>([&](heddle::AttentionGradOp a) {
        builder.create<rt::AttentionGradOp>(
            loc, place(a.getQuery()), place(a.getKey()), place(a.getValue()),
            place(a.getOutput()), place(a.getLse()), place(a.getOutputGrad()),
            place(a.getQueryGrad()), place(a.getKeyGrad()),
            place(a.getValueGrad()),
            a.getStep() ? place(a.getStep()) : rt::BufferAttr(),
            a.getMask() ? place(a.getMask()) : rt::BufferAttr(),
            indexRange(a.getOffsets()), a.getScaleAttr(), a.getCausalAttr(),
            a.getWindowAttr(), a.getDropoutAttr(), a.getSeedAttr(),
            a.getGlobalShapeAttr(), a.getOpNameAttr(), compute, servesOf(a));
        return success();
      })
      .Case<heddle::EmbeddingGradOp>([&](heddle::EmbeddingGradOp e) {
        rt::BufferAttr table = place(e.getResult());
        if (Value accumulate = e.getAccumulate())
          copy(place(accumulate), table, servesOf(e));
        builder.create<rt::EmbeddingGradOp>(
            loc, place(e.getIds()), place(e.getYGrad()), table,
            e.getOffset() ? index(e.getOffset()) : Value(),
            e.getAccumulate() ? builder.getUnitAttr() : UnitAttr(), compute,
            servesOf(e));
        return success();
      })
      .Case<heddle::RotaryTableOp>([&](heddle::RotaryTableOp r) {
        builder.create<rt::RotaryTableOp>(
            loc, place(r.getCos()), place(r.getSin()),
            r.getOffset() ? index(r.getOffset()) : Value(),
            r.getFrequenciesAttr(), compute, servesOf(r));
        return success();
      })
      .Case<func::CallOp>([&](func::CallOp call) { return lowerCall(call); })
      .Case<WhileOp>([&](WhileOp loop) { return lowerLoop(loop); })
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
        if (isa_and_nonnull<comm::CommDialect>(op->getDialect()))
          return lowerCollective(op, place(op->getResult(0)), kComputeStream);
        if (isa_and_nonnull<arith::ArithDialect>(op->getDialect())) {
          if (!isa<RankedTensorType>(op->getResult(0).getType()))
            builder.clone(*op, indices);
          return success(); // constant tensors are data of the artifact
        }
        if (op->getNumResults() && getViewOffset(op->getResult(0)))
          return success();
        return op->emitOpError() << "is not an op that a program can run";
      });
}

LogicalResult ProgramLowering::lowerOps() {
  for (Operation &op : function.getBody().front())
    if (failed(lower(&op)) || failedPlace)
      return failure();
  return success();
}

LogicalResult ProgramLowering::run() {
  // Each comm.start has its comm.wait. So the compute stream has waited for all
  // other streams at the program's end.
  return lowerOps();
}
