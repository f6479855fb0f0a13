//===- ConvertRtToLLVM.cpp - heddle-convert-rt-to-llvm --------------------===//

#include "RuntimeCalls.h"
#include "heddle/Lower/Passes.h"
#include "heddle/Lower/StreamId.h"
#include "heddle_rt/abi.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {
#define GEN_PASS_DEF_CONVERTRTTOLLVMPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {
/// Sizes around one dimension: elements outside of it, along it, inside.
struct Around {
  int64_t outer = 1, inner = 1;
  Around(ArrayRef<int64_t> shape, int64_t dim) {
    for (int64_t i = 0; i < dim; ++i)
      outer *= shape[i];
    for (size_t i = dim + 1; i < shape.size(); ++i)
      inner *= shape[i];
  }
};

/// Converts one program. Errors are emitted and leave `failed` set.
class ProgramConversion {
public:
  ProgramConversion(RuntimeModule &runtime, rt::ProgramOp program,
                    LLVM::LLVMFuncOp function)
      : runtime(runtime), program(program), f(runtime, function) {}

  LogicalResult run();

private:
  void convert(Operation *op);
  void convertArith(Operation *op);
  void convertLaunch(rt::LaunchOp op);
  void convertMatmul(rt::MatmulOp op);
  template <typename Op>
  void convertAttention(Op op, StringRef function, ValueRange tensors);
  void convertAllToAll(rt::AllToAllOp op);
  void convertLoop(rt::WhileOp op);
  void convertOps(Region &region);

  Value address(Operation *op, rt::BufferAttr buffer) {
    Value pointer = f.addressOf(op, buffer);
    failed |= !pointer;
    return pointer ? pointer : f.null();
  }
  Value stream(Operation *op) {
    return f.i32(op->getAttrOfType<IntegerAttr>("stream").getInt());
  }
  Value type(rt::BufferAttr buffer) {
    return f.i32(
        rt::getRuntimeType(buffer.getType().getElementType()).value_or(-1));
  }
  Value index(Value value) { return indices.lookup(value); }
  /// The operands that all collectives start with: stream, group.
  template <typename Op> SmallVector<Value> onGroup(Op op) {
    return {stream(op), f.i32(runtime.getGroup(op.getAxes()))};
  }

  RuntimeModule &runtime;
  rt::ProgramOp program;
  RuntimeFunction f;
  DenseMap<Value, Value> indices;
  bool failed = false;
};
} // namespace

//===----------------------------------------------------------------------===//
// Compute
//===----------------------------------------------------------------------===//

void ProgramConversion::convertLaunch(rt::LaunchOp op) {
  auto kernel = runtime.symbols.lookup<LLVM::LLVMFuncOp>(op.getKernel());
  auto blocks =
      kernel ? kernel->getAttrOfType<IntegerAttr>(kBlocksAttrName) : nullptr;
  auto grain =
      kernel ? kernel->getAttrOfType<IntegerAttr>(kGrainAttrName) : nullptr;
  if (!blocks || !grain) {
    op.emitOpError() << "expected " << op.getKernelAttr()
                     << " to be an llvm.func with " << kBlocksAttrName
                     << " and " << kGrainAttrName
                     << "; run heddle-lower-kernels first";
    failed = true;
    return;
  }
  SmallVector<Value> buffers{f.getCoordinates()};
  auto next = op.getIndices().begin();
  for (Attribute operand : op.getOperands_()) {
    if (auto buffer = dyn_cast<rt::BufferAttr>(operand))
      buffers.push_back(address(op, buffer));
    else
      buffers.push_back(f.store(index(*next++)));
  }
  for (auto buffer : op.getResults_().getAsRange<rt::BufferAttr>())
    buffers.push_back(address(op, buffer));
  Value function = f.builder.create<LLVM::AddressOfOp>(f.loc, kernel);
  f.call("heddle_rt_launch",
         {stream(op), function, f.pointers(buffers), f.i32(buffers.size()),
          f.i64(blocks.getInt()), f.i64(grain.getInt())});
}

