//===- AttentionGraph.cpp - Attention as a graph of cuDNN -----------------===//

#include "backends/cuda/attention/AttentionGraph.h"
#include "backends/cuda/attention/GraphBuilder.h"
#include "heddle_rt/tensors.h"
#include "support/Message.h"

#include <algorithm>
#include <array>
#include <limits>
#include <vector>

namespace heddle::runtime::cuda {

namespace {

/// The tensors that lie in memory or are a number of the host. Tensors between
/// operations have ids from kFirstVirtual on.
enum Id : int64_t {
  kQ = 1,
  kK,
  kV,
  kO,
  kLse,
  kOGrad,
  kQGrad,
  kKGrad,
  kVGrad,
  kDelta, ///< sums of o * d_o, in the workspace
  kScale,
  kOne,
  kHidden,
  kWindow,
  kFirstVirtual
};

/// Writes the graph of a pass.
class Attention {
public:
  Attention(GraphBuilder &builder, const heddle_rt_attention_desc &desc)
      : f(builder), desc(desc),
        type(desc.type == HEDDLE_RT_BF16 ? dnn::kBF16 : dnn::kF16),
        heads(desc.groups * desc.group_size), queries{desc.batch, heads,
                                                      desc.queries, desc.head},
        keys{desc.batch, desc.groups, desc.keys, desc.head},
        scores{desc.batch, heads, desc.queries, desc.keys}, rows{desc.batch,
                                                                 heads,
                                                                 desc.queries,
                                                                 1},
        queryStrides(
            strides(desc.q_batch_stride, headStride(desc), desc.q_row_stride)),
        denseQueries(strides(desc.queries * heads * desc.head, desc.head,
                             heads * desc.head)) {}

  void forward() {
    Tensor q = f.real(kQ, queries, queryStrides, type);
    Tensor k = f.real(kK, swapLast(keys), swapLast(keyStrides()), type);
    Tensor v = f.real(kV, keys, valueStrides(), type);
    Tensor o = f.real(kO, queries, denseQueries, type);
    Tensor scale = f.number(kScale);
    Tensor product = f.between(scores);
    f.multiply(q, k, product);
    Tensor score = hide(f.binary(dnn::kMultiply, product, scale));
    Tensor most = f.between(rows), sum = f.between(rows);
    f.reduce(dnn::kMaximum, score, most);
    Tensor weight = f.unary(dnn::kExp, f.binary(dnn::kSubtract, score, most));
    f.reduce(dnn::kSum, weight, sum);
    Tensor log = f.unary(dnn::kLog, sum);
    f.pointwise(dnn::kAdd, most, lse(), {.b = &log});
    Tensor probability = f.between(scores, type);
    f.pointwise(dnn::kDivide, weight, probability, {.b = &sum});
    f.multiply(probability, v, o);
  }

