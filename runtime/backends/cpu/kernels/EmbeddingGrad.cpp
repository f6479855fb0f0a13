//===- EmbeddingGrad.cpp - Gradient of an embedding, rotary table ---------===//

#include "backends/cpu/kernels/EmbeddingGrad.h"
#include "backends/cpu/kernels/Convert.h"
#include "backends/cpu/threads/ThreadPool.h"
#include "support/Message.h"

#include <algorithm>
#include <cmath>
#include <cstring>

namespace heddle::runtime {

Status embeddingGrad(ThreadPool &pool, const int32_t *ids, int64_t numIds,
                     const void *rows, int32_t type, int64_t width,
                     int64_t firstRow, int64_t tableRows, bool accumulate,
                     float *tableGrad) {
  if (type != HEDDLE_RT_F32 && type != HEDDLE_RT_BF16 && type != HEDDLE_RT_F16)
    return errorOf("expected rows of type f32, bf16 or f16, got ",
                   name(DType(type)));
  if (!accumulate)
    pool.forRanges(tableRows * width, 1 << 16, [&](int64_t begin, int64_t end) {
      std::memset(tableGrad + begin, 0, size_t(end - begin) * sizeof(float));
    });
  // Each core takes some columns. Ranges of table rows would be uneven, because
  // some ids are frequent. Ranges of ids would change the order of a row's sum.
  pool.forRanges(width, 128, [&](int64_t begin, int64_t end) {
    for (int64_t i = 0; i < numIds; ++i) {
      int64_t row = int64_t(ids[i]) - firstRow;
      if (row >= 0 && row < tableRows)
        addF32(DType(type), at(rows, type, i * width + begin),
               tableGrad + row * width + begin, end - begin);
    }
  });
  return Status::success();
}

void rotaryTable(ThreadPool &pool, const double *frequencies, int64_t half,
                 int64_t first, int64_t rows, float *cosines, float *sines) {
  pool.forRanges(rows, 64, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row)
      for (int64_t j = 0; j < half; ++j) {
        double angle = double(first + row) * frequencies[j];
        cosines[row * half + j] = float(std::cos(angle));
        sines[row * half + j] = float(std::sin(angle));
      }
  });
}

} // namespace heddle::runtime
