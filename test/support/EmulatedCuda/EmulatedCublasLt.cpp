//===- EmulatedCublasLt.cpp - cuBLASLt's functions, by oneDNN -------------===//
//
// cuBLASLt's own descriptors check nothing. Here every product is held against
// rules before oneDNN computes it. The sentences are the manual's ("Using the
// cuBLASLt API", CUDA 13.0), shortened.
//
//===----------------------------------------------------------------------===//

#include "State.h"

#include "dnnl.h"
#include <algorithm>
#include <cmath>
#include <cstring>
#include <dlfcn.h>
#include <initializer_list>

using namespace heddle;
using namespace heddle::emulated;
namespace blas = heddle::runtime::cuda::blas;

namespace {

struct Desc {
  int compute = 0, scale = 0;
  int32_t transA = 0, transB = 0;
  uint32_t epilogue = blas::kEpilogueDefault;
  const void *bias = nullptr;
  const void *aux = nullptr;
  int64_t auxLeading = 0;

  bool isOneOf(std::initializer_list<uint32_t> epilogues) const {
    return std::find(epilogues.begin(), epilogues.end(), epilogue) !=
           epilogues.end();
  }
  bool addsBias() const {
    return isOneOf({blas::kEpilogueBias, blas::kEpilogueGeluAuxBias});
  }
  bool writesSums() const {
    return isOneOf({blas::kEpilogueBGradA, blas::kEpilogueBGradB});
  }
  bool writesAux() const {
    return isOneOf({blas::kEpilogueGeluAux, blas::kEpilogueGeluAuxBias});
  }
  bool usesAux() const {
    return writesAux() || epilogue == blas::kEpilogueDGelu;
  }
};
struct Matrix {
  int type = 0;
  uint64_t rows = 0, columns = 0;
  int64_t leading = 0;
  int32_t batch = 1;
  int64_t batchStride = 0;