  void backward() {
    Tensor q = f.real(kQ, queries, queryStrides, type);
    Four kStrides = keyStrides();
    Tensor k = f.real(kK, swapLast(keys), swapLast(kStrides), type);
    Tensor v = f.real(kV, swapLast(keys), swapLast(valueStrides()), type);
    Tensor o = f.real(kO, queries, denseQueries, type);
    Tensor dO = f.real(kOGrad, queries, denseQueries, type);
    int64_t head =
        desc.group_size > 1 ? desc.dq_head_stride : desc.dq_group_stride;
    Tensor dQ =
        f.real(kQGrad, queries,
               strides(desc.dq_batch_stride, head, desc.dq_row_stride), type);
    Tensor dK = f.real(
        kKGrad, keys,
        strides(desc.dk_batch_stride, desc.dk_group_stride, desc.dk_row_stride),
        type);
    Tensor dV = f.real(
        kVGrad, keys,
        strides(desc.dv_batch_stride, desc.dv_group_stride, desc.dv_row_stride),
        type);
    Tensor scale = f.number(kScale), one = f.number(kOne);

    // The engines expect a factor of dropout here, so it is 1.
    Tensor sum = f.between(rows);
    f.reduce(dnn::kSum, f.binary(dnn::kMultiply, dO, o), sum);
    Tensor delta = f.real(kDelta, rows, denseStrides(rows), dnn::kF32);
    f.pointwise(dnn::kMultiply, sum, delta, {.b = &one});

    Tensor product = f.between(scores);
    f.multiply(q, k, product);
    Tensor score = f.binary(dnn::kMultiply, product, scale);
    Tensor probability =
        f.unary(dnn::kExp, hide(f.binary(dnn::kSubtract, score, lse())));
    multiplyTransposed(probability, dO, dV);

    Tensor weight = f.between(scores);
    f.multiply(dO, v, weight);
    Tensor difference = f.binary(dnn::kSubtract, weight, delta);
    Tensor dScore =
        f.binary(dnn::kMultiply,
                 f.binary(dnn::kMultiply, difference, probability), scale);
    multiplyTransposed(dScore, q, dK);
    // Without an f32 tensor between this product and dQ, the library writes
    // dScore to its workspace, so no sum depends on the order in which blocks
    // end.
    Tensor plainK = f.between(keys, kStrides, type);
    f.reshape(k, plainK);
    f.multiply(dScore, plainK, dQ);
  }

private:
  /// The distance of two heads. A group of one member is a head.
  static int64_t headStride(const heddle_rt_attention_desc &desc) {
    return desc.group_size > 1 ? desc.q_head_stride : desc.q_group_stride;
  }
  static Four strides(int64_t batch, int64_t head, int64_t row) {
    return {batch, head, row, 1};
  }
  Four keyStrides() const {
    return strides(desc.k_batch_stride, desc.k_group_stride, desc.k_row_stride);
  }
  Four valueStrides() const {
    return strides(desc.v_batch_stride, desc.v_group_stride, desc.v_row_stride);
  }
  /// [batch, queries, heads] in memory.
  Tensor lse() {
    return f.real(kLse, rows, {desc.queries * heads, 1, heads, 1}, dnn::kF32);
  }

  /// Replaces the scores of keys that a query does not see by -infinity.
  Tensor hide(Tensor score) {
    if (!desc.causal && desc.window == 0)
      return score;
    Tensor hidden = f.number(kHidden);
    auto keep = [&](Tensor isSeen) {
      Tensor y = f.between(scores);
      f.pointwise(dnn::kSelect, score, y, {.b = &hidden, .t = &isSeen});
      return y;
    };
    if (desc.causal) {
      Tensor row = f.index(score, 2), column = f.index(score, 3);
      score = keep(f.binary(dnn::kGreaterOrEqual, row, column, dnn::kBoolean));
    }
    if (desc.window > 0) {
      Tensor row = f.index(score, 2), column = f.index(score, 3);
      Tensor last = f.binary(dnn::kAdd, column, f.number(kWindow));
      score = keep(f.binary(dnn::kGreater, last, row, dnn::kBoolean));
    }
    return score;
  }

  /// to = transpose(a) b, summed over the members of each group.
  void multiplyTransposed(Tensor a, Tensor b, Tensor to) {
    Four size = swapLast(scores), order = swapLast(denseStrides(scores));
    Tensor transposed = f.between(size, order, type);
    f.reshape(a, transposed);
    if (desc.group_size == 1)
      return f.multiply(transposed, b, to);
    Tensor ofHeads = f.between({desc.batch, heads, desc.keys, desc.head}, type);
    f.multiply(transposed, b, ofHeads);
    f.reduce(dnn::kSum, ofHeads, to);
  }

