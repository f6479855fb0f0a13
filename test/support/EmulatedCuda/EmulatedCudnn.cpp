//===- EmulatedCudnn.cpp - cuDNN's functions for attention ----------------===//
//
// Computes a graph operation by operation, in f32, from what its descriptors
// say: a graph that is not attention gives other numbers than attention. Before
// that, every descriptor is held against rules. They are those of cuDNN's
// manual (Graph API, version 9), shortened, and those by which the engines for
// attention of version 9.19 refuse a graph.
//
//===----------------------------------------------------------------------===//

#include "CudnnGraph.h"

using namespace heddle;
using namespace heddle::emulated;
namespace dnn = heddle::runtime::cuda::dnn;

namespace {

thread_local std::string lastError;

/// A call that the library refuses without harm: no engine serves a graph.
dnn::Result decline(const std::string &why) {
  lastError = why;
  return dnn::kNotSupported;
}
/// A call that no right program makes.
dnn::Result refuse(const std::string &why) {
  lastError = why;
  Gpu::get().report("cuDNN: " + why);
  return dnn::kBadParameter;
}

Descriptor *from(dnn::Descriptor handle) {
  return static_cast<Descriptor *>(handle);
}
struct Context {
  StreamState *stream = nullptr;
};

/// The attributes of each kind of descriptor and their types. All but those of
/// the optional ones must be set before a descriptor is finalized.
struct Rule {
  int descriptor, attribute, type;
  bool isOptional = false;
};
constexpr Rule kRules[] = {
    {dnn::kTensor, dnn::kTensorId, dnn::kTypeInt64},
    {dnn::kTensor, dnn::kTensorType, dnn::kTypeDataType},
    {dnn::kTensor, dnn::kTensorDimensions, dnn::kTypeInt64},
    {dnn::kTensor, dnn::kTensorStrides, dnn::kTypeInt64},
    {dnn::kTensor, dnn::kTensorAlignment, dnn::kTypeInt64},
    {dnn::kTensor, dnn::kTensorIsVirtual, dnn::kTypeBoolean, true},
    {dnn::kTensor, dnn::kTensorIsByValue, dnn::kTypeBoolean, true},
    {dnn::kPointwise, dnn::kPointwiseMode, dnn::kTypePointwiseMode},
    {dnn::kPointwise, dnn::kPointwiseComputeType, dnn::kTypeDataType},
    {dnn::kPointwise, dnn::kPointwiseAxis, dnn::kTypeInt64, true},
    {dnn::kOperationPointwise, dnn::kOpPointwiseDescriptor,
     dnn::kTypeDescriptor},
    {dnn::kOperationPointwise, dnn::kOpPointwiseX, dnn::kTypeDescriptor},
    {dnn::kOperationPointwise, dnn::kOpPointwiseB, dnn::kTypeDescriptor, true},
    {dnn::kOperationPointwise, dnn::kOpPointwiseT, dnn::kTypeDescriptor, true},
    {dnn::kOperationPointwise, dnn::kOpPointwiseY, dnn::kTypeDescriptor},
    {dnn::kMatmul, dnn::kMatmulComputeType, dnn::kTypeDataType},
    {dnn::kOperationMatmul, dnn::kOpMatmulA, dnn::kTypeDescriptor},
    {dnn::kOperationMatmul, dnn::kOpMatmulB, dnn::kTypeDescriptor},
    {dnn::kOperationMatmul, dnn::kOpMatmulC, dnn::kTypeDescriptor},
    {dnn::kOperationMatmul, dnn::kOpMatmulDescriptor, dnn::kTypeDescriptor},
    {dnn::kReduction, dnn::kReductionOperator, dnn::kTypeReductionOperator},
    {dnn::kReduction, dnn::kReductionComputeType, dnn::kTypeDataType},
    {dnn::kOperationReduction, dnn::kOpReductionX, dnn::kTypeDescriptor},
    {dnn::kOperationReduction, dnn::kOpReductionY, dnn::kTypeDescriptor},
    {dnn::kOperationReduction, dnn::kOpReductionDescriptor,
     dnn::kTypeDescriptor},
    {dnn::kOperationReshape, dnn::kOpReshapeX, dnn::kTypeDescriptor},
    {dnn::kOperationReshape, dnn::kOpReshapeY, dnn::kTypeDescriptor},
    {dnn::kOperationGraph, dnn::kGraphHandle, dnn::kTypeHandle},
    {dnn::kOperationGraph, dnn::kGraphOperations, dnn::kTypeDescriptor},
    {dnn::kEngineHeuristics, dnn::kHeuristicsGraph, dnn::kTypeDescriptor},
    {dnn::kEngineHeuristics, dnn::kHeuristicsMode, dnn::kTypeHeuristicsMode},
    {dnn::kExecutionPlan, dnn::kPlanHandle, dnn::kTypeHandle},
    {dnn::kExecutionPlan, dnn::kPlanEngineConfig, dnn::kTypeDescriptor},
    {dnn::kVariantPack, dnn::kPackIds, dnn::kTypeInt64},
    {dnn::kVariantPack, dnn::kPackPointers, dnn::kTypeVoidPointer},
    {dnn::kVariantPack, dnn::kPackWorkspace, dnn::kTypeVoidPointer},
};

/// Returns the bytes of an element of an attribute; 0 for an unknown type.
size_t bytesOf(int type) {
  switch (type) {
  case dnn::kTypeBoolean:
    return sizeof(bool);
  case dnn::kTypeInt64:
  case dnn::kTypeVoidPointer:
  case dnn::kTypeDescriptor:
  case dnn::kTypeHandle:
    return 8;
  case dnn::kTypeDataType:
  case dnn::kTypePointwiseMode:
  case dnn::kTypeReductionOperator:
  case dnn::kTypeHeuristicsMode:
    return sizeof(int);
  }
  return 0;
}

} // namespace

