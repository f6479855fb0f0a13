//===- ConvertCompute.cpp - Kernels, products and lookups as calls --------===//

#include "../Batches/Batches.h"
#include "ProgramConversion.h"
#include "heddle/Lower/StreamId.h"
#include "heddle_rt/abi.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace heddle;

void ProgramConversion::convert(rt::LaunchOp op) {
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
  if (kernel->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName())) {
    // With the last launch of a batch, all of its indices are known.
    SmallVector<rt::LaunchOp> batch = getBatch(op);
    if (batch.back() != op)
      return;
    auto launches = kernel->getAttrOfType<IntegerAttr>(kLaunchesAttrName);
    if (int64_t expected = launches ? launches.getInt() : 1;
        int64_t(batch.size()) != expected) {
      op.emitOpError() << "expected " << expected << " launches of "
                       << op.getKernelAttr() << ", one after the other, got "
                       << batch.size();
      failed = true;
      return;
    }
    SmallVector<Value> parameters;
    for (rt::LaunchOp launch : batch) {
      auto numbers = launch.getIndices().begin();
      for (Attribute operand : launch.getOperands_()) {
        if (auto buffer = dyn_cast<rt::BufferAttr>(operand))
          parameters.push_back(address(launch, buffer));
        else
          parameters.push_back(index(*numbers++));
      }
      for (auto buffer : launch.getResults_().getAsRange<rt::BufferAttr>())
        parameters.push_back(address(launch, buffer));
    }
    SmallVector<LLVM::LLVMFuncOp> kernels =
        getGpuKernels(program->getParentOfType<ModuleOp>());
    f.call("heddle_rt_launch_kernel",
           {stream(op), f.i32(llvm::find(kernels, kernel) - kernels.begin()),
            f.pointers(parameters), f.i32(parameters.size())});
    return;
  }
  SmallVector<Value> indices = llvm::map_to_vector(
      op.getIndices(), [&](Value operand) { return index(operand); });
  Value words = indices.empty() ? f.null() : f.words(indices);
  SmallVector<Value> buffers{f.getCoordinates()};
  int64_t next = 0;
  for (Attribute operand : op.getOperands_()) {
    if (auto buffer = dyn_cast<rt::BufferAttr>(operand))
      buffers.push_back(address(op, buffer));
    else
      buffers.push_back(f.offset(words, next++ * int64_t(sizeof(int64_t))));
  }
  for (auto buffer : op.getResults_().getAsRange<rt::BufferAttr>())
    buffers.push_back(address(op, buffer));
  Value function = f.builder.create<LLVM::AddressOfOp>(f.loc, kernel);
  f.call("heddle_rt_launch",
         {stream(op), function, f.pointers(buffers), f.i32(buffers.size()),
          words, f.i32(indices.size()), f.i64(blocks.getInt()),
          f.i64(grain.getInt())});
}

static heddle_rt_epilogue getRuntimeEpilogue(ProductEpilogue epilogue) {
  switch (epilogue) {
  case ProductEpilogue::Gelu:
    return HEDDLE_RT_EPILOGUE_GELU;
  case ProductEpilogue::GeluGrad:
    return HEDDLE_RT_EPILOGUE_GELU_GRAD;
  case ProductEpilogue::LhsSums:
    return HEDDLE_RT_EPILOGUE_A_SUMS;
  case ProductEpilogue::RhsSums:
    return HEDDLE_RT_EPILOGUE_B_SUMS;
  }
  llvm_unreachable("all epilogues are listed");
}

void ProgramConversion::convert(rt::MatmulOp op) {
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
  LLVM::GlobalOp descriptor = runtime.getConstant(desc);
  runtime.addProduct(descriptor);
  SmallVector<Value> operands{stream(op),
                              f.addressOf(descriptor),
                              address(op, op.getA()),
                              address(op, op.getB()),
                              address(op, op.getC()),
                              op.getBias() ? address(op, *op.getBias())
                                           : f.null()};
  if (!op.getEpilogue()) {
    f.call("heddle_rt_matmul", operands);
    return;
  }
  operands.insert(operands.begin() + 2,
                  f.i32(getRuntimeEpilogue(*op.getEpilogue())));
  operands.push_back(address(op, *op.getExtra()));
  f.call("heddle_rt_fused_matmul", operands);
}

