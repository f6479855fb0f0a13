//===- CublasLt.h - NVIDIA's matrix products, loaded at run time -*- C++
//-*-===//
//
// The types and functions of cuBLASLt that the backend uses, declared as in
// Driver.h. Names and values are those of cublasLt.h.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_CUBLASLT_H
#define HEDDLE_RT_BACKENDS_CUDA_CUBLASLT_H

#include "backends/cuda/driver/Driver.h"

namespace heddle::runtime::cuda::blas {

using Result = int; ///< cublasStatus_t; 0: success
using Handle = struct HandleData *;
using MatmulDesc = struct MatmulDescData *;
using Layout = struct LayoutData *;
using Preference = struct PreferenceData *;

inline constexpr Result kSuccess = 0, kInvalidValue = 7, kNotSupported = 15;

/// cudaDataType_t.
inline constexpr int kF32 = 0, kF16 = 2, kBF16 = 14;
/// cublasComputeType_t: sums in f32, from operands as they are or rounded to
/// TF32 (10 bits of mantissa).
inline constexpr int kCompute32F = 68, kComputeTF32 = 77;
/// cublasOperation_t.
inline constexpr int kNormal = 0, kTransposed = 1;
/// cublasLtEpilogue_t.
inline constexpr uint32_t kEpilogueDefault = 1, kEpilogueBias = 4,
                          kEpilogueGeluAux = 160, kEpilogueGeluAuxBias = 164,
                          kEpilogueDGelu = 192, kEpilogueBGradA = 256,
                          kEpilogueBGradB = 512;
/// cublasLtReductionScheme_t: parts of a sum are kept in f32 and added in a
/// step of their own. The other schemes round them to the type of C.
inline constexpr uint32_t kFloatSums = 2;

enum MatmulDescAttribute : int {
  kTransA = 3,
  kTransB = 4,
  kEpilogue = 7,
  kBiasPointer = 8,
  kAuxPointer = 11,
  kAuxLeading = 12
};
enum LayoutAttribute : int { kBatchCount = 5, kBatchStride = 6 };
enum PreferenceAttribute : int {
  kMaxWorkspace = 1,
  kSchemeMask = 3,
  kAlignmentA = 5,
  kAlignmentB = 6,
  kAlignmentC = 7,
  kAlignmentD = 8
};

struct Algorithm {
  uint64_t data[8];
};

struct HeuristicResult {
  Algorithm algorithm;
  size_t workspaceBytes;
  Result state;
  float waves;
  int reserved[4];
};

/// The oldest version that serves, that of CUDA 12.0.
inline constexpr size_t kLeastVersion = 120000;

/// X(member, symbol in the library, result, parameters)
#define HEDDLE_CUBLASLT_FUNCTIONS(X)                                           \
  X(getVersion, cublasLtGetVersion, size_t, ())                                \
  X(create, cublasLtCreate, Result, (Handle *))                                \
  X(destroy, cublasLtDestroy, Result, (Handle))                                \
  X(descCreate, cublasLtMatmulDescCreate, Result, (MatmulDesc *, int, int))    \
  X(descDestroy, cublasLtMatmulDescDestroy, Result, (MatmulDesc))              \
  X(descSet, cublasLtMatmulDescSetAttribute, Result,                           \
    (MatmulDesc, int, const void *, size_t))                                   \
  X(layoutCreate, cublasLtMatrixLayoutCreate, Result,                          \
    (Layout *, int, uint64_t, uint64_t, int64_t))                              \
  X(layoutDestroy, cublasLtMatrixLayoutDestroy, Result, (Layout))              \
  X(layoutSet, cublasLtMatrixLayoutSetAttribute, Result,                       \
    (Layout, int, const void *, size_t))                                       \
  X(preferenceCreate, cublasLtMatmulPreferenceCreate, Result, (Preference *))  \
  X(preferenceDestroy, cublasLtMatmulPreferenceDestroy, Result, (Preference))  \
  X(preferenceSet, cublasLtMatmulPreferenceSetAttribute, Result,               \
    (Preference, int, const void *, size_t))                                   \
  X(heuristic, cublasLtMatmulAlgoGetHeuristic, Result,                         \
    (Handle, MatmulDesc, Layout, Layout, Layout, Layout, Preference, int,      \
     HeuristicResult *, int *))                                                \
  X(algorithmCheck, cublasLtMatmulAlgoCheck, Result,                           \
    (Handle, MatmulDesc, Layout, Layout, Layout, Layout, const Algorithm *,    \
     HeuristicResult *))                                                       \
  X(matmul, cublasLtMatmul, Result,                                            \
    (Handle, MatmulDesc, const void *, const void *, Layout, const void *,     \
     Layout, const void *, const void *, Layout, void *, Layout,               \
     const Algorithm *, void *, size_t, Stream))

/// The library's functions. Tests fill in others.
struct CublasLt {
#define X(member, symbol, result, parameters)                                  \
  result(*member) parameters = nullptr;
  HEDDLE_CUBLASLT_FUNCTIONS(X)
#undef X

  /// An error that names the function, if `result` is one.
  static Status check(Result result, const char *function);
};

/// Loads cuBLASLt 13 or 12. Errors: it is missing, too old, lacks a function,
/// or needs a newer driver than the machine's.
Expected<CublasLt> loadCublasLt(int driverVersion);

} // namespace heddle::runtime::cuda::blas

#endif // HEDDLE_RT_BACKENDS_CUDA_CUBLASLT_H
