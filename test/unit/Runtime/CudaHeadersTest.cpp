//===- CudaHeadersTest.cpp - Our declarations against NVIDIA's ------------===//
//
// Compiled only where a toolkit is found. Compares the values, the sizes of
// structures, and the sizes of all parameters of the functions that the backend
// for GPUs declares by itself.
//
//===----------------------------------------------------------------------===//

#include "backends/cuda/CublasLt.h"

#include <cublasLt.h>
#include <cuda.h>

#include "gtest/gtest.h"
#include <array>

namespace ours = heddle::runtime::cuda;

namespace {

template <typename R, typename... P> constexpr auto sizesOf(R (*)(P...)) {
  return std::array<size_t, sizeof...(P) + 1>{sizeof(R), sizeof(P)...};
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

// The checks are done when this file compiles.
TEST(CudaHeadersTest, Agree) {}

} // namespace