  GraphBuilder &f;
  const heddle_rt_attention_desc &desc;
  const dnn::DataType type;
  const int64_t heads;
  const Four queries, keys, scores, rows, queryStrides, denseQueries;
};

} // namespace

std::string findObstacle(const heddle_rt_attention_desc &desc,
                         const heddle_rt_attention_offsets &offsets) {
  if (desc.type != HEDDLE_RT_BF16 && desc.type != HEDDLE_RT_F16)
    return concat("its type is ", name(DType(desc.type)));
  if (desc.head % 8 != 0 || desc.head > 128)
    return concat("its heads have ", desc.head,
                  " elements, which are no multiple of 8 up to 128");
  if (desc.dropout > 0)
    return "it has dropout, which sharding must not change";
  if (desc.mask_kind != HEDDLE_RT_MASK_NONE)
    return "it has a mask";
  if (desc.window > 0 && !desc.causal)
    return "its window reaches to later keys";
  if (desc.window > 0 && desc.queries > desc.keys)
    return "it has a window and more queries than keys";
  if ((desc.causal || desc.window > 0) && offsets.query != offsets.key)
    return "its queries and keys begin at different positions";
  if (offsets.key + desc.keys > desc.global_keys)
    return "some of its keys are padding";
  if (desc.groups > 1 && desc.group_size > 1 &&
      (desc.q_group_stride != desc.group_size * desc.q_head_stride ||
       desc.dq_group_stride != desc.group_size * desc.dq_head_stride))
    return "the heads of its queries lie at unequal distances";
  for (int64_t stride :
       {desc.q_batch_stride,  desc.q_row_stride,    desc.q_group_stride,
        desc.q_head_stride,   desc.k_batch_stride,  desc.k_row_stride,
        desc.k_group_stride,  desc.v_batch_stride,  desc.v_row_stride,
        desc.v_group_stride,  desc.dq_batch_stride, desc.dq_row_stride,
        desc.dq_group_stride, desc.dq_head_stride,  desc.dk_batch_stride,
        desc.dk_row_stride,   desc.dk_group_stride, desc.dv_batch_stride,
        desc.dv_row_stride,   desc.dv_group_stride})
    if (stride < 0 || stride % 8 != 0)
      return "a stride of its operands is no multiple of 8";
  return "";
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

struct AttentionPlan::Impl {
  explicit Impl(const dnn::Cudnn &library) : library(library) {}
  ~Impl() {
    for (size_t i = owned.size(); i-- > 0;)
      library.destroyDescriptor(owned[i]);
  }

  const dnn::Cudnn &library;
  std::vector<dnn::Descriptor> owned;
  dnn::Descriptor plan = nullptr;
  AttentionPass pass = AttentionPass::Forward;
  size_t deltaBytes = 0; ///< of the workspace; the library has the rest
  int64_t libraryBytes = 0;
  float scale = 1, window = 0;
  bool hides = false; ///< keys, by causality or a window
};

AttentionPlan::AttentionPlan(std::unique_ptr<Impl> impl)
    : impl(std::move(impl)) {}
AttentionPlan::AttentionPlan(AttentionPlan &&) noexcept = default;
AttentionPlan::~AttentionPlan() = default;

size_t AttentionPlan::workspaceBytes() const {
  return impl->deltaBytes + size_t(impl->libraryBytes);
}

/// Finds an engine for a graph: the first one that the library proposes and
/// that this GPU runs.
static Expected<dnn::Descriptor> choosePlan(const dnn::Cudnn &library,
                                            GraphBuilder &builder,
                                            AttentionPlan::Target target,
                                            dnn::Descriptor graph) {
  dnn::Descriptor heuristics = builder.create(dnn::kEngineHeuristics);
  builder.set(heuristics, dnn::kHeuristicsGraph, graph);
  builder.set(heuristics, dnn::kHeuristicsMode, dnn::kTypeHeuristicsMode, 1,
              &dnn::kHeuristicsByShape);
  if (target.properties)
    builder.set(heuristics, dnn::kHeuristicsDevice, target.properties);
  builder.finalize(heuristics);
  HEDDLE_RT_RETURN_IF_ERROR(builder.status);
  auto getResults = [&](int64_t room, int64_t &count, void *results) {
    return library.check(
        library.getAttribute(heuristics, dnn::kHeuristicsResults,
                             dnn::kTypeDescriptor, room, &count, results),
        "cudnnBackendGetAttribute");
  };
  int64_t room = 0, count = 0;
  HEDDLE_RT_RETURN_IF_ERROR(getResults(0, room, nullptr));
  std::vector<dnn::Descriptor> configs;
  for (int64_t i = 0; i < room; ++i)
    configs.push_back(builder.create(dnn::kEngineConfig));
  HEDDLE_RT_RETURN_IF_ERROR(builder.status);
  HEDDLE_RT_RETURN_IF_ERROR(getResults(room, count, configs.data()));
  Status last = error("the library proposes no engine");
  for (int64_t i = 0; i < std::min(room, count); ++i) {
    builder.status = Status::success();
    dnn::Descriptor plan = builder.create(dnn::kExecutionPlan);
    if (target.handle)
      builder.set(plan, dnn::kPlanHandle, dnn::kTypeHandle, 1, &target.handle);
    if (target.properties)
      builder.set(plan, dnn::kPlanDevice, target.properties);
    builder.set(plan, dnn::kPlanEngineConfig, configs[size_t(i)]);
    builder.finalize(plan);
    if (builder.status.ok())
      return plan;
    last = builder.status;
  }
  return last;
}

Expected<AttentionPlan>
AttentionPlan::make(const dnn::Cudnn &library, Target target,
                    const heddle_rt_attention_desc &desc, AttentionPass pass) {
  auto impl = std::make_unique<Impl>(library);
  impl->pass = pass;
  impl->scale = desc.scale;
  impl->window = float(desc.window);
  impl->hides = desc.causal || desc.window > 0;
  GraphBuilder builder(library, impl->owned, kFirstVirtual);
  Attention attention(builder, desc);
  if (pass == AttentionPass::Forward) {
    attention.forward();
  } else {
    attention.backward();
    constexpr size_t alignment = 256;
    auto rows =
        size_t(desc.batch * desc.queries * desc.groups * desc.group_size);
    impl->deltaBytes =
        (rows * sizeof(float) + alignment - 1) / alignment * alignment;
  }
  dnn::Descriptor graph = builder.create(dnn::kOperationGraph);
  if (target.handle)
    builder.set(graph, dnn::kGraphHandle, dnn::kTypeHandle, 1, &target.handle);
  builder.set(graph, dnn::kGraphOperations, dnn::kTypeDescriptor,
              int64_t(builder.operations.size()), builder.operations.data());
  builder.finalize(graph);
  HEDDLE_RT_RETURN_IF_ERROR(builder.status);
  Expected<dnn::Descriptor> plan = choosePlan(library, builder, target, graph);
  HEDDLE_RT_RETURN_IF_ERROR(plan.status());
  impl->plan = *plan;
  int64_t count = 0;
  HEDDLE_RT_RETURN_IF_ERROR(library.check(
      library.getAttribute(impl->plan, dnn::kPlanWorkspace, dnn::kTypeInt64, 1,
                           &count, &impl->libraryBytes),
      "cudnnBackendGetAttribute"));
  return AttentionPlan(std::move(impl));
}

Status AttentionPlan::run(dnn::Handle handle, const AttentionOperands &operands,
                          void *workspace) const {
  auto *bytes = static_cast<char *>(workspace);
  const float one = 1, hidden = -std::numeric_limits<float>::infinity();
  std::vector<int64_t> ids;
  std::vector<const void *> pointers;
  auto pass = [&](Id id, const void *pointer) {
    ids.push_back(id);
    pointers.push_back(pointer);
  };
  pass(kQ, operands.q);
  pass(kK, operands.k);
  pass(kV, operands.v);
  pass(kO, operands.o);
  pass(kLse, operands.lse);
  pass(kScale, &impl->scale);
  if (impl->hides)
    pass(kHidden, &hidden);
  if (impl->window > 0)
    pass(kWindow, &impl->window);
  if (impl->pass == AttentionPass::Backward) {
    pass(kOGrad, operands.d_o);
    pass(kQGrad, operands.dq);
    pass(kKGrad, operands.dk);
    pass(kVGrad, operands.dv);
    pass(kDelta, bytes);
    pass(kOne, &one);
  }
  std::vector<dnn::Descriptor> owned;
  GraphBuilder builder(impl->library, owned, kFirstVirtual);
  dnn::Descriptor pack = builder.create(dnn::kVariantPack);
  void *rest = bytes + impl->deltaBytes;
  builder.set(pack, dnn::kPackIds, dnn::kTypeInt64, int64_t(ids.size()),
              ids.data());
  builder.set(pack, dnn::kPackPointers, dnn::kTypeVoidPointer,
              int64_t(pointers.size()), pointers.data());
  builder.set(pack, dnn::kPackWorkspace, dnn::kTypeVoidPointer, 1, &rest);
  builder.finalize(pack);
  Status status = builder.status;
  if (status.ok())
    status = impl->library.check(
        impl->library.execute(handle, impl->plan, pack), "cudnnBackendExecute");
  for (dnn::Descriptor each : owned)
    impl->library.destroyDescriptor(each);
  return status;
}

} // namespace heddle::runtime::cuda
