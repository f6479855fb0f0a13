//===- MatmulPlan.cpp - How one product is cut into oneDNN calls ----------===//

#include "backends/cpu/onednn/MatmulPlan.h"
#include "backends/cpu/kernels/Convert.h"
#include "heddle_rt/manifest.h"
#include "support/Message.h"
#include "support/Sanitizer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace heddle::runtime {

namespace {

int64_t ceilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// Cuts `size` into equal parts of at most `limit`. Returns the size of a part,
/// rounded up to `unit`.
int64_t evenPart(int64_t size, int64_t limit, int64_t unit) {
  if (size <= limit)
    return size;
  int64_t part = ceilDiv(size, ceilDiv(size, limit));
  return ceilDiv(part, unit) * unit;
}

dnnl::memory::data_type toDnnl(int32_t type) {
  return type == HEDDLE_RT_BF16 ? dnnl::memory::data_type::bf16
                                : dnnl::memory::data_type::f32;
}

bool hasBf16Products() {
  switch (dnnl::get_effective_cpu_isa()) {
  case dnnl::cpu_isa::avx512_core_bf16:
  case dnnl::cpu_isa::avx512_core_amx:
    return true;
  default:
    return false;
  }
}

bool hasAmx() {
  return dnnl::get_effective_cpu_isa() == dnnl::cpu_isa::avx512_core_amx;
}

/// Returns whether oneDNN reads strided f32 tiles in place without loss of
/// speed. Without AVX-512 it steps through memory along the sum, and strides of
/// whole pages fall on the same sets of the caches.
bool readsStridedTiles() {
  switch (dnnl::get_effective_cpu_isa()) {
  case dnnl::cpu_isa::sse41:
  case dnnl::cpu_isa::avx:
  case dnnl::cpu_isa::avx2:
  case dnnl::cpu_isa::avx2_vnni:
    return false;
  default:
    return true;
  }
}

/// Returns the distance of the lines of a copied tile. It is no power of two,
/// so that the lines lie on different sets of the caches.
int64_t copiedStride(int64_t length) { return length + 16; }

/// Checks that one of the strides of a `rows` x `columns` matrix is 1. A
/// dimension of extent 1 may have any stride; it is set to that of a dense
/// matrix.
Status normalizeStrides(const char *operand, int64_t rows, int64_t columns,
                        int64_t &rowStride, int64_t &columnStride) {
  if (columns == 1 && rowStride != 1)
    columnStride = 1;
  if (rows == 1 && columnStride != 1)
    rowStride = 1;
  if (columnStride == 1) {
    rowStride = rows == 1 ? columns : rowStride;
    if (rowStride >= columns)
      return Status::success();
  }
  if (rowStride == 1) {
    columnStride = columns == 1 ? rows : columnStride;
    if (columnStride >= rows)
      return Status::success();
  }
  return errorOf("expected operand ", operand, " of ", rows, " x ", columns,
                 " to have a dense dimension, got strides ", rowStride, ", ",
                 columnStride);
}

bool isFloat(int32_t type) {
  return type == HEDDLE_RT_F32 || type == HEDDLE_RT_BF16 ||
         type == HEDDLE_RT_F16;
}

Status check(heddle_rt_matmul_desc &d) {
  if (d.m < 1 || d.n < 1 || d.k < 1)
    return errorOf("expected m, n and k of at least 1, got ", d.m, ", ", d.n,
                   ", ", d.k);
  if (d.num_loops < 0 || d.num_loops > HEDDLE_RT_MATMUL_MAX_LOOPS)
    return errorOf("expected at most ", int(HEDDLE_RT_MATMUL_MAX_LOOPS),
                   " loops, got ", d.num_loops);
  for (int32_t type : {d.a_type, d.b_type, d.c_type,
                       d.bias_type < 0 ? HEDDLE_RT_F32 : d.bias_type})
    if (!isFloat(type))
      return errorOf("expected operands of type f32, bf16 or f16, got ",
                     name(DType(type)));
  if (d.c_row_stride < d.n && d.m > 1)
    return errorOf("expected a row stride of C of at least ", d.n, ", got ",
                   d.c_row_stride);
  if (d.m == 1)
    d.c_row_stride = std::max(d.c_row_stride, d.n);
  HEDDLE_RT_RETURN_IF_ERROR(
      normalizeStrides("A", d.m, d.k, d.a_row_stride, d.a_column_stride));
  return normalizeStrides("B", d.k, d.n, d.b_row_stride, d.b_column_stride);
}

/// Copies a tile, converted to f32. Its rows or its columns are contiguous, and
/// their order stays.
void tileToF32(const void *from, int32_t type, int64_t rows, int64_t columns,
               int64_t rowStride, int64_t columnStride, float *to) {
  int64_t lines = columnStride == 1 ? rows : columns;
  int64_t length = columnStride == 1 ? columns : rows;
  int64_t stride = columnStride == 1 ? rowStride : columnStride;
  for (int64_t line = 0; line < lines; ++line)
    convertToF32(DType(type), at(from, type, line * stride),
                 to + line * copiedStride(length), length);
}

/// Calls note(line, bytes) for each contiguous row or column of a tile.
template <typename Note>
void noteLines(int64_t rows, int64_t columns, int64_t rowStride,
               int64_t columnStride, size_t elementBytes, const Note &note) {
  int64_t lines = columnStride == 1 ? rows : columns;
  int64_t length = columnStride == 1 ? columns : rows;
  int64_t stride = columnStride == 1 ? rowStride : columnStride;
  for (int64_t line = 0; line < lines; ++line)
    note(line * stride * int64_t(elementBytes), size_t(length) * elementBytes);
}

} // namespace