void ProgramConversion::convertMatmul(rt::MatmulOp op) {
  heddle_rt_matmul_desc desc = {};
  desc.m = op.getM();
  desc.n = op.getN();
  desc.k = op.getK();
  desc.a_row_stride = op.getAStrides()[0];
  desc.a_column_stride = op.getAStrides()[1];
  desc.b_row_stride = op.getBStrides()[0];
  desc.b_column_stride = op.getBStrides()[1];
  desc.c_row_stride = op.getCRowStride();
  auto typeOf = [](rt::BufferAttr buffer) {
    return rt::getRuntimeType(buffer.getType().getElementType()).value_or(-1);
  };
  desc.a_type = typeOf(op.getA());
  desc.b_type = typeOf(op.getB());
  desc.c_type = typeOf(op.getC());
  desc.bias_type = op.getBias() ? typeOf(*op.getBias()) : -1;
  desc.accumulate = op.getAccumulate();
  for (auto loop : op.getLoops().getAsRange<rt::LoopAttr>()) {
    desc.bias_strides[desc.num_loops] = loop.getBias();
    desc.loops[desc.num_loops++] = {loop.getExtent(), loop.getA(), loop.getB(),
                                    loop.getC()};
  }
  f.call("heddle_rt_matmul",
         {stream(op), f.addressOf(runtime.getConstant(desc)),
          address(op, op.getA()), address(op, op.getB()),
          address(op, op.getC()),
          op.getBias() ? address(op, *op.getBias()) : f.null()});
}

template <typename Op>
void ProgramConversion::convertAttention(Op op, StringRef function,
                                         ValueRange tensors) {
  ArrayRef<int64_t> q = op.getQ().getType().getShape();
  ArrayRef<int64_t> k = op.getK().getType().getShape();
  heddle_rt_attention_desc desc = {};
  desc.batch = q[0];
  desc.queries = q[1];
  desc.keys = k[1];
  desc.groups = q[2];
  desc.group_size = q.size() == 5 ? q[3] : 1;
  desc.head = q.back();
  desc.q_head_stride = desc.head;
  desc.q_group_stride = desc.group_size * desc.q_head_stride;
  desc.q_row_stride = desc.groups * desc.q_group_stride;
  desc.q_batch_stride = desc.queries * desc.q_row_stride;
  desc.k_group_stride = desc.head;
  desc.k_row_stride = desc.groups * desc.k_group_stride;
  desc.k_batch_stride = desc.keys * desc.k_row_stride;
  desc.v_group_stride = desc.k_group_stride;
  desc.v_row_stride = desc.k_row_stride;
  desc.v_batch_stride = desc.k_batch_stride;
  desc.dq_batch_stride = desc.q_batch_stride;
  desc.dq_row_stride = desc.q_row_stride;
  desc.dq_group_stride = desc.q_group_stride;
  desc.dq_head_stride = desc.q_head_stride;
  desc.dk_batch_stride = desc.dv_batch_stride = desc.k_batch_stride;
  desc.dk_row_stride = desc.dv_row_stride = desc.k_row_stride;
  desc.dk_group_stride = desc.dv_group_stride = desc.k_group_stride;
  desc.type =
      rt::getRuntimeType(op.getQ().getType().getElementType()).value_or(-1);
  desc.causal = op.getCausal();
  desc.scale = op.getScale().convertToDouble();
  desc.dropout = op.getDropout().convertToDouble();
  desc.seed = op.getSeed();
  desc.op_id = desc.dropout > 0 ? getStreamId(op.getOpName().value_or("")) : 0;
  desc.global_queries = desc.queries;
  desc.global_keys = desc.keys;
  desc.global_groups = desc.groups;
  desc.global_group_size = desc.group_size;
  if (auto global = op.getGlobalShape()) {
    desc.global_queries = (*global)[0];
    desc.global_keys = (*global)[1];
    desc.global_groups = (*global)[2];
    desc.global_group_size = (*global)[3];
  }
  // heddle_rt_attention_offsets: batch, query, key, group, group_member.
  SmallVector<Value> words;
  for (Value offset : op.getOffsets())
    words.push_back(index(offset));
  static const heddle_rt_attention_offsets zeros = {};
  Value offsets =
      words.empty() ? f.addressOf(runtime.getConstant(zeros)) : f.store(words);
  SmallVector<Value> operands{
      stream(op), f.addressOf(runtime.getConstant(desc)), offsets,
      op.getStep() ? address(op, *op.getStep()) : f.null()};
  llvm::append_range(operands, tensors);
  f.call(function, operands);
}

//===----------------------------------------------------------------------===//
// Index arithmetic
//===----------------------------------------------------------------------===//

