//===- Cudnn.h - NVIDIA's attention, loaded at run time ---------*- C++ -*-===//
//
// The types and functions of cuDNN's backend API that the backend uses,
// declared as in Driver.h. Names and values are those of cudnn_graph.h.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_CUDNN_H
#define HEDDLE_RT_BACKENDS_CUDA_CUDNN_H

#include "backends/cuda/driver/Driver.h"

namespace heddle::runtime::cuda::dnn {

using Result = int; ///< cudnnStatus_t; 0: success
using Handle = struct HandleData *;
using Descriptor = void *; ///< cudnnBackendDescriptor_t

inline constexpr Result kSuccess = 0, kBadParameter = 2000,
                        kNotSupported = 3000;

/// cudnnBackendDescriptorType_t.
enum DescriptorType : int {
  kPointwise = 0,
  kEngineConfig = 3,
  kEngineHeuristics = 4,
  kExecutionPlan = 5,
  kOperationPointwise = 13,
  kOperationGraph = 15,
  kVariantPack = 16,
  kTensor = 17,
  kMatmul = 18,
  kOperationMatmul = 19,
  kReduction = 21,
  kOperationReduction = 22,
  kOperationReshape = 31,
  kDeviceProperties = 38
};

/// cudnnBackendAttributeName_t.
enum Attribute : int {
  kPointwiseMode = 0,
  kPointwiseComputeType = 1,
  kPointwiseAxis = 9,
  kHeuristicsMode = 200,
  kHeuristicsGraph = 201,
  kHeuristicsResults = 202,
  kHeuristicsDevice = 204,
  kPlanHandle = 400,
  kPlanEngineConfig = 401,
  kPlanWorkspace = 402,
  kPlanDevice = 407,
  kOpPointwiseDescriptor = 750,
  kOpPointwiseX = 751,
  kOpPointwiseB = 752,
  kOpPointwiseY = 753,
  kOpPointwiseT = 758,
  kGraphHandle = 800,
  kGraphOperations = 801,
  kTensorAlignment = 900,
  kTensorType = 901,
  kTensorDimensions = 902,
  kTensorStrides = 903,
  kTensorId = 906,
  kTensorIsVirtual = 907,
  kTensorIsByValue = 908,
  kPackIds = 1000,
  kPackPointers = 1001,
  kPackWorkspace = 1003,
  kMatmulComputeType = 1500,
  kOpMatmulA = 1520,
  kOpMatmulB = 1521,
  kOpMatmulC = 1522,
  kOpMatmulDescriptor = 1523,
  kReductionOperator = 1600,
  kReductionComputeType = 1601,
  kOpReductionX = 1610,
  kOpReductionY = 1611,
  kOpReductionDescriptor = 1612,
  kOpReshapeX = 2200,
  kOpReshapeY = 2201,
  kDeviceJson = 2702
};

/// cudnnBackendAttributeType_t.
enum AttributeType : int {
  kTypeHandle = 0,
  kTypeDataType = 1,
  kTypeBoolean = 2,
  kTypeInt64 = 3,
  kTypeVoidPointer = 6,
  kTypeHeuristicsMode = 8,
  kTypePointwiseMode = 14,
  kTypeDescriptor = 15,
  kTypeReductionOperator = 18,
  kTypeChar = 24
};

/// cudnnDataType_t.
enum DataType : int {
  kF32 = 0,
  kF16 = 2,
  kInt32 = 4,
  kBF16 = 9,
  kBoolean = 11
};

/// cudnnPointwiseMode_t.
enum PointwiseMode : int {
  kAdd = 0,
  kMultiply = 1,
  kDivide = 6,
  kSubtract = 9,
  kExp = 13,
  kLog = 15,
  kGreater = 302,
  kGreaterOrEqual = 303,
  kIndex = 501,
  kSelect = 601
};

/// cudnnReduceTensorOp_t.
enum ReductionOperator : int { kSum = 0, kMaximum = 3 };

/// cudnnBackendHeurMode_t: the library's choice by the shapes.
inline constexpr int kHeuristicsByShape = 3;

/// The oldest version that serves. Backward passes of older ones are wrong if
/// the keys are no multiple of 128.
inline constexpr size_t kLeastVersion = 91600;

/// X(member, symbol in the library, result, parameters)
#define HEDDLE_CUDNN_FUNCTIONS(X)                                              \
  X(getVersion, cudnnGetVersion, size_t, ())                                   \
  X(getCudaVersion, cudnnGetCudartVersion, size_t, ())                         \
  X(getLastError, cudnnGetLastErrorString, void, (char *, size_t))             \
  X(create, cudnnCreate, Result, (Handle *))                                   \
  X(destroy, cudnnDestroy, Result, (Handle))                                   \
  X(setStream, cudnnSetStream, Result, (Handle, Stream))                       \
  X(createDescriptor, cudnnBackendCreateDescriptor, Result,                    \
    (int, Descriptor *))                                                       \
  X(destroyDescriptor, cudnnBackendDestroyDescriptor, Result, (Descriptor))    \
  X(finalize, cudnnBackendFinalize, Result, (Descriptor))                      \
  X(setAttribute, cudnnBackendSetAttribute, Result,                            \
    (Descriptor, int, int, int64_t, const void *))                             \
  X(getAttribute, cudnnBackendGetAttribute, Result,                            \
    (Descriptor, int, int, int64_t, int64_t *, void *))                        \
  X(execute, cudnnBackendExecute, Result, (Handle, Descriptor, Descriptor))

/// The library's functions. Tests fill in others.
struct Cudnn {
#define X(member, symbol, result, parameters)                                  \
  result(*member) parameters = nullptr;
  HEDDLE_CUDNN_FUNCTIONS(X)
#undef X

  /// An error that names the function and says the library's reason, if
  /// `result` is one.
  Status check(Result result, const char *function) const;
};

/// Loads cuDNN 9 and the NVRTC of the same CUDA. Errors: one is missing, or
/// cuDNN is too old, lacks a function, or needs a newer driver than the
/// machine's.
Expected<Cudnn> loadCudnn(int driverVersion);

} // namespace heddle::runtime::cuda::dnn

#endif // HEDDLE_RT_BACKENDS_CUDA_CUDNN_H
