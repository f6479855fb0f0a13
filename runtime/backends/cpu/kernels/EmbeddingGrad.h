//===- EmbeddingGrad.h - Gradient of an embedding, rotary table -*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CPU_KERNELS_EMBEDDINGGRAD_H
#define HEDDLE_RT_BACKENDS_CPU_KERNELS_EMBEDDINGGRAD_H

#include "heddle_rt/status.h"

#include <cstdint>

namespace heddle::runtime {

class ThreadPool;

/// Implements heddle_rt_embedding_grad.
Status embeddingGrad(ThreadPool &pool, const int32_t *ids, int64_t numIds,
                     const void *rows, int32_t type, int64_t width,
                     int64_t firstRow, int64_t tableRows, bool accumulate,
                     float *tableGrad);

/// Implements heddle_rt_rotary_table.
void rotaryTable(ThreadPool &pool, const double *frequencies, int64_t half,
                 int64_t first, int64_t rows, float *cosines, float *sines);

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_KERNELS_EMBEDDINGGRAD_H