void ProgramConversion::convertArith(Operation *op) {
  OpBuilder &b = f.builder;
  Location loc = f.loc;
  auto operand = [&](int i) { return index(op->getOperand(i)); };
  Value result =
      llvm::TypeSwitch<Operation *, Value>(op)
          .Case<arith::ConstantOp>([&](auto c) -> Value {
            auto value = dyn_cast<IntegerAttr>(c.getValue());
            if (!value)
              return nullptr;
            if (c.getType().isInteger(1))
              return b.create<LLVM::ConstantOp>(loc, value);
            return f.i64(value.getInt());
          })
          .Case<arith::AddIOp>([&](auto) -> Value {
            return b.create<LLVM::AddOp>(loc, operand(0), operand(1));
          })
          .Case<arith::SubIOp>([&](auto) -> Value {
            return b.create<LLVM::SubOp>(loc, operand(0), operand(1));
          })
          .Case<arith::MulIOp>([&](auto) -> Value {
            return b.create<LLVM::MulOp>(loc, operand(0), operand(1));
          })
          .Case<arith::DivSIOp>([&](auto) -> Value {
            return b.create<LLVM::SDivOp>(loc, operand(0), operand(1));
          })
          .Case<arith::DivUIOp>([&](auto) -> Value {
            return b.create<LLVM::UDivOp>(loc, operand(0), operand(1));
          })
          .Case<arith::RemSIOp>([&](auto) -> Value {
            return b.create<LLVM::SRemOp>(loc, operand(0), operand(1));
          })
          .Case<arith::RemUIOp>([&](auto) -> Value {
            return b.create<LLVM::URemOp>(loc, operand(0), operand(1));
          })
          .Case<arith::MinSIOp>([&](auto) -> Value {
            return b.create<LLVM::SMinOp>(loc, operand(0), operand(1));
          })
          .Case<arith::MaxSIOp>([&](auto) -> Value {
            return b.create<LLVM::SMaxOp>(loc, operand(0), operand(1));
          })
          .Case<arith::CmpIOp>([&](arith::CmpIOp c) -> Value {
            return b.create<LLVM::ICmpOp>(
                loc, static_cast<LLVM::ICmpPredicate>(c.getPredicate()),
                operand(0), operand(1));
          })
          .Case<arith::SelectOp>([&](auto) -> Value {
            return b.create<LLVM::SelectOp>(loc, operand(0), operand(1),
                                            operand(2));
          })
          .Case<arith::IndexCastOp, arith::IndexCastUIOp>([&](auto c) -> Value {
            return c.getType().isIndex() || c.getType().isInteger(64)
                       ? operand(0)
                       : nullptr;
          })
          .Default([](Operation *) { return nullptr; });
  if (!result) {
    op->emitOpError() << "is not index arithmetic that programs can do";
    failed = true;
    return;
  }
  indices[op->getResult(0)] = result;
}

//===----------------------------------------------------------------------===//
// Collectives and the rest
//===----------------------------------------------------------------------===//

void ProgramConversion::convertAllToAll(rt::AllToAllOp op) {
  ArrayRef<int64_t> in = op.getIn().getType().getShape();
  ArrayRef<int64_t> out = op.getOut().getType().getShape();
  int64_t split = op.getSplitDim(), concat = op.getConcatDim();
  int64_t outer = 1, middle = 1, inner = 1;
  for (int64_t i = 0; i < int64_t(in.size()); ++i) {
    if (i == split || i == concat)
      continue;
    (i < std::min(split, concat)   ? outer
     : i < std::max(split, concat) ? middle
                                   : inner) *= in[i];
  }
  SmallVector<Value> operands = onGroup(op);
  llvm::append_values(operands, type(op.getIn()), address(op, op.getIn()),
                      address(op, op.getOut()), f.i32(split < concat),
                      f.i64(outer), f.i64(in[split]), f.i64(out[split]),
                      f.i64(middle), f.i64(in[concat]), f.i64(out[concat]),
                      f.i64(inner));
  f.call("heddle_rt_all_to_all", operands);
}

void ProgramConversion::convertOps(Region &region) {
  for (Block &block : region)
    for (Operation &op : block)
      if (!failed)
        convert(&op);
}

void ProgramConversion::convertLoop(rt::WhileOp op) {
  f.loop(
      [&] {
        convertOps(op.getBefore());
        return address(op, op.getCondition());
      },
      [&] { convertOps(op.getAfter()); });
}

