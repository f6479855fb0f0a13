//===- CudaHeadersTest.cpp - Our declarations against NVIDIA's ------------===//
//
// Compiled only where a toolkit is found. Compares the values, the sizes of
// structures, and the sizes of all parameters of the functions that the backend
// for GPUs declares by itself.
//
//===----------------------------------------------------------------------===//

#include "backends/cuda/driver/CublasLt.h"
#include "backends/cuda/driver/Cudnn.h"

#include <cublasLt.h>
#include <cuda.h>
#if __has_include(<cudnn_graph.h>)
#include <cudnn_graph.h>
#endif

#include "gtest/gtest.h"
#include <array>
#include <type_traits>

namespace ours = heddle::runtime::cuda;

namespace {

template <typename R, typename... P> constexpr auto sizesOf(R (*)(P...)) {
  using Result = std::conditional_t<std::is_void_v<R>, char, R>;
  return std::array<size_t, sizeof...(P) + 1>{sizeof(Result), sizeof(P)...};
}

// The parameters are written with our names of types. `compare` does not
// compile for another number of parameters.
template <typename Ours, typename Theirs>
constexpr bool compare(Ours ours, Theirs theirs) {
  return sizesOf(ours) == sizesOf(theirs);
}
constexpr ours::Driver driver;
#define X(member, symbol, parameters)                                          \
  static_assert(                                                               \
      compare(driver.member, static_cast<decltype(&::symbol)>(nullptr)));
HEDDLE_CUDA_DRIVER_FUNCTIONS(X)
#undef X
constexpr ours::blas::CublasLt products;
#define X(member, symbol, result, parameters)                                  \
  static_assert(                                                               \
      compare(products.member, static_cast<decltype(&::symbol)>(nullptr)));
HEDDLE_CUBLASLT_FUNCTIONS(X)
#undef X

static_assert(ours::kSuccess == CUDA_SUCCESS);
static_assert(ours::kOutOfMemory == CUDA_ERROR_OUT_OF_MEMORY);
static_assert(ours::kNoDevice == CUDA_ERROR_NO_DEVICE);
static_assert(ours::kAttributeMajor ==
              CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR);
static_assert(ours::kAttributeMinor ==
              CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR);
static_assert(ours::kStreamNonBlocking == CU_STREAM_NON_BLOCKING);
static_assert(ours::kEventDisableTiming == CU_EVENT_DISABLE_TIMING);
static_assert(ours::kCaptureThreadLocal == CU_STREAM_CAPTURE_MODE_THREAD_LOCAL);
static_assert(ours::kJitErrorLog == CU_JIT_ERROR_LOG_BUFFER);
static_assert(ours::kJitErrorLogBytes == CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES);

namespace blas = ours::blas;
static_assert(blas::kInvalidValue == CUBLAS_STATUS_INVALID_VALUE);
static_assert(blas::kNotSupported == CUBLAS_STATUS_NOT_SUPPORTED);
static_assert(blas::kF32 == CUDA_R_32F && blas::kF64 == CUDA_R_64F);
static_assert(blas::kF16 == CUDA_R_16F && blas::kBF16 == CUDA_R_16BF);
static_assert(blas::kCompute32F == CUBLAS_COMPUTE_32F);
static_assert(blas::kComputeTF32 == CUBLAS_COMPUTE_32F_FAST_TF32);
static_assert(blas::kNormal == CUBLAS_OP_N && blas::kTransposed == CUBLAS_OP_T);
static_assert(blas::kEpilogueDefault == CUBLASLT_EPILOGUE_DEFAULT);
static_assert(blas::kEpilogueBias == CUBLASLT_EPILOGUE_BIAS);
static_assert(blas::kEpilogueGeluAux == CUBLASLT_EPILOGUE_GELU_AUX);
static_assert(blas::kEpilogueGeluAuxBias == CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
static_assert(blas::kEpilogueDGelu == CUBLASLT_EPILOGUE_DGELU);
static_assert(blas::kEpilogueBGradA == CUBLASLT_EPILOGUE_BGRADA);
static_assert(blas::kEpilogueBGradB == CUBLASLT_EPILOGUE_BGRADB);
static_assert(int(blas::kAuxPointer) ==
              CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER);
static_assert(int(blas::kAuxLeading) == CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD);
static_assert(blas::kFloatSums == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE);
static_assert(int(blas::kTransA) == CUBLASLT_MATMUL_DESC_TRANSA);
static_assert(int(blas::kTransB) == CUBLASLT_MATMUL_DESC_TRANSB);
static_assert(int(blas::kEpilogue) == CUBLASLT_MATMUL_DESC_EPILOGUE);
static_assert(int(blas::kBiasPointer) == CUBLASLT_MATMUL_DESC_BIAS_POINTER);
static_assert(int(blas::kBiasBatchStride) ==
              CUBLASLT_MATMUL_DESC_BIAS_BATCH_STRIDE);
static_assert(int(blas::kBiasType) == CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE);
static_assert(int(blas::kBatchCount) == CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT);
static_assert(int(blas::kBatchStride) ==
              CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET);
static_assert(int(blas::kMaxWorkspace) ==
              CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES);
static_assert(int(blas::kSchemeMask) ==
              CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK);
static_assert(int(blas::kAlignmentA) ==
              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES);
static_assert(int(blas::kAlignmentD) ==
              CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES);
static_assert(sizeof(blas::Algorithm) == sizeof(cublasLtMatmulAlgo_t));
static_assert(sizeof(blas::HeuristicResult) ==
              sizeof(cublasLtMatmulHeuristicResult_t));
static_assert(offsetof(blas::HeuristicResult, state) ==
              offsetof(cublasLtMatmulHeuristicResult_t, state));

#ifdef CUDNN_GRAPH_MAJOR
namespace dnn = ours::dnn;
constexpr dnn::Cudnn attention;
#define X(member, symbol, result, parameters)                                  \
  static_assert(                                                               \
      compare(attention.member, static_cast<decltype(&::symbol)>(nullptr)));
HEDDLE_CUDNN_FUNCTIONS(X)
#undef X
#define SAME(member, name) static_assert(int(dnn::member) == int(name));
SAME(kPointwise, CUDNN_BACKEND_POINTWISE_DESCRIPTOR)
SAME(kEngineConfig, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR)
SAME(kEngineHeuristics, CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR)
SAME(kExecutionPlan, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR)
SAME(kOperationPointwise, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
SAME(kOperationGraph, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
SAME(kVariantPack, CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)
SAME(kTensor, CUDNN_BACKEND_TENSOR_DESCRIPTOR)
SAME(kMatmul, CUDNN_BACKEND_MATMUL_DESCRIPTOR)
SAME(kOperationMatmul, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR)
SAME(kReduction, CUDNN_BACKEND_REDUCTION_DESCRIPTOR)
SAME(kOperationReduction, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR)
SAME(kOperationReshape, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR)
SAME(kPointwiseMode, CUDNN_ATTR_POINTWISE_MODE)
SAME(kPointwiseComputeType, CUDNN_ATTR_POINTWISE_MATH_PREC)
SAME(kPointwiseAxis, CUDNN_ATTR_POINTWISE_AXIS)
SAME(kHeuristicsMode, CUDNN_ATTR_ENGINEHEUR_MODE)
SAME(kHeuristicsGraph, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH)
SAME(kHeuristicsResults, CUDNN_ATTR_ENGINEHEUR_RESULTS)
SAME(kPlanHandle, CUDNN_ATTR_EXECUTION_PLAN_HANDLE)
SAME(kPlanEngineConfig, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG)
SAME(kPlanWorkspace, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE)
SAME(kOpPointwiseDescriptor, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR)
SAME(kOpPointwiseX, CUDNN_ATTR_OPERATION_POINTWISE_XDESC)
SAME(kOpPointwiseB, CUDNN_ATTR_OPERATION_POINTWISE_BDESC)
SAME(kOpPointwiseY, CUDNN_ATTR_OPERATION_POINTWISE_YDESC)
SAME(kOpPointwiseT, CUDNN_ATTR_OPERATION_POINTWISE_TDESC)
SAME(kGraphHandle, CUDNN_ATTR_OPERATIONGRAPH_HANDLE)
SAME(kGraphOperations, CUDNN_ATTR_OPERATIONGRAPH_OPS)
SAME(kTensorAlignment, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT)
SAME(kTensorType, CUDNN_ATTR_TENSOR_DATA_TYPE)
SAME(kTensorDimensions, CUDNN_ATTR_TENSOR_DIMENSIONS)
SAME(kTensorStrides, CUDNN_ATTR_TENSOR_STRIDES)
SAME(kTensorId, CUDNN_ATTR_TENSOR_UNIQUE_ID)
SAME(kTensorIsVirtual, CUDNN_ATTR_TENSOR_IS_VIRTUAL)
SAME(kTensorIsByValue, CUDNN_ATTR_TENSOR_IS_BY_VALUE)
SAME(kPackIds, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS)
SAME(kPackPointers, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS)
SAME(kPackWorkspace, CUDNN_ATTR_VARIANT_PACK_WORKSPACE)
SAME(kMatmulComputeType, CUDNN_ATTR_MATMUL_COMP_TYPE)
SAME(kOpMatmulA, CUDNN_ATTR_OPERATION_MATMUL_ADESC)
SAME(kOpMatmulB, CUDNN_ATTR_OPERATION_MATMUL_BDESC)
SAME(kOpMatmulC, CUDNN_ATTR_OPERATION_MATMUL_CDESC)
SAME(kOpMatmulDescriptor, CUDNN_ATTR_OPERATION_MATMUL_DESC)
SAME(kReductionOperator, CUDNN_ATTR_REDUCTION_OPERATOR)
SAME(kReductionComputeType, CUDNN_ATTR_REDUCTION_COMP_TYPE)
SAME(kOpReductionX, CUDNN_ATTR_OPERATION_REDUCTION_XDESC)
SAME(kOpReductionY, CUDNN_ATTR_OPERATION_REDUCTION_YDESC)
SAME(kOpReductionDescriptor, CUDNN_ATTR_OPERATION_REDUCTION_DESC)
SAME(kOpReshapeX, CUDNN_ATTR_OPERATION_RESHAPE_XDESC)
SAME(kOpReshapeY, CUDNN_ATTR_OPERATION_RESHAPE_YDESC)
SAME(kTypeHandle, CUDNN_TYPE_HANDLE)
SAME(kTypeDataType, CUDNN_TYPE_DATA_TYPE)
SAME(kTypeBoolean, CUDNN_TYPE_BOOLEAN)
SAME(kTypeInt64, CUDNN_TYPE_INT64)
SAME(kTypeVoidPointer, CUDNN_TYPE_VOID_PTR)
SAME(kTypeHeuristicsMode, CUDNN_TYPE_HEUR_MODE)
SAME(kTypePointwiseMode, CUDNN_TYPE_POINTWISE_MODE)
SAME(kTypeDescriptor, CUDNN_TYPE_BACKEND_DESCRIPTOR)
SAME(kTypeReductionOperator, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE)
SAME(kTypeChar, CUDNN_TYPE_CHAR)
SAME(kF32, CUDNN_DATA_FLOAT)
SAME(kF16, CUDNN_DATA_HALF)
SAME(kInt32, CUDNN_DATA_INT32)
SAME(kBF16, CUDNN_DATA_BFLOAT16)
SAME(kBoolean, CUDNN_DATA_BOOLEAN)
SAME(kAdd, CUDNN_POINTWISE_ADD)
SAME(kMultiply, CUDNN_POINTWISE_MUL)
SAME(kDivide, CUDNN_POINTWISE_DIV)
SAME(kSubtract, CUDNN_POINTWISE_SUB)
SAME(kExp, CUDNN_POINTWISE_EXP)
SAME(kLog, CUDNN_POINTWISE_LOG)
SAME(kGreater, CUDNN_POINTWISE_CMP_GT)
SAME(kGreaterOrEqual, CUDNN_POINTWISE_CMP_GE)
SAME(kIndex, CUDNN_POINTWISE_GEN_INDEX)
SAME(kSelect, CUDNN_POINTWISE_BINARY_SELECT)
SAME(kSum, CUDNN_REDUCE_TENSOR_ADD)
SAME(kMaximum, CUDNN_REDUCE_TENSOR_MAX)
SAME(kHeuristicsByShape, CUDNN_HEUR_MODE_A)
SAME(kSuccess, CUDNN_STATUS_SUCCESS)
SAME(kBadParameter, CUDNN_STATUS_BAD_PARAM)
SAME(kNotSupported, CUDNN_STATUS_NOT_SUPPORTED)
#if CUDNN_GRAPH_MAJOR > 9 || CUDNN_GRAPH_MINOR >= 8
SAME(kHeuristicsDevice, CUDNN_ATTR_ENGINEHEUR_DEVICEPROP)
SAME(kPlanDevice, CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP)
SAME(kDeviceJson, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION)
SAME(kDeviceProperties, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR)
#endif
#undef SAME
#endif

// The checks are done when this file compiles.
TEST(CudaHeadersTest, Agree) {}

} // namespace