/// Writes the type and the strides of a mask [batch, query, group, member,
/// key], in which member may be absent. A dimension of size 1 is broadcast and
/// has stride 0.
static void describeMask(RankedTensorType type,
                         heddle_rt_attention_desc &desc) {
  desc.mask_kind = type.getElementType().isInteger(1) ? HEDDLE_RT_MASK_SEEN
                                                      : HEDDLE_RT_MASK_ADDED;
  SmallVector<int64_t *> strides{&desc.mask_key_stride, &desc.mask_head_stride,
                                 &desc.mask_group_stride, &desc.mask_row_stride,
                                 &desc.mask_batch_stride};
  if (type.getRank() == 4)
    strides.erase(&strides[1]);
  int64_t stride = 1;
  for (auto [to, size] : llvm::zip(strides, llvm::reverse(type.getShape()))) {
    *to = size == 1 ? 0 : stride;
    stride *= size;
  }
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
  desc.window = op.getWindow().value_or(0);
  if (op.getMask())
    describeMask(op.getMask()->getType(), desc);
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
  // The words of heddle_rt_attention_offsets: batch, query, key, group,
  // group_member.
  SmallVector<Value> words;
  for (Value offset : op.getOffsets())
    words.push_back(index(offset));
  static const heddle_rt_attention_offsets zeros = {};
  Value offsets =
      words.empty() ? f.addressOf(runtime.getConstant(zeros)) : f.words(words);
  LLVM::GlobalOp descriptor = runtime.getConstant(desc);
  runtime.addAttention(descriptor, std::is_same_v<Op, rt::AttentionGradOp>);
  SmallVector<Value> operands{
      stream(op), f.addressOf(descriptor), offsets,
      op.getStep() ? address(op, *op.getStep()) : f.null(),
      op.getMask() ? address(op, *op.getMask()) : f.null()};
  llvm::append_range(operands, tensors);
  f.call(function, operands);
}

void ProgramConversion::convert(rt::AttentionOp op) {
  convertAttention(op, "heddle_rt_attention",
                   {address(op, op.getQ()), address(op, op.getK()),
                    address(op, op.getV()), address(op, op.getO()),
                    address(op, op.getLse())});
}

void ProgramConversion::convert(rt::AttentionGradOp op) {
  convertAttention(op, "heddle_rt_attention_grad",
                   {address(op, op.getQ()), address(op, op.getK()),
                    address(op, op.getV()), address(op, op.getO()),
                    address(op, op.getLse()), address(op, op.getOGrad()),
                    address(op, op.getQGrad()), address(op, op.getKGrad()),
                    address(op, op.getVGrad())});
}

void ProgramConversion::convert(rt::EmbeddingGradOp op) {
  RankedTensorType table = op.getTable().getType();
  f.call("heddle_rt_embedding_grad",
         {stream(op), address(op, op.getIds()),
          f.i64(op.getIds().getNumElements()), address(op, op.getRows()),
          type(op.getRows()), f.i64(table.getDimSize(1)),
          op.getFirstRow() ? index(op.getFirstRow()) : f.i64(0),
          f.i64(table.getDimSize(0)), f.i32(op.getAccumulate()),
          address(op, op.getTable())});
}

void ProgramConversion::convert(rt::RotaryTableOp op) {
  ArrayRef<double> frequencies = op.getFrequencies();
  LLVM::GlobalOp data =
      runtime.getConstant({reinterpret_cast<const char *>(frequencies.data()),
                           frequencies.size() * sizeof(double)},
                          alignof(double));
  f.call("heddle_rt_rotary_table",
         {stream(op), f.addressOf(data), f.i64(frequencies.size()),
          op.getFirst() ? index(op.getFirst()) : f.i64(0),
          f.i64(op.getCos().getType().getDimSize(0)), address(op, op.getCos()),
          address(op, op.getSin())});
}