void ProgramConversion::convert(Operation *op) {
  f.loc = op->getLoc();
  llvm::TypeSwitch<Operation *>(op)
      .Case<rt::LaunchOp>([&](auto o) { convertLaunch(o); })
      .Case<rt::MatmulOp>([&](auto o) { convertMatmul(o); })
      .Case<rt::AttentionOp>([&](rt::AttentionOp o) {
        convertAttention(o, "heddle_rt_attention",
                         {address(o, o.getQ()), address(o, o.getK()),
                          address(o, o.getV()), address(o, o.getO()),
                          address(o, o.getLse())});
      })
      .Case<rt::AttentionGradOp>([&](rt::AttentionGradOp o) {
        convertAttention(o, "heddle_rt_attention_grad",
                         {address(o, o.getQ()), address(o, o.getK()),
                          address(o, o.getV()), address(o, o.getO()),
                          address(o, o.getLse()), address(o, o.getOGrad()),
                          address(o, o.getQGrad()), address(o, o.getKGrad()),
                          address(o, o.getVGrad())});
      })
      .Case<rt::EmbeddingGradOp>([&](rt::EmbeddingGradOp o) {
        RankedTensorType table = o.getTable().getType();
        f.call("heddle_rt_embedding_grad",
               {stream(o), address(o, o.getIds()),
                f.i64(o.getIds().getNumElements()), address(o, o.getRows()),
                type(o.getRows()), f.i64(table.getDimSize(1)),
                o.getFirstRow() ? index(o.getFirstRow()) : f.i64(0),
                f.i64(table.getDimSize(0)), f.i32(o.getAccumulate()),
                address(o, o.getTable())});
      })
      .Case<rt::RotaryTableOp>([&](rt::RotaryTableOp o) {
        ArrayRef<double> frequencies = o.getFrequencies();
        LLVM::GlobalOp data = runtime.getConstant(
            {reinterpret_cast<const char *>(frequencies.data()),
             frequencies.size() * sizeof(double)},
            alignof(double));
        f.call("heddle_rt_rotary_table",
               {stream(o), f.addressOf(data), f.i64(frequencies.size()),
                o.getFirst() ? index(o.getFirst()) : f.i64(0),
                f.i64(o.getCos().getType().getDimSize(0)),
                address(o, o.getCos()), address(o, o.getSin())});
      })
      .Case<rt::CopyOp>([&](rt::CopyOp o) {
        Value from = address(o, o.getFrom());
        if (Value dynamic = o.getFromOffset())
          from = f.builder.create<LLVM::GEPOp>(
              f.loc, from.getType(), f.builder.getI8Type(), from,
              ArrayRef<LLVM::GEPArg>{index(dynamic)});
        int64_t blocks = o.getBlocks();
        f.call("heddle_rt_copy",
               {stream(o), from, f.i64(o.getFromStride()),
                address(o, o.getTo()), f.i64(o.getToStride()), f.i64(blocks),
                o.getBytes() ? index(o.getBytes())
                             : f.i64(o.getTo().getBytes() / blocks)});
      })
      .Case<rt::FillZeroOp>([&](rt::FillZeroOp o) {
        f.call("heddle_rt_fill_zero",
               {stream(o), address(o, o.getTo()), f.i64(o.getTo().getBytes())});
      })
      .Case<rt::AllReduceOp>([&](rt::AllReduceOp o) {
        SmallVector<Value> operands = onGroup(o);
        llvm::append_values(operands, f.i32(static_cast<int32_t>(o.getKind())),
                            type(o.getIn()), address(o, o.getIn()),
                            address(o, o.getOut()),
                            f.i64(o.getIn().getNumElements()));
        f.call("heddle_rt_all_reduce", operands);
      })
      .Case<rt::AllGatherOp>([&](rt::AllGatherOp o) {
        ArrayRef<int64_t> in = o.getIn().getType().getShape();
        Around around(in, o.getDim());
        SmallVector<Value> operands = onGroup(o);
        llvm::append_values(operands, type(o.getIn()), address(o, o.getIn()),
                            address(o, o.getOut()), f.i64(around.outer),
                            f.i64(in[o.getDim()]),
                            f.i64(o.getOut().getType().getDimSize(o.getDim())),
                            f.i64(around.inner));
        f.call("heddle_rt_all_gather", operands);
      })
      .Case<rt::ReduceScatterOp>([&](rt::ReduceScatterOp o) {
        ArrayRef<int64_t> in = o.getIn().getType().getShape();
        Around around(in, o.getDim());
        SmallVector<Value> operands = onGroup(o);
        llvm::append_values(operands, f.i32(static_cast<int32_t>(o.getKind())),
                            type(o.getIn()), address(o, o.getIn()),
                            address(o, o.getOut()), f.i64(around.outer),
                            f.i64(o.getOut().getType().getDimSize(o.getDim())),
                            f.i64(in[o.getDim()]), f.i64(around.inner));
        f.call("heddle_rt_reduce_scatter", operands);
      })
      .Case<rt::AllToAllOp>([&](auto o) { convertAllToAll(o); })
      .Case<rt::BroadcastOp>([&](rt::BroadcastOp o) {
        SmallVector<Value> operands = onGroup(o);
        llvm::append_values(operands, f.i32(o.getRoot()), type(o.getIn()),
                            address(o, o.getIn()), address(o, o.getOut()),
                            f.i64(o.getIn().getNumElements()));
        f.call("heddle_rt_broadcast", operands);
      })
      .Case<rt::PermuteOp>([&](rt::PermuteOp o) {
        SmallVector<int32_t> sources(o.getSources());
        LLVM::GlobalOp data =
            runtime.getConstant({reinterpret_cast<const char *>(sources.data()),
                                 sources.size() * sizeof(int32_t)},
                                alignof(int32_t));
        SmallVector<Value> operands = onGroup(o);
        llvm::append_values(operands, f.addressOf(data), type(o.getIn()),
                            address(o, o.getIn()), address(o, o.getOut()),
                            f.i64(o.getIn().getNumElements()));
        f.call("heddle_rt_permute", operands);
      })
      .Case<rt::SendOp, rt::RecvOp>([&](auto o) {
        SmallVector<Value> operands = onGroup(o);
        Value peer = f.builder.create<LLVM::TruncOp>(
            f.loc, f.builder.getI32Type(), index(o.getPeer()));
        llvm::append_values(operands, peer, type(o.getBuffer()),
                            address(o, o.getBuffer()),
                            f.i64(o.getBuffer().getNumElements()));
        f.call(isa<rt::SendOp>(o.getOperation()) ? "heddle_rt_send"
                                                 : "heddle_rt_recv",
               operands);
      })
      .Case<rt::WhileOp>([&](auto o) { convertLoop(o); })
      .Case<rt::RecordOp>([&](rt::RecordOp o) {
        f.call("heddle_rt_event_record", {stream(o), f.i32(o.getEvent())});
      })
      .Case<rt::WaitOp>([&](rt::WaitOp o) {
        f.call("heddle_rt_event_wait", {stream(o), f.i32(o.getEvent())});
      })
      .Case<rt::CoordinateOp>([&](rt::CoordinateOp o) {
        auto mesh = runtime.symbols.lookup<MeshOp>(o.getMesh());
        int64_t number = 0;
        for (MeshAxisAttr axis : mesh.getMesh().getAxes()) {
          if (axis.getName() == o.getAxisAttr())
            break;
          ++number;
        }
        indices[o.getResult()] = f.coordinate(number);
      })
      .Default([&](Operation *) { convertArith(op); });
}