MatmulPacking matmulPackingFromEnvironment() {
  const char *wish = std::getenv("HEDDLE_RT_MATMUL");
  if (wish && std::strcmp(wish, "packed") == 0)
    return MatmulPacking::Always;
  if (wish && std::strcmp(wish, "plain") == 0)
    return MatmulPacking::Never;
  return MatmulPacking::Automatic;
}

// By measurement (RATIONALE.md), tiles of up to 512 x 384 with sums of 1536 are
// within 2% of the best in every layout. A product that gives few such tiles
// gets smaller ones, so that several cores have work.
void MatmulPlan::chooseTiles() {
  int64_t mLimit = 512, nLimit = 384;
  if (packs) {
    // Each tile of C packs its tile of B, so taller tiles pack B less often.
    mLimit = 1024;
    nLimit = desc.n >= 3072 ? 384 : 192;
  }
  auto tiles = [&] {
    return outerIterations * ceilDiv(desc.m, mLimit) * ceilDiv(desc.n, nLimit);
  };
  bool large = desc.m * desc.n * desc.k * sumIterations > (int64_t(1) << 22);
  for (auto [limit, smaller] :
       {std::pair{&mLimit, 256}, {&nLimit, 192}, {&mLimit, 128}})
    if (large && !packs && tiles() < 8)
      *limit = smaller;
  mTile = evenPart(desc.m, mLimit, 16);
  nTile = evenPart(desc.n, nLimit, 64);
  kTile = evenPart(desc.k, 1536, 64);
  mTiles = ceilDiv(desc.m, mTile);
  nTiles = ceilDiv(desc.n, nTile);
  kTiles = ceilDiv(desc.k, kTile);
}