  size_t elementBytes() const { return type == blas::kF32 ? 4 : 2; }
  /// From the first to the last element.
  size_t bytes() const {
    return elementBytes() *
           size_t((batch - 1) * batchStride + int64_t(columns - 1) * leading +
                  int64_t(rows));
  }
};
struct Wishes {
  uint64_t workspace = 0;
  uint32_t schemes = 7;
  uint32_t alignments[4] = {256, 256, 256, 256};
};
/// The content of Algorithm::data.
struct Chosen {
  uint32_t mark, number; ///< among the proposed ones
  uint64_t m, n, k;
  uint32_t alignments[4];
  uint64_t workspace;
};
constexpr uint32_t kMark = 0x65646c65;
static_assert(sizeof(Chosen) <= sizeof(blas::Algorithm));

template <typename T, typename H> T *from(H handle) {
  return reinterpret_cast<T *>(handle);
}

struct Sizes {
  uint64_t m = 0, n = 0, k = 0;
};

/// Returns the rule that a product breaks, or "".
std::string findBrokenRule(const Desc &desc, const Matrix &a, const Matrix &b,
                           const Matrix &c, const Matrix &d, Sizes &sizes) {
  for (const Matrix *matrix : {&a, &b, &c, &d}) {
    // cublasLtMatrixLayoutCreate: "rows, cols: number of rows and columns";
    // the leading dimension "must be large enough that matrix columns are not
    // overlapping (e.g., greater or equal to rows for CUBLASLT_ORDER_COL)".
    if (matrix->rows == 0 || matrix->columns == 0)
      return "an empty matrix";
    if (matrix->leading < int64_t(matrix->rows))
      return "leading dimension " + std::to_string(matrix->leading) +
             " is below the " + std::to_string(matrix->rows) + " rows";
    // CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: "number of matmul operations to
    // perform in the batch"; all matrices have the same.
    if (matrix->batch != a.batch || matrix->batch < 1)
      return "batch counts differ";
  }
  // cublasLtMatmul: "computes D = alpha*(A*B) + beta*(C)", A and B are
  // transposed as CUBLASLT_MATMUL_DESC_TRANSA and TRANSB say.
  sizes.m = desc.transA ? a.columns : a.rows;
  sizes.k = desc.transA ? a.rows : a.columns;
  sizes.n = desc.transB ? b.rows : b.columns;
  if ((desc.transB ? b.columns : b.rows) != sizes.k || c.rows != sizes.m ||
      c.columns != sizes.n)
    return "the shapes do not match";
  // "when C and D are in place (Cptr == Dptr), Cdesc must equal Ddesc".
  if (c.type != d.type || c.rows != d.rows || c.columns != d.columns ||
      c.leading != d.leading || c.batchStride != d.batchStride)
    return "C and D differ";
  // The table of supported types of cublasLtMatmul: scale type f32 with
  // compute type 32F: (16BF, 16BF -> 16BF or 32F), (16F, 16F -> 16F or 32F),
  // (32F, 32F -> 32F); TF32 takes 32F alone.
  if (desc.scale != blas::kF32)
    return "the scale type is not f32";
  if (desc.compute != blas::kCompute32F && desc.compute != blas::kComputeTF32)
    return "an unknown compute type";
  if (desc.compute == blas::kComputeTF32 && a.type != blas::kF32)
    return "TF32 takes f32";
  if (a.type != b.type ||
      (a.type != blas::kF32 && a.type != blas::kBF16 && a.type != blas::kF16))
    return "types of A and B";
  if (c.type != a.type && c.type != blas::kF32)
    return "the type of C";
  // cublasLtEpilogue_t: the values of this version. BIAS: "broadcast bias from
  // the bias vector; its length must match matrix D's rows; the bias pointer
  // must be set"; its type is D's.
  if (desc.epilogue != blas::kEpilogueDefault && !desc.addsBias() &&
      !desc.writesSums() && !desc.usesAux())
    return "an epilogue that the library lacks: " +
           std::to_string(desc.epilogue);
  // BIAS_POINTER and EPILOGUE_AUX_POINTER: "routines that don't dereference
  // this pointer, like cublasLtMatmulAlgoGetHeuristic(), depend on its value to
  // determine expected pointer alignment".
  if ((desc.addsBias() || desc.writesSums()) && !desc.bias)
    return "an epilogue with bias without one";
  if (desc.usesAux() && !desc.aux)
    return "an epilogue with an auxiliary buffer without one";
  // CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD: "GELU input matrix leading dimension
  // in elements. Must be divisible by 8 and be no less than the number of rows
  // in the output matrix".
  if (desc.usesAux() &&
      (desc.auxLeading % 8 != 0 || desc.auxLeading < int64_t(d.rows)))
    return "the auxiliary leading dimension " + std::to_string(desc.auxLeading);
  // CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_BATCH_STRIDE is not set, so it is 0, and
  // matrices of a batch would overlap.
  if (d.batch > 1 && (desc.writesAux() || desc.writesSums()))
    return "a batch with one auxiliary result";
  // D's matrices must not overlap: each element is written once.
  if (d.batch > 1 && d.batchStride == 0)
    return "matrices of a batch of D overlap";
  return "";
}

/// gelu in the tanh form, which is the library's: "GELU(x) = 0.5 x (1 +
/// tanh(sqrt(2 / pi) (x + 0.044715 x^3)))".
float gelu(float x) {
  return 0.5f * x *
         (1 + std::tanh(0.7978845608028654f * (x + 0.044715f * x * x * x)));
}
float geluDerivative(float x) {
  float t = std::tanh(0.7978845608028654f * (x + 0.044715f * x * x * x));
  return 0.5f * (1 + t) + 0.5f * x * (1 - t * t) * 0.7978845608028654f *
                              (1 + 3 * 0.044715f * x * x);
}

float read(const void *data, int type, int64_t index) {
  if (type == blas::kF32)
    return static_cast<const float *>(data)[index];
  uint32_t bits = uint32_t(static_cast<const uint16_t *>(data)[index]) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
void write(void *data, int type, int64_t index, float value) {
  if (type == blas::kF32) {
    static_cast<float *>(data)[index] = value;
    return;
  }
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  static_cast<uint16_t *>(data)[index] =
      uint16_t((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

/// Copies a matrix to f32, column by column and without gaps.
std::vector<float> dense(const Matrix &matrix, const void *data, int batch) {
  std::vector<float> result;
  for (uint64_t column = 0; column < matrix.columns; ++column)
    for (uint64_t row = 0; row < matrix.rows; ++row)
      result.push_back(read(data, matrix.type,
                            batch * matrix.batchStride +
                                int64_t(column) * matrix.leading +
                                int64_t(row)));
  return result;
}

/// Lets oneDNN use the calling thread alone. Debian's would start OpenMP
/// threads, which spin until the next product.
void workAlone() {
  static const auto setThreads = [] {
    void *library = dlopen("libgomp.so.1", RTLD_NOW | RTLD_NOLOAD);
    return reinterpret_cast<void (*)(int)>(
        library ? dlsym(library, "omp_set_num_threads") : nullptr);
  }();
  if (setThreads)
    setThreads(1);
}

std::string multiply(const Desc &desc, const Matrix &a, const void *aData,
                     const Matrix &b, const void *bData, const Matrix &d,
                     void *dData, Sizes sizes, float alpha, float beta) {
  workAlone();
  for (int batch = 0; batch < d.batch; ++batch) {
    std::vector<float> left = dense(a, aData, batch);
    std::vector<float> right = dense(b, bData, batch);
    std::vector<float> product(sizes.m * sizes.n);
    // oneDNN has rows first: D^T = op(B)^T op(A)^T.
    auto m = dnnl_dim_t(sizes.n), n = dnnl_dim_t(sizes.m),
         k = dnnl_dim_t(sizes.k);
    if (dnnl_sgemm(desc.transB ? 'T' : 'N', desc.transA ? 'T' : 'N', m, n, k,
                   alpha, right.data(), dnnl_dim_t(b.rows), left.data(),
                   dnnl_dim_t(a.rows), 0, product.data(), n) != dnnl_success)
      return "oneDNN refuses a product";
    for (uint64_t column = 0; column < sizes.n; ++column)
      for (uint64_t row = 0; row < sizes.m; ++row) {
        int64_t place =
            batch * d.batchStride + int64_t(column) * d.leading + int64_t(row);
        float value = product[column * sizes.m + row];
        if (beta != 0)
          value += beta * read(dData, d.type, place);
        if (desc.addsBias())
          value += read(desc.bias, d.type, int64_t(row));
        int64_t auxPlace = int64_t(column) * desc.auxLeading + int64_t(row);
        if (desc.writesAux()) {
          write(const_cast<void *>(desc.aux), d.type, auxPlace, value);
          value = gelu(value);
        } else if (desc.usesAux()) {
          value *= geluDerivative(read(desc.aux, d.type, auxPlace));
        }
        write(dData, d.type, place, value);
      }
    // BGRADA: "the bias size corresponds to the number of rows of the matrix D.
    // The reduction happens over the GEMM's k dimension". BGRADB: columns.
    auto sum = [&](uint64_t count, const std::vector<float> &values,
                   uint64_t step, uint64_t stepOfK) {
      for (uint64_t i = 0; i < count; ++i) {
        float total = 0;
        for (uint64_t k = 0; k < sizes.k; ++k)
          total += values[i * step + k * stepOfK];
        write(const_cast<void *>(desc.bias), d.type, int64_t(i), total);
      }
    };
    if (desc.epilogue == blas::kEpilogueBGradA)
      sum(sizes.m, left, desc.transA ? a.rows : 1, desc.transA ? 1 : a.rows);
    if (desc.epilogue == blas::kEpilogueBGradB)
      sum(sizes.n, right, desc.transB ? 1 : b.rows, desc.transB ? b.rows : 1);
  }
  return "";
}

/// Reads an attribute; false if its size is another.
template <typename T> bool take(T &to, const void *value, size_t bytes) {
  if (bytes != sizeof(T))
    return false;
  std::memcpy(&to, value, bytes);
  return true;
}

blas::Result refuse(blas::Result result, const std::string &why) {
  Gpu::get().report("cuBLASLt: " + why);
  return result;
}

} // namespace

extern "C" {

size_t cublasLtGetVersion() { return Gpu::get().machine.cublasLtVersion; }
blas::Result cublasLtCreate(blas::Handle *handle) {
  *handle = reinterpret_cast<blas::Handle>(&Gpu::get());
  return 0;
}
blas::Result cublasLtDestroy(blas::Handle) { return 0; }
blas::Result cublasLtMatmulDescCreate(blas::MatmulDesc *desc, int compute,
                                      int scale) {
  auto *made = new Desc();
  made->compute = compute;
  made->scale = scale;
  *desc = reinterpret_cast<blas::MatmulDesc>(made);
  return 0;
}
blas::Result cublasLtMatmulDescDestroy(blas::MatmulDesc desc) {
  delete from<Desc>(desc);
  return 0;
}
blas::Result cublasLtMatmulDescSetAttribute(blas::MatmulDesc handle,
                                            int attribute, const void *value,
                                            size_t bytes) {
  Desc &desc = *from<Desc>(handle);
  bool isKnown = false;
  switch (attribute) {
  case blas::kTransA:
    isKnown = take(desc.transA, value, bytes);
    break;
  case blas::kTransB:
    isKnown = take(desc.transB, value, bytes);
    break;
  case blas::kEpilogue:
    isKnown = take(desc.epilogue, value, bytes);
    break;
  case blas::kBiasPointer:
    isKnown = take(desc.bias, value, bytes);
    break;
  case blas::kAuxPointer:
    isKnown = take(desc.aux, value, bytes);
    break;
  case blas::kAuxLeading:
    isKnown = take(desc.auxLeading, value, bytes);
    break;
  }
  return isKnown ? 0 : blas::kInvalidValue;
}
blas::Result cublasLtMatrixLayoutCreate(blas::Layout *layout, int type,
                                        uint64_t rows, uint64_t columns,
                                        int64_t leading) {
  *layout =
      reinterpret_cast<blas::Layout>(new Matrix{type, rows, columns, leading});
  return 0;
}
blas::Result cublasLtMatrixLayoutDestroy(blas::Layout layout) {
  delete from<Matrix>(layout);
  return 0;
}
blas::Result cublasLtMatrixLayoutSetAttribute(blas::Layout layout,
                                              int attribute, const void *value,
                                              size_t bytes) {
  Matrix &matrix = *from<Matrix>(layout);
  if (attribute == blas::kBatchCount)
    return take(matrix.batch, value, bytes) ? 0 : blas::kInvalidValue;
  if (attribute == blas::kBatchStride)
    return take(matrix.batchStride, value, bytes) ? 0 : blas::kInvalidValue;
  return blas::kInvalidValue;
}
blas::Result cublasLtMatmulPreferenceCreate(blas::Preference *preference) {
  *preference = reinterpret_cast<blas::Preference>(new Wishes());
  return 0;
}
blas::Result cublasLtMatmulPreferenceDestroy(blas::Preference preference) {
  delete from<Wishes>(preference);
  return 0;
}
blas::Result cublasLtMatmulPreferenceSetAttribute(blas::Preference preference,
                                                  int attribute,
                                                  const void *value,
                                                  size_t bytes) {
  Wishes &wishes = *from<Wishes>(preference);
  bool isKnown = false;
  if (attribute == blas::kMaxWorkspace)
    isKnown = take(wishes.workspace, value, bytes);
  if (attribute == blas::kSchemeMask)
    isKnown = take(wishes.schemes, value, bytes);
  if (attribute >= blas::kAlignmentA && attribute <= blas::kAlignmentD)
    isKnown =
        take(wishes.alignments[attribute - blas::kAlignmentA], value, bytes);
  return isKnown ? 0 : blas::kInvalidValue;
}
blas::Result cublasLtMatmulAlgoGetHeuristic(
    blas::Handle, blas::MatmulDesc desc, blas::Layout a, blas::Layout b,
    blas::Layout c, blas::Layout d, blas::Preference preference, int wanted,
    blas::HeuristicResult *results, int *count) {
  std::lock_guard lock(Gpu::get().mutex);
  const Wishes &wishes = *from<Wishes>(preference);
  Sizes sizes;
  std::string rule =
      findBrokenRule(*from<Desc>(desc), *from<Matrix>(a), *from<Matrix>(b),
                     *from<Matrix>(c), *from<Matrix>(d), sizes);
  *count = 0;
  if (!rule.empty())
    return refuse(blas::kNotSupported, rule);
  // Other schemes round parts of a sum to the type of C.
  if (wishes.schemes & ~blas::kFloatSums)
    return refuse(blas::kNotSupported, "sums that are not in f32 are allowed");
  for (int i = 0; i < std::min(wanted, Gpu::get().machine.algorithms); ++i) {
    Chosen chosen{kMark, uint32_t(i),          sizes.m, sizes.n, sizes.k,
                  {},    wishes.workspace >> i};
    std::copy_n(wishes.alignments, 4, chosen.alignments);
    results[i] = {};
    std::memcpy(&results[i].algorithm, &chosen, sizeof chosen);
    results[i].workspaceBytes = chosen.workspace;
    ++*count;
  }
  return 0;
}
/// "Performs correctness check on the matrix multiply algo descriptor [...] and
/// whether the algo is supported [...] If the descriptor is valid, the function
/// returns the workspace size".
blas::Result cublasLtMatmulAlgoCheck(blas::Handle, blas::MatmulDesc desc,
                                     blas::Layout a, blas::Layout b,
                                     blas::Layout c, blas::Layout d,
                                     const blas::Algorithm *algorithm,
                                     blas::HeuristicResult *result) {
  std::lock_guard lock(Gpu::get().mutex);
  Sizes sizes;
  std::string rule =
      findBrokenRule(*from<Desc>(desc), *from<Matrix>(a), *from<Matrix>(b),
                     *from<Matrix>(c), *from<Matrix>(d), sizes);
  Chosen chosen;
  std::memcpy(&chosen, algorithm, sizeof chosen);
  if (!rule.empty() || chosen.mark != kMark || chosen.m != sizes.m ||
      chosen.n != sizes.n || chosen.k != sizes.k ||
      int(chosen.number) >= Gpu::get().machine.algorithms)
    return blas::kNotSupported;
  *result = {};
  result->algorithm = *algorithm;
  result->workspaceBytes = chosen.workspace;
  return 0;
}
blas::Result
cublasLtMatmul(blas::Handle, blas::MatmulDesc descHandle, const void *alpha,
               const void *a, blas::Layout aLayout, const void *b,
               blas::Layout bLayout, const void *beta, const void *c,
               blas::Layout cLayout, void *d, blas::Layout dLayout,
               const blas::Algorithm *algorithm, void *workspace,
               size_t workspaceBytes, runtime::cuda::Stream stream) {
  std::lock_guard lock(Gpu::get().mutex);
  Gpu &gpu = Gpu::get();
  const Desc desc = *from<Desc>(descHandle);
  const Matrix left = *from<Matrix>(aLayout), right = *from<Matrix>(bLayout),
               sum = *from<Matrix>(cLayout), result = *from<Matrix>(dLayout);
  Sizes sizes;
  std::string rule = findBrokenRule(desc, left, right, sum, result, sizes);
  if (!rule.empty())
    return refuse(blas::kInvalidValue, rule);
  // "algo: must have been obtained for these descriptors".
  Chosen chosen;
  std::memcpy(&chosen, algorithm, sizeof chosen);
  if (chosen.mark != kMark || chosen.m != sizes.m || chosen.n != sizes.n ||
      chosen.k != sizes.k)
    return refuse(blas::kInvalidValue, "an algorithm for another product");
  // CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES and others: "minimum buffer
  // alignment in bytes".
  const void *pointers[] = {a, b, c, d};
  for (int i = 0; i < 4; ++i)
    if (reinterpret_cast<uintptr_t>(pointers[i]) % chosen.alignments[i] != 0)
      return refuse(blas::kInvalidValue, "an operand is not as aligned as the "
                                         "algorithm was told");
  // "workspace must be at least as large as the algorithm needs, and aligned to
  // 16 bytes" (256 on some).
  if (workspaceBytes < chosen.workspace ||
      reinterpret_cast<uintptr_t>(workspace) % 16 != 0)
    return refuse(blas::kInvalidValue, "the workspace");
  if (c != d)
    return refuse(blas::kInvalidValue, "C is not D");
  ++gpu.counts.launches;
  ++gpu.counts.products;
  int slower = gpu.machine.algorithms - 1 - int(chosen.number);
  gpu.counts.fastest += slower == 0;
  auto isMisaligned = [](const Matrix &matrix) {
    return matrix.columns > 1 &&
           size_t(matrix.leading) * matrix.elementBytes() % 16 != 0;
  };
  gpu.counts.misaligned +=
      isMisaligned(left) || isMisaligned(right) || isMisaligned(result);
  float factor = *static_cast<const float *>(alpha);
  float keep = *static_cast<const float *>(beta);
  auto at = [](const void *pointer) {
    return reinterpret_cast<uint64_t>(pointer);
  };
  gpu.issue(from<StreamState>(stream),
            {Operation::Kind::Work,
             [=, &gpu]() -> std::string {
               std::string text = gpu.check(at(a), left.bytes(), "matrix A");
               if (text.empty())
                 text = gpu.check(at(b), right.bytes(), "matrix B");
               if (text.empty())
                 text = gpu.check(at(d), result.bytes(), "matrix D");
               if (text.empty() && workspaceBytes)
                 text = gpu.check(at(workspace), workspaceBytes, "workspace");
               if (text.empty() && (desc.addsBias() || desc.writesSums()))
                 text = gpu.check(at(desc.bias),
                                  (desc.epilogue == blas::kEpilogueBGradB
                                       ? result.columns
                                       : result.rows) *
                                      result.elementBytes(),
                                  "bias");
               if (text.empty() && desc.usesAux())
                 text = gpu.check(
                     at(desc.aux),
                     size_t(int64_t(result.columns - 1) * desc.auxLeading +
                            int64_t(result.rows)) *
                         result.elementBytes(),
                     "auxiliary buffer");
               if (!text.empty())
                 return "cuBLASLt: " + text;
               gpu.clock += 1 + slower;
               return multiply(desc, left, a, right, b, result, d, sizes,
                               factor, keep);
             },
             nullptr});
  return 0;
}

} // extern "C"

blas::CublasLt emulated::getCublasLt() {
  blas::CublasLt functions;
#define X(member, symbol, result, parameters) functions.member = &::symbol;
  HEDDLE_CUBLASLT_FUNCTIONS(X)
#undef X
  return functions;
}