LogicalResult ProgramConversion::run() {
  convertOps(program.getBody());
  if (failed)
    return failure();
  f.finish();
  return success();
}

namespace {
struct ConvertRtToLLVM
    : heddle::impl::ConvertRtToLLVMPassBase<ConvertRtToLLVM> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    RuntimeModule runtime(module);
    OpBuilder builder(module.getContext());
    auto pointer = LLVM::LLVMPointerType::get(module.getContext());
    auto type =
        LLVM::LLVMFunctionType::get(builder.getI32Type(), {pointer, pointer});
    for (auto program :
         llvm::make_early_inc_range(module.getOps<rt::ProgramOp>())) {
      builder.setInsertionPoint(program);
      std::string name = ("heddle_program_" + program.getSymName()).str();
      if (runtime.symbols.lookup(name)) {
        program.emitOpError() << "expected no other symbol named @" << name;
        return signalPassFailure();
      }
      auto function =
          builder.create<LLVM::LLVMFuncOp>(program.getLoc(), name, type);
      if (mlir::failed(ProgramConversion(runtime, program, function).run()))
        return signalPassFailure();
      builder.create<rt::ExportOp>(
          program.getLoc(), program.getSymNameAttr(),
          FlatSymbolRefAttr::get(function), program.getArenaAttr(),
          program.getInputsAttr(), program.getOutputsAttr());
      program.erase();
    }
    runtime.recordGroups();
  }
};
} // namespace