Expected<MatmulPlan> MatmulPlan::make(const heddle_rt_matmul_desc &desc,
                                      const dnnl::engine &engine, int workers,
                                      MatmulPacking packing) {
  MatmulPlan plan(desc);
  heddle_rt_matmul_desc &d = plan.desc;
  HEDDLE_RT_RETURN_IF_ERROR(check(d));
  for (int32_t i = 0; i < d.num_loops; ++i) {
    const heddle_rt_matmul_loop &loop = d.loops[i];
    if (loop.extent < 1)
      return errorOf("expected loops of at least 1 iteration, got ",
                     loop.extent);
    if (loop.c_stride == 0 && loop.extent > 1) {
      plan.sums.push_back(loop);
      plan.sumIterations *= loop.extent;
    } else {
      plan.outer.push_back(loop);
      plan.outerBiasStrides.push_back(d.bias_strides[i]);
      plan.outerIterations *= loop.extent;
    }
  }
  bool native = d.a_type == d.b_type &&
                (d.a_type == HEDDLE_RT_F32 ||
                 (d.a_type == HEDDLE_RT_BF16 && hasBf16Products()));
  plan.convert = !native;
  plan.copiesA = plan.copiesB = plan.convert;
  plan.packs = native && packing != MatmulPacking::Never &&
               (packing == MatmulPacking::Always ||
                (d.a_type == HEDDLE_RT_BF16 && hasAmx() && d.m >= 128));
  plan.chooseTiles();
  if (native && d.a_type == HEDDLE_RT_F32 && !plan.packs &&
      !readsStridedTiles()) {
    // Copies an operand if its contiguous lines run across the summed dimension
    // and are longer than the tile.
    plan.copiesA = d.a_column_stride != 1 && d.a_column_stride > plan.mTile;
    plan.copiesB = d.b_column_stride == 1 && d.b_row_stride > plan.nTile;
  }
  bool mayWriteC =
      d.c_type == HEDDLE_RT_F32 ||
      (d.c_type == HEDDLE_RT_BF16 && native && d.a_type == HEDDLE_RT_BF16);
  bool oneStep = plan.kTiles == 1 && plan.sumIterations == 1;
  plan.separateC = !mayWriteC || (d.c_type != HEDDLE_RT_F32 && !oneStep);
  bool sumFirst = d.accumulate && !plan.separateC, bias = d.bias_type >= 0;
  int64_t lastK = d.k - (plan.kTiles - 1) * plan.kTile;
  for (int64_t m : {plan.mTile, d.m - (plan.mTiles - 1) * plan.mTile})
    for (int64_t n : {plan.nTile, d.n - (plan.nTiles - 1) * plan.nTile}) {
      plan.prepare(engine, m, n, plan.kTile, sumFirst, bias, workers);
      if (oneStep)
        continue;
      plan.prepare(engine, m, n, plan.kTile, true, false, workers);
      plan.prepare(engine, m, n, lastK, true, false, workers);
    }
  return plan;
}

void MatmulPlan::prepare(const dnnl::engine &engine, int64_t m, int64_t n,
                         int64_t k, bool sum, bool bias, int workers) {
  for (const MatmulKernel &kernel : kernels)
    if (kernel.m == m && kernel.n == n && kernel.k == k && kernel.sum == sum &&
        kernel.bias == bias)
      return;
  using dnnl::memory;
  // Copied tiles keep their order (row or column major).
  auto strides = [&](bool copies, int64_t rows, int64_t columns,
                     int64_t rowStride, int64_t columnStride) -> memory::dims {
    if (!copies)
      return {rowStride, columnStride};
    return columnStride == 1 ? memory::dims{copiedStride(columns), 1}
                             : memory::dims{1, copiedStride(rows)};
  };
  memory::data_type type =
      convert ? memory::data_type::f32 : toDnnl(desc.a_type);
  memory::desc aDesc(
      {m, k}, type,
      strides(copiesA, m, k, desc.a_row_stride, desc.a_column_stride));
  memory::desc bDesc(
      {k, n}, type,
      strides(copiesB, k, n, desc.b_row_stride, desc.b_column_stride));
  memory::desc cDesc({m, n},
                     separateC ? memory::data_type::f32 : toDnnl(desc.c_type),
                     memory::dims{separateC ? nTile : desc.c_row_stride, 1});
  memory::desc biasDesc;
  if (bias)
    biasDesc = memory::desc({1, n}, memory::data_type::f32, {n, 1});
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  if (sum) {
    dnnl::post_ops postOps;
    postOps.append_sum(1.0f);
    attributes.set_post_ops(postOps);
  }
  memory::desc weights =
      packs ? memory::desc({k, n}, type, memory::format_tag::any) : bDesc;
  dnnl::matmul::desc operation =
      bias ? dnnl::matmul::desc(aDesc, weights, biasDesc, cDesc)
           : dnnl::matmul::desc(aDesc, weights, cDesc);
  dnnl::matmul::primitive_desc primitiveDesc(operation, attributes, engine);
  memory::desc scratchpad = primitiveDesc.scratchpad_desc();
  weights = primitiveDesc.weights_desc();
  MatmulKernel kernel{
      m, n, k, sum, bias, dnnl::matmul(primitiveDesc), scratchpad.get_size()};
  if (weights != bDesc) {
    kernel.pack = dnnl::reorder(
        dnnl::reorder::primitive_desc(engine, bDesc, engine, weights));
    kernel.packedBytes = weights.get_size();
  }
  auto place = [&](const memory::desc &desc, bool used = true) {
    return used ? memory(desc, engine, nullptr) : memory();
  };
  for (int worker = 0; worker < workers; ++worker)
    kernel.operands.push_back({place(aDesc), place(bDesc), place(cDesc),
                               place(biasDesc, bias), place(scratchpad),
                               place(weights, kernel.packedBytes != 0)});
  kernels.push_back(std::move(kernel));
}

