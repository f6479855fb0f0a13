//===- ChooseAlgorithm.cpp - The fastest algorithm of a product -----------===//

#include "backends/cuda/products/Products.h"
#include "support/Message.h"

#include <algorithm>
#include <cstdlib>

namespace heddle::runtime::cuda {

using blas::CublasLt;

/// The most algorithms that are measured, and how many products the measurement
/// of each computes.
static constexpr int kMostCandidates = 8, kProducts = 3;

/// Describes all that an algorithm depends on.
static std::string describe(const heddle_rt_matmul_desc &desc, int batchLoop,
                            int kind, std::initializer_list<uint32_t> aligned) {
  const char *tf32 = std::getenv("HEDDLE_RT_TF32");
  auto typeName = [](int32_t type) { return name(DType(type)); };
  std::string text =
      concat(desc.m, "x", desc.n, "x", desc.k, " ", typeName(desc.a_type), " [",
             desc.a_row_stride, ",", desc.a_column_stride, "] [",
             desc.b_row_stride, ",", desc.b_column_stride, "] ",
             typeName(desc.c_type), " [", desc.c_row_stride, "] kind ", kind);
  if (batchLoop >= 0) {
    const heddle_rt_matmul_loop &batch = desc.loops[batchLoop];
    text += concat(" batch ", batch.extent, " [", batch.a_stride, ",",
                   batch.b_stride, ",", batch.c_stride, "]");
  }
  text += " aligned";
  for (uint32_t bytes : aligned)
    text += concat(" ", bytes);
  return tf32 && std::string_view(tf32) == "1" ? text + " tf32" : text;
}

Expected<std::vector<blas::HeuristicResult>>
ProductLibrary::propose(const Key &key, const Prepared &product) {
  const CublasLt &f = library->functions;
  blas::Preference preference = nullptr;
  HEDDLE_RT_RETURN_IF_ERROR(CublasLt::check(f.preferenceCreate(&preference),
                                            "cublasLtMatmulPreferenceCreate"));
  Status status;
  auto set = [&](int attribute, const auto &value) {
    if (status.ok())
      status = CublasLt::check(
          f.preferenceSet(preference, attribute, &value, sizeof value),
          "cublasLtMatmulPreferenceSetAttribute");
  };
  set(blas::kMaxWorkspace, uint64_t(kWorkspaceBytes));
  set(blas::kSchemeMask, blas::kFloatSums);
  set(blas::kAlignmentA, key.b); // cuBLASLt's A is our B
  set(blas::kAlignmentB, key.a);
  set(blas::kAlignmentC, key.c);
  set(blas::kAlignmentD, key.c);
  std::vector<blas::HeuristicResult> found(kMostCandidates);
  int count = 0;
  blas::Result result = blas::kSuccess;
  if (status.ok())
    result = f.heuristic(library->handle, product.operation, product.left,
                         product.right, product.result, product.result,
                         preference, kMostCandidates, found.data(), &count);
  f.preferenceDestroy(preference);
  HEDDLE_RT_RETURN_IF_ERROR(status);
  if (result == blas::kNotSupported)
    count = 0;
  else
    HEDDLE_RT_RETURN_IF_ERROR(
        CublasLt::check(result, "cublasLtMatmulAlgoGetHeuristic"));
  found.resize(size_t(std::clamp(count, 0, kMostCandidates)));
  std::erase_if(found, [](const blas::HeuristicResult &each) {
    return each.state != blas::kSuccess;
  });
  return found;
}

Expected<bool> ProductLibrary::choose(int32_t stream, const Key &key,
                                      const Call &call, Prepared &product) {
  std::string text =
      cuda::describe(*key.desc, product.batchLoop, int(product.kind),
                     {key.a, key.b, key.c, key.bias, key.extra});
  std::unique_lock<std::mutex> lock;
  if (choices) {
    lock = std::unique_lock(choices->measuring);
    choices->open(device.gpu(), library->functions);
    if (std::optional<ProductChoices::Choice> known = choices->find(text)) {
      blas::HeuristicResult checked{};
      if (library->functions.algorithmCheck(
              library->handle, product.operation, product.left, product.right,
              product.result, product.result, &known->algorithm,
              &checked) == blas::kSuccess &&
          checked.workspaceBytes <= kWorkspaceBytes) {
        product.algorithm = known->algorithm;
        product.workspaceBytes = checked.workspaceBytes;
        return true;
      }
      choices->refuse(text);
    }
  }
  Expected<std::vector<blas::HeuristicResult>> proposed = propose(key, product);
  HEDDLE_RT_RETURN_IF_ERROR(proposed.status());
  if (proposed->empty())
    return false;
  product.algorithm = proposed->front().algorithm;
  product.workspaceBytes = proposed->front().workspaceBytes;
  if (!choices || proposed->size() == 1)
    return true;
  const heddle_rt_matmul_desc &desc = *key.desc;
  int64_t last = (desc.m - 1) * std::max(desc.c_row_stride, desc.n) + desc.n;
  if (product.batchLoop >= 0)
    last += (desc.loops[product.batchLoop].extent - 1) *
            desc.loops[product.batchLoop].c_stride;
  Expected<ProductChoices::Choice> choice = measure(
      stream, call, product, *proposed,
      size_t(last) * std::max(byteSize(DType(desc.c_type)), sizeof(float)));
  HEDDLE_RT_RETURN_IF_ERROR(choice.status());
  choices->add(text, *choice);
  return true;
}

Expected<ProductChoices::Choice>
ProductLibrary::measure(int32_t stream, const Call &call, Prepared &product,
                        const std::vector<blas::HeuristicResult> &proposed,
                        size_t bytesOfC) {
  const Driver &driver = device.gpu().driver();
  Call trial = call;
  // A product that accumulates must be added to C only once, so trials write to
  // scratch. Without memory for scratch, the library's own choice stands.
  Address scratch = 0;
  ProductChoices::Choice best{proposed.front().algorithm, 0, 1};
  if (call.accumulates) {
    if (driver.memAlloc(&scratch, bytesOfC) != kSuccess)
      return best;
    trial.c = reinterpret_cast<void *>(scratch);
  }
  Event start = nullptr, end = nullptr;
  Status refused;
  auto run = [&]() -> Status {
    HEDDLE_RT_RETURN_IF_ERROR(
        device.check(driver.eventCreate(&start, 0), "cuEventCreate"));
    HEDDLE_RT_RETURN_IF_ERROR(
        device.check(driver.eventCreate(&end, 0), "cuEventCreate"));
    best.candidates = 0;
    for (const blas::HeuristicResult &each : proposed) {
      Prepared candidate = product;
      candidate.algorithm = each.algorithm;
      candidate.workspaceBytes = each.workspaceBytes;
      // The first product loads the kernel. An algorithm that the library
      // proposes but does not run is left out.
      if (Status ran = multiply(stream, candidate, trial); !ran.ok()) {
        refused = std::move(ran);
        continue;
      }
      HEDDLE_RT_RETURN_IF_ERROR(device.check(
          driver.eventRecord(start, device.stream(stream)), "cuEventRecord"));
      for (int i = 0; i < kProducts; ++i)
        HEDDLE_RT_RETURN_IF_ERROR(multiply(stream, candidate, trial));
      HEDDLE_RT_RETURN_IF_ERROR(device.check(
          driver.eventRecord(end, device.stream(stream)), "cuEventRecord"));
      HEDDLE_RT_RETURN_IF_ERROR(
          device.check(driver.eventSynchronize(end), "cuEventSynchronize"));
      float milliseconds = 0;
      HEDDLE_RT_RETURN_IF_ERROR(
          device.check(driver.eventElapsedTime(&milliseconds, start, end),
                       "cuEventElapsedTime"));
      double microseconds = double(milliseconds) * 1000 / kProducts;
      if (best.candidates++ == 0 || microseconds < best.microseconds) {
        best.algorithm = each.algorithm;
        best.microseconds = microseconds;
        product.algorithm = each.algorithm;
        product.workspaceBytes = each.workspaceBytes;
      }
    }
    return best.candidates ? Status::success() : std::move(refused);
  };
  Status status = run();
  for (Event event : {start, end})
    if (event)
      driver.eventDestroy(event);
  if (scratch)
    driver.memFree(scratch);
  HEDDLE_RT_RETURN_IF_ERROR(status);
  return best;
}

} // namespace heddle::runtime::cuda