extern "C" {

size_t cudnnGetVersion() { return Gpu::get().machine.cudnnVersion; }
size_t cudnnGetCudartVersion() { return Gpu::get().machine.cudnnCudaVersion; }
void cudnnGetLastErrorString(char *text, size_t bytes) {
  std::snprintf(text, bytes, "%s", lastError.c_str());
  lastError.clear();
}
dnn::Result cudnnCreate(dnn::Handle *handle) {
  *handle = reinterpret_cast<dnn::Handle>(new Context());
  return 0;
}
dnn::Result cudnnDestroy(dnn::Handle handle) {
  delete reinterpret_cast<Context *>(handle);
  return 0;
}
dnn::Result cudnnSetStream(dnn::Handle handle, runtime::cuda::Stream stream) {
  reinterpret_cast<Context *>(handle)->stream =
      reinterpret_cast<StreamState *>(stream);
  return 0;
}
dnn::Result cudnnBackendCreateDescriptor(int type, dnn::Descriptor *made) {
  auto *descriptor = new Descriptor();
  descriptor->type = type;
  *made = descriptor;
  return 0;
}
dnn::Result cudnnBackendDestroyDescriptor(dnn::Descriptor handle) {
  delete from(handle);
  return 0;
}

dnn::Result cudnnBackendSetAttribute(dnn::Descriptor handle, int attribute,
                                     int type, int64_t count,
                                     const void *values) {
  std::lock_guard lock(Gpu::get().mutex);
  Descriptor &descriptor = *from(handle);
  auto name = "attribute " + std::to_string(attribute);
  // "CUDNN_STATUS_NOT_INITIALIZED: the descriptor is already in the finalized
  // state".
  if (descriptor.isFinal)
    return refuse(name + " of a descriptor that is finalized");
  auto *rule = std::ranges::find_if(kRules, [&](const Rule &each) {
    return each.descriptor == descriptor.type && each.attribute == attribute;
  });
  // "attributeName is not a settable attribute of descriptor".
  if (rule == std::end(kRules))
    return refuse("descriptors of type " + std::to_string(descriptor.type) +
                  " have no " + name);
  // "attributeType is incorrect for attributeName".
  if (rule->type != type)
    return refuse("the type of " + name);
  if (count < 1 || !values)
    return refuse("no value for " + name);
  auto *bytes = static_cast<const char *>(values);
  descriptor.values[attribute].assign(bytes, bytes + size_t(count) *
                                                         bytesOf(rule->type));
  // "Descriptors that another one takes must be finalized".
  if (type == dnn::kTypeDescriptor)
    for (Descriptor *each : descriptor.list<Descriptor *>(attribute))
      if (!each->isFinal)
        return refuse(name + " is not finalized");
  return 0;
}

dnn::Result cudnnBackendFinalize(dnn::Descriptor handle) {
  std::lock_guard lock(Gpu::get().mutex);
  Descriptor &descriptor = *from(handle);
  for (const Rule &rule : kRules)
    if (rule.descriptor == descriptor.type && !rule.isOptional &&
        !descriptor.has(rule.attribute))
      return refuse("a descriptor of type " + std::to_string(descriptor.type) +
                    " lacks attribute " + std::to_string(rule.attribute));
  std::string fault;
  if (descriptor.type == dnn::kTensor)
    fault = checkTensor(descriptor);
  else if (descriptor.type == dnn::kOperationGraph)
    fault = checkGraph(descriptor);
  if (!fault.empty())
    return refuse(fault);
  if (descriptor.type == dnn::kExecutionPlan) {
    const Descriptor &graph =
        *descriptor.get<Descriptor *>(dnn::kPlanEngineConfig)->graph;
    if (std::string obstacle = findObstacle(graph); !obstacle.empty())
      return decline(obstacle);
    descriptor.graph = &graph;
    descriptor.workspace = workspaceOf(graph);
  }
  descriptor.isFinal = true;
  return 0;
}

dnn::Result cudnnBackendGetAttribute(dnn::Descriptor handle, int attribute, int,
                                     int64_t room, int64_t *count,
                                     void *values) {
  std::lock_guard lock(Gpu::get().mutex);
  Descriptor &descriptor = *from(handle);
  if (!descriptor.isFinal)
    return refuse("an attribute of a descriptor that is not finalized");
  *count = 1;
  if (attribute == dnn::kPlanWorkspace) {
    *static_cast<int64_t *>(values) = descriptor.workspace;
    return 0;
  }
  if (attribute != dnn::kHeuristicsResults)
    return refuse("attribute " + std::to_string(attribute) + " to get");
  if (room >= 1) {
    Descriptor &config = **static_cast<Descriptor **>(values);
    if (config.type != dnn::kEngineConfig)
      return refuse("an engine's configuration of another type");
    config.graph = descriptor.get<Descriptor *>(dnn::kHeuristicsGraph);
    config.isFinal = true;
  }
  return 0;
}

dnn::Result cudnnBackendExecute(dnn::Handle handle, dnn::Descriptor planHandle,
                                dnn::Descriptor packHandle) {
  std::lock_guard lock(Gpu::get().mutex);
  Gpu &gpu = Gpu::get();
  const Descriptor &plan = *from(planHandle), &pack = *from(packHandle);
  if (!plan.isFinal || plan.type != dnn::kExecutionPlan || !pack.isFinal)
    return refuse("a plan or a pack that is not finalized");
  auto ids = pack.list<int64_t>(dnn::kPackIds);
  auto pointers = pack.list<const void *>(dnn::kPackPointers);
  if (ids.size() != pointers.size())
    return refuse("as many ids as data pointers");
  Addresses addresses;
  for (size_t i = 0; i < ids.size(); ++i)
    if (!addresses.emplace(ids[i], pointers[i]).second)
      return refuse("the id " + std::to_string(ids[i]) + " twice");
  auto graph = std::make_shared<Evaluation>();
  if (std::string fault = graph->bind(*plan.graph, addresses); !fault.empty())
    return refuse(fault);
  auto workspace =
      reinterpret_cast<uint64_t>(pack.get<const void *>(dnn::kPackWorkspace));
  auto bytes = size_t(plan.workspace);
  if (workspace % 16 != 0)
    return refuse("the workspace begins at no multiple of 16 bytes");
  ++gpu.counts.launches;
  ++gpu.counts.attentions;
  gpu.issue(reinterpret_cast<Context *>(handle)->stream,
            {Operation::Kind::Work,
             [=, &gpu]() -> std::string {
               std::string fault = graph->check(gpu);
               if (fault.empty())
                 fault = gpu.check(workspace, bytes, "workspace");
               if (!fault.empty())
                 return "cuDNN: " + fault;
               std::memset(reinterpret_cast<void *>(workspace), 0xFF, bytes);
               graph->run();
               return "";
             },
             nullptr});
  return 0;
}

} // extern "C"

dnn::Cudnn emulated::getCudnn() {
  dnn::Cudnn functions;
#define X(member, symbol, result, parameters) functions.member = &::symbol;
  HEDDLE_CUDNN_FUNCTIONS(X)
#undef X
  return functions;
}