const MatmulKernel &MatmulPlan::kernel(int64_t m, int64_t n, int64_t k,
                                       bool sum, bool bias) const {
  // A plan has at most twelve kernels; `make` has prepared all of them.
  return *std::find_if(kernels.begin(), kernels.end(), [&](const auto &kernel) {
    return kernel.m == m && kernel.n == n && kernel.k == k &&
           kernel.sum == sum && kernel.bias == bias;
  });
}

void MatmulPlan::reserve(MatmulWorker &worker) const {
  auto grow = [](auto &buffer, int64_t size) {
    if (int64_t(buffer.size()) < size)
      buffer.resize(size_t(size));
  };
  for (const MatmulKernel &kernel : kernels) {
    grow(worker.scratchpad, int64_t(kernel.scratchpadBytes) + 64);
    if (kernel.packedBytes)
      grow(worker.packed, int64_t(kernel.packedBytes) + 64);
  }
  auto growTile = [&](auto &buffer, int64_t rows, int64_t columns,
                      int64_t columnStride) {
    grow(buffer, columnStride == 1 ? rows * copiedStride(columns)
                                   : columns * copiedStride(rows));
  };
  if (copiesA)
    growTile(worker.a, mTile, kTile, desc.a_column_stride);
  if (copiesB)
    growTile(worker.b, kTile, nTile, desc.b_column_stride);
  if (separateC)
    grow(worker.c, mTile * nTile);
  if (desc.bias_type >= 0 && desc.bias_type != HEDDLE_RT_F32)
    grow(worker.bias, nTile);
}

void MatmulPlan::noteOperands(const MatmulKernel &kernel, const void *a,
                              const void *b, void *c, const void *bias) const {
  auto reads = [](const void *from) {
    return [from](int64_t offset, size_t bytes) {
      noteRead(static_cast<const char *>(from) + offset, bytes);
    };
  };
  // Copied operands lie in the worker's own memory, so no other thread touches
  // them.
  size_t bytes = byteSize(DType(desc.a_type));
  if (!copiesA)
    noteLines(kernel.m, kernel.k, desc.a_row_stride, desc.a_column_stride,
              bytes, reads(a));
  if (!copiesB)
    noteLines(kernel.k, kernel.n, desc.b_row_stride, desc.b_column_stride,
              bytes, reads(b));
  if (!separateC)
    noteLines(kernel.m, kernel.n, desc.c_row_stride, 1,
              byteSize(DType(desc.c_type)), [&](int64_t offset, size_t bytes) {
                noteWrite(static_cast<char *>(c) + offset, bytes);
              });
  if (kernel.bias)
    noteRead(bias, size_t(kernel.n) * sizeof(float));
}

void MatmulPlan::execute(const MatmulKernel &kernel, int workerIndex,
                         MatmulWorker &worker, const void *a, const void *b,
                         void *c, const void *bias) const {
  const MatmulKernel::Operands &operands = kernel.operands[size_t(workerIndex)];
  auto set = [](const dnnl::memory &memory, const void *pointer) {
    memory.set_data_handle(const_cast<void *>(pointer));
    return memory.get();
  };
  auto run = [&](dnnl_primitive_t primitive, int count,
                 const dnnl_exec_arg_t *arguments) {
    dnnl::error::wrap_c_api(dnnl_primitive_execute(primitive,
                                                   worker.stream.get(), count,
                                                   arguments),
                            "oneDNN could not execute a matrix product");
  };
  if (*sanitizer)
    noteOperands(kernel, a, b, c, bias);
  dnnl_memory_t weights = set(operands.b, b);
  if (kernel.packedBytes) {
    dnnl_memory_t packed = set(operands.packed, alignedIn(worker.packed));
    dnnl_exec_arg_t ends[2] = {{DNNL_ARG_FROM, weights}, {DNNL_ARG_TO, packed}};
    run(kernel.pack.get(), 2, ends);
    weights = packed;
  }
  dnnl_exec_arg_t arguments[5] = {
      {DNNL_ARG_SRC, set(operands.a, a)},
      {DNNL_ARG_WEIGHTS, weights},
      {DNNL_ARG_DST, set(operands.c, c)},
      {DNNL_ARG_SCRATCHPAD,
       set(operands.scratchpad, alignedIn(worker.scratchpad))},
  };
  int count = 4;
  if (kernel.bias)
    arguments[count++] = {DNNL_ARG_BIAS, set(operands.bias, bias)};
  run(kernel.primitive.get(), count, arguments);
}

/// Rounds the f32 sums of a tile to C's type and stores them. Adds the elements
/// of C first if asked to.
void MatmulPlan::finishTile(MatmulWorker &worker, void *c, int64_t m,
                            int64_t n) const {
  for (int64_t i = 0; i < m; ++i) {
    float *sums = worker.c.data() + i * nTile;
    void *row = at(c, desc.c_type, i * desc.c_row_stride);
    if (desc.accumulate)
      addF32(DType(desc.c_type), row, sums, n);
    convertFromF32(DType(desc.c_type), sums, row, n);
  }
}

void MatmulPlan::runTask(int64_t task, int workerIndex, MatmulWorker &worker,
                         const void *a, const void *b, void *c,
                         const void *bias) const {
  // Tiles that run one after the other use the same tile of the larger operand,
  // which fits in no cache.
  bool rowsFirst = desc.m <= desc.n;
  int64_t i = (rowsFirst ? task % mTiles : task / nTiles % mTiles) * mTile;
  int64_t j = (rowsFirst ? task / mTiles % nTiles : task % nTiles) * nTile;
  int64_t m = std::min(mTile, desc.m - i), n = std::min(nTile, desc.n - j);
  int64_t aOffset = i * desc.a_row_stride, bOffset = j * desc.b_column_stride;
  int64_t cOffset = i * desc.c_row_stride + j, biasOffset = j;
  int64_t rest = task / mTiles / nTiles;
  for (size_t loop = outer.size(); loop-- > 0;) {
    int64_t index = rest % outer[loop].extent;
    rest /= outer[loop].extent;
    aOffset += index * outer[loop].a_stride;
    bOffset += index * outer[loop].b_stride;
    cOffset += index * outer[loop].c_stride;
    biasOffset += index * outerBiasStrides[loop];
  }
  void *target = separateC ? worker.c.data() : at(c, desc.c_type, cOffset);
  const void *tileBias = nullptr;
  if (desc.bias_type == HEDDLE_RT_F32) {
    tileBias = at(bias, desc.bias_type, biasOffset);
  } else if (desc.bias_type >= 0) {
    convertToF32(DType(desc.bias_type), at(bias, desc.bias_type, biasOffset),
                 worker.bias.data(), n);
    tileBias = worker.bias.data();
  }
  bool first = true;
  for (int64_t sum = 0; sum < sumIterations; ++sum) {
    int64_t aSum = aOffset, bSum = bOffset, left = sum;
    for (size_t loop = sums.size(); loop-- > 0;) {
      aSum += left % sums[loop].extent * sums[loop].a_stride;
      bSum += left % sums[loop].extent * sums[loop].b_stride;
      left /= sums[loop].extent;
    }
    for (int64_t block = 0; block < kTiles; ++block) {
      int64_t start = block * kTile, k = std::min(kTile, desc.k - start);
      const void *tileA =
          at(a, desc.a_type, aSum + start * desc.a_column_stride);
      const void *tileB = at(b, desc.b_type, bSum + start * desc.b_row_stride);
      if (copiesA) {
        tileToF32(tileA, desc.a_type, m, k, desc.a_row_stride,
                  desc.a_column_stride, worker.a.data());
        tileA = worker.a.data();
      }
      if (copiesB) {
        tileToF32(tileB, desc.b_type, k, n, desc.b_row_stride,
                  desc.b_column_stride, worker.b.data());
        tileB = worker.b.data();
      }
      bool withBias = first && desc.bias_type >= 0;
      bool adds = !first || (desc.accumulate && !separateC);
      execute(kernel(m, n, k, adds, withBias), workerIndex, worker, tileA,
              tileB, target, tileBias);
      first = false;
    }
  }
  if (separateC)
    finishTile(worker, at(c, desc.c_type, cOffset), m, n);
}

} // namespace heddle::runtime
