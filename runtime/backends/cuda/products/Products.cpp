//===- Products.cpp - Matrix products by cuBLASLt -------------------------===//

#include "backends/cuda/products/Products.h"
#include "support/Message.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace heddle::runtime::cuda {

using blas::CublasLt;

static std::optional<int> blasType(int32_t type) {
  switch (type) {
  case HEDDLE_RT_F32:
    return blas::kF32;
  case HEDDLE_RT_BF16:
    return blas::kBF16;
  case HEDDLE_RT_F16:
    return blas::kF16;
  default:
    return std::nullopt;
  }
}

/// Returns the largest power of 2, up to 256, that divides an address.
static uint32_t alignmentOf(const void *pointer) {
  auto address = reinterpret_cast<uintptr_t>(pointer);
  return address == 0
             ? 256
             : uint32_t(std::min<uintptr_t>(256, address & (~address + 1)));
}

static std::string describe(const heddle_rt_matmul_desc &desc) {
  auto typeName = [](int32_t type) { return name(DType(type)); };
  return concat(desc.m, " x ", desc.n, " x ", desc.k, " of ",
                typeName(desc.a_type), " and ", typeName(desc.b_type), " to ",
                typeName(desc.c_type));
}

void ProductLibrary::Prepared::destroy(const CublasLt &functions) {
  if (operation)
    functions.descDestroy(operation);
  for (blas::Layout layout : {left, right, result})
    if (layout)
      functions.layoutDestroy(layout);
}

ProductLibrary::~ProductLibrary() {
  for (auto &[key, each] : prepared)
    each.destroy(library->functions);
}

/// An operand as cuBLASLt sees it: column-major.
struct Operand {
  int64_t rows, columns, leading;
  int operation;
};

/// Describes the transpose of a matrix [rows, columns] with these strides.
static Expected<Operand> transposeOf(int64_t rows, int64_t columns,
                                     int64_t rowStride, int64_t columnStride) {
  if (columnStride == 1 || columns == 1)
    if (rowStride >= columns || rows == 1)
      return Operand{columns, rows, std::max(rowStride, columns),
                     blas::kNormal};
  if (rowStride == 1 || rows == 1)
    if (columnStride >= rows || columns == 1)
      return Operand{rows, columns, std::max(columnStride, rows),
                     blas::kTransposed};
  return errorOf("expected a matrix ", rows, " x ", columns,
                 " with contiguous rows or columns that do not overlap, got "
                 "the strides ",
                 rowStride, " and ", columnStride);
}

Status ProductLibrary::describe(const heddle_rt_matmul_desc &desc,
                                Prepared &product) {
  const CublasLt &f = library->functions;
  auto aType = blasType(desc.a_type), bType = blasType(desc.b_type),
       cType = blasType(desc.c_type);
  if (!aType || aType != bType || !cType ||
      (cType != aType && *cType != blas::kF32))
    return error("cuBLASLt has no products of these types");
  Expected<Operand> left =
      transposeOf(desc.k, desc.n, desc.b_row_stride, desc.b_column_stride);
  HEDDLE_RT_RETURN_IF_ERROR(left.status());
  Expected<Operand> right =
      transposeOf(desc.m, desc.k, desc.a_row_stride, desc.a_column_stride);
  HEDDLE_RT_RETURN_IF_ERROR(right.status());
  const char *tf32 = std::getenv("HEDDLE_RT_TF32");
  int compute = *aType == blas::kF32 && tf32 && std::string_view(tf32) == "1"
                    ? blas::kComputeTF32
                    : blas::kCompute32F;
  HEDDLE_RT_RETURN_IF_ERROR(
      CublasLt::check(f.descCreate(&product.operation, compute, blas::kF32),
                      "cublasLtMatmulDescCreate"));
  auto set = [&](int attribute, const auto &value) {
    return CublasLt::check(
        f.descSet(product.operation, attribute, &value, sizeof value),
        "cublasLtMatmulDescSetAttribute");
  };
  HEDDLE_RT_RETURN_IF_ERROR(set(blas::kTransA, int32_t(left->operation)));
  HEDDLE_RT_RETURN_IF_ERROR(set(blas::kTransB, int32_t(right->operation)));
  if (uint32_t epilogue = epilogueOf(product.kind);
      epilogue != blas::kEpilogueDefault)
    HEDDLE_RT_RETURN_IF_ERROR(set(blas::kEpilogue, epilogue));
  if (usesAux(product.kind))
    HEDDLE_RT_RETURN_IF_ERROR(
        set(blas::kAuxLeading, int64_t(std::max(desc.c_row_stride, desc.n))));
  auto layout = [&](blas::Layout &to, int type, const Operand &matrix,
                    int64_t stride) -> Status {
    HEDDLE_RT_RETURN_IF_ERROR(CublasLt::check(
        f.layoutCreate(&to, type, uint64_t(matrix.rows),
                       uint64_t(matrix.columns), matrix.leading),
        "cublasLtMatrixLayoutCreate"));
    if (product.batchLoop < 0)
      return Status::success();
    auto count = int32_t(desc.loops[product.batchLoop].extent);
    HEDDLE_RT_RETURN_IF_ERROR(CublasLt::check(
        f.layoutSet(to, blas::kBatchCount, &count, sizeof count),
        "cublasLtMatrixLayoutSetAttribute"));
    return CublasLt::check(
        f.layoutSet(to, blas::kBatchStride, &stride, sizeof stride),
        "cublasLtMatrixLayoutSetAttribute");
  };
  heddle_rt_matmul_loop batch{};
  if (product.batchLoop >= 0)
    batch = desc.loops[product.batchLoop];
  HEDDLE_RT_RETURN_IF_ERROR(
      layout(product.left, *bType, *left, batch.b_stride));
  HEDDLE_RT_RETURN_IF_ERROR(
      layout(product.right, *aType, *right, batch.a_stride));
  bool isSum = product.kind == Kind::Sum;
  return layout(product.result, isSum ? blas::kF32 : *cType,
                {desc.n, desc.m,
                 isSum ? desc.n : std::max(desc.c_row_stride, desc.n),
                 blas::kNormal},
                batch.c_stride);
}

/// Returns the loop that becomes cuBLASLt's batch: the innermost one whose
/// iterations write different matrices and add the same bias. Returns -1 if
/// there is none. Not for products with an epilogue.
static int findBatchLoop(const heddle_rt_matmul_desc &desc) {
  for (int loop = desc.num_loops - 1; loop >= 0; --loop)
    if (desc.loops[loop].extent > 1 && desc.loops[loop].c_stride != 0 &&
        (desc.bias_type < 0 || desc.bias_strides[loop] == 0))
      return loop;
  return -1;
}

Expected<const ProductLibrary::Prepared *>
ProductLibrary::prepare(int32_t stream, const heddle_rt_matmul_desc &desc,
                        const Call &call) {
  Key key{&desc,
          call.kind,
          alignmentOf(call.a),
          alignmentOf(call.b),
          alignmentOf(call.c),
          alignmentOf(call.bias),
          alignmentOf(call.extra)};
  auto [place, isNew] = prepared.try_emplace(key);
  Prepared &product = place->second;
  if (!isNew)
    return &product;
  Expected<bool> found = make(stream, key, call, call.kind, product);
  if (found.ok() && !*found &&
      epilogueOf(call.kind) != blas::kEpilogueDefault) {
    product.destroy(library->functions);
    product = {};
    product.isApart = true;
    found = make(stream, key, call, Kind::Plain, product);
  }
  if (found.ok() && *found)
    return &product;
  product.destroy(library->functions);
  prepared.erase(place);
  Status status = found.ok() ? Status::error("cuBLASLt has no algorithm for it")
                             : std::move(found).status();
  return std::move(status).in(concat("product ", cuda::describe(desc)));
}

Expected<bool> ProductLibrary::make(int32_t stream, const Key &key,
                                    const Call &call, Kind kind,
                                    Prepared &product) {
  product.kind = kind;
  // A plain product that is followed by kernels for its epilogue has no batch
  // either. So `call.kind` decides, not `kind`.
  bool isBatch = call.kind == Kind::Plain || call.kind == Kind::Bias;
  product.batchLoop = isBatch ? findBatchLoop(*key.desc) : -1;
  HEDDLE_RT_RETURN_IF_ERROR(describe(*key.desc, product));
  // cuBLASLt takes alignments from these addresses when it proposes algorithms.
  if (kind == call.kind)
    HEDDLE_RT_RETURN_IF_ERROR(setPointers(product, call));
  return choose(stream, key, call, product);
}

static const void *offset(const void *pointer, int64_t elements, int32_t type) {
  return pointer ? static_cast<const char *>(pointer) +
                       elements * int64_t(byteSize(DType(type)))
                 : nullptr;
}

Status ProductLibrary::multiply(int32_t stream, const Prepared &product,
                                const Call &call) {
  float one = 1, keep = call.accumulates ? 1 : 0;
  return CublasLt::check(
      library->functions.matmul(library->handle, product.operation, &one,
                                call.b, product.left, call.a, product.right,
                                &keep, call.c, product.result, call.c,
                                product.result, &product.algorithm,
                                reinterpret_cast<void *>(workspaces[stream]),
                                product.workspaceBytes, device.stream(stream)),
      "cublasLtMatmul");
}

Status ProductLibrary::issue(int32_t stream, const heddle_rt_matmul_desc &desc,
                             const Call &call) {
  Expected<const Prepared *> product = prepare(stream, desc, call);
  HEDDLE_RT_RETURN_IF_ERROR(product.status());
  const Prepared &found = **product;
  if (!found.isApart)
    HEDDLE_RT_RETURN_IF_ERROR(setPointers(found, call));
  HEDDLE_RT_RETURN_IF_ERROR(multiply(stream, found, call));
  return found.isApart ? finishApart(stream, desc, call, found.batchLoop)
                       : Status::success();
}

Expected<Address> ProductLibrary::scratchOf(int32_t stream, size_t bytes) {
  auto &[address, size] = scratch[stream];
  if (size < bytes) {
    Expected<Address> memory = device.reserve(bytes);
    HEDDLE_RT_RETURN_IF_ERROR(memory.status());
    address = *memory;
    size = bytes;
  }
  return address;
}

namespace {

/// The offsets of an iteration of some loops, in elements.
struct Offsets {
  int64_t a = 0, b = 0, c = 0, bias = 0;
};

/// Calls body(offsets, index) for all iterations of the loops that `isOf`
/// selects, from `start` on.
template <typename Selects, typename Body>
Status forEachIteration(const heddle_rt_matmul_desc &desc, Offsets start,
                        Selects &&isOf, Body &&body) {
  int64_t iterations = 1;
  for (int loop = 0; loop < desc.num_loops; ++loop)
    if (isOf(loop))
      iterations *= desc.loops[loop].extent;
  for (int64_t i = 0; i < iterations; ++i) {
    Offsets offsets = start;
    int64_t rest = i;
    for (int loop = desc.num_loops - 1; loop >= 0; --loop) {
      if (!isOf(loop))
        continue;
      const heddle_rt_matmul_loop &each = desc.loops[loop];
      int64_t index = rest % each.extent;
      rest /= each.extent;
      offsets.a += index * each.a_stride;
      offsets.b += index * each.b_stride;
      offsets.c += index * each.c_stride;
      offsets.bias += index * desc.bias_strides[loop];
    }
    HEDDLE_RT_RETURN_IF_ERROR(body(offsets, i));
  }
  return Status::success();
}

} // namespace

/// The errors are those of a product on the CPU.
static Status checkSizes(const heddle_rt_matmul_desc &desc) {
  if (desc.m < 1 || desc.n < 1 || desc.k < 1)
    return errorOf("expected m, n and k of at least 1, got ", desc.m, ", ",
                   desc.n, ", ", desc.k);
  for (int loop = 0; loop < desc.num_loops; ++loop)
    if (desc.loops[loop].extent < 1)
      return errorOf("expected loops of at least 1 iteration, got ",
                     desc.loops[loop].extent);
  return Status::success();
}

/// Returns an error for a product with an epilogue that our compiler never
/// makes.
static Status checkEpilogue(const heddle_rt_matmul_desc &desc,
                            heddle_rt_epilogue epilogue, const void *bias) {
  for (int loop = 0; loop < desc.num_loops; ++loop)
    if (epilogue != HEDDLE_RT_EPILOGUE_B_SUMS ||
        (desc.loops[loop].extent > 1 &&
         (desc.loops[loop].c_stride == 0 || desc.bias_strides[loop] == 0)))
      return Status::error("expected a product with an epilogue to be one "
                           "product, or several with sums of their own");
  if (bias && desc.bias_type != desc.c_type)
    return Status::error("expected a bias of the result's type before gelu");
  return Status::success();
}

/// Returns the bytes of an operand. Its first matrix ends with the element
/// number `last`.
static size_t bytesOf(const heddle_rt_matmul_desc &desc, int64_t last,
                      int64_t heddle_rt_matmul_loop::*stride, int32_t type) {
  for (int loop = 0; loop < desc.num_loops; ++loop)
    last += (desc.loops[loop].extent - 1) * (desc.loops[loop].*stride);
  return size_t(last + 1) * byteSize(DType(type));
}

static size_t bytesOfBias(const heddle_rt_matmul_desc &desc) {
  int64_t last = desc.n - 1;
  for (int loop = 0; loop < desc.num_loops; ++loop)
    last += (desc.loops[loop].extent - 1) * desc.bias_strides[loop];
  return size_t(last + 1) * byteSize(DType(desc.bias_type));
}

/// Returns true if the iterations of a loop are added to one matrix.
static bool isLoopOfSum(const heddle_rt_matmul_desc &desc, int loop) {
  return desc.loops[loop].c_stride == 0 && desc.loops[loop].extent > 1;
}

/// Returns true if a sum is made in f32 scratch, because it is rounded only
/// once, to a narrow type.
static bool isSumOfNarrowType(const heddle_rt_matmul_desc &desc) {
  bool isSum = false;
  for (int loop = 0; loop < desc.num_loops; ++loop)
    isSum |= isLoopOfSum(desc, loop);
  return isSum && desc.c_type != HEDDLE_RT_F32;
}

static size_t bytesOfSum(const heddle_rt_matmul_desc &desc) {
  return size_t(desc.m * desc.n) * sizeof(float);
}

void ProductLibrary::expect(const heddle_rt_matmul_desc *const *list) {
  for (; list && *list; ++list) {
    expectsProducts = true;
    if (isSumOfNarrowType(**list))
      expectedSumBytes = std::max(expectedSumBytes, bytesOfSum(**list));
  }
}

Status ProductLibrary::run(int32_t stream, const heddle_rt_matmul_desc &desc,
                           Operands operands) {
  HEDDLE_RT_RETURN_IF_ERROR(checkSizes(desc));
  auto [a, b, c, bias, extra, epilogue] = operands;
  Kind kind = kindOf(operands);
  // Operands may be constants of the host.
  Expected<const void *> onGpu = device.onDevice(
      a, bytesOf(desc,
                 (desc.m - 1) * desc.a_row_stride +
                     (desc.k - 1) * desc.a_column_stride,
                 &heddle_rt_matmul_loop::a_stride, desc.a_type));
  HEDDLE_RT_RETURN_IF_ERROR(onGpu.status());
  a = *onGpu;
  onGpu = device.onDevice(b, bytesOf(desc,
                                     (desc.k - 1) * desc.b_row_stride +
                                         (desc.n - 1) * desc.b_column_stride,
                                     &heddle_rt_matmul_loop::b_stride,
                                     desc.b_type));
  HEDDLE_RT_RETURN_IF_ERROR(onGpu.status());
  b = *onGpu;
  if (bias) {
    onGpu = device.onDevice(bias, bytesOfBias(desc));
    HEDDLE_RT_RETURN_IF_ERROR(onGpu.status());
    bias = *onGpu;
  }
  if (!library) {
    Expected<const Card::Products *> loaded = device.gpu().products();
    HEDDLE_RT_RETURN_IF_ERROR(loaded.status());
    library = *loaded;
  }
  if (Address &workspace = workspaces[stream]; !workspace) {
    Expected<Address> memory = device.reserve(kWorkspaceBytes);
    HEDDLE_RT_RETURN_IF_ERROR(memory.status());
    workspace = *memory;
  }
  auto isSum = [&](int loop) { return isLoopOfSum(desc, loop); };
  if (epilogue)
    HEDDLE_RT_RETURN_IF_ERROR(checkEpilogue(desc, *epilogue, bias));
  bool isNarrowSum = isSumOfNarrowType(desc);
  int batch = isNarrowSum || epilogue ? -1 : findBatchLoop(desc);
  Address sum = 0;
  if (isNarrowSum) {
    Expected<Address> memory = scratchOf(stream, bytesOfSum(desc));
    HEDDLE_RT_RETURN_IF_ERROR(memory.status());
    sum = *memory;
  }
  bool addsBias = bias && desc.bias_type == desc.c_type;
  auto product = [&](Offsets offsets, int64_t index) {
    Call call{offset(a, offsets.a, desc.a_type),
              offset(b, offsets.b, desc.b_type),
              const_cast<void *>(offset(c, offsets.c, desc.c_type)),
              nullptr,
              kind,
              index > 0 || desc.accumulate};
    if (epilogue) {
      int64_t place = *epilogue == HEDDLE_RT_EPILOGUE_B_SUMS ? offsets.bias : 0;
      call.extra = const_cast<void *>(offset(extra, place, desc.c_type));
      call.bias = bias;
    } else if (isNarrowSum) {
      call.kind = Kind::Sum;
      call.c = reinterpret_cast<void *>(sum);
      call.accumulates = index > 0;
    } else if (addsBias && index == 0) {
      call.kind = Kind::Bias;
      call.bias = offset(bias, offsets.bias, desc.bias_type);
    }
    return issue(stream, desc, call);
  };
  auto matrix = [&](Offsets offsets, int64_t) -> Status {
    HEDDLE_RT_RETURN_IF_ERROR(forEachIteration(desc, offsets, isSum, product));
    auto *result = const_cast<void *>(offset(c, offsets.c, desc.c_type));
    const void *ownBias = offset(bias, offsets.bias, desc.bias_type);
    if (isNarrowSum)
      return finishSum(stream, desc, sum, result, ownBias);
    if (!bias || addsBias || epilogue)
      return Status::success();
    int64_t copies = batch >= 0 ? desc.loops[batch].extent : 1;
    for (int64_t copy = 0; copy < copies; ++copy) {
      int64_t place = batch >= 0 ? copy * desc.loops[batch].c_stride : 0;
      HEDDLE_RT_RETURN_IF_ERROR(addBias(
          stream, desc, const_cast<void *>(offset(result, place, desc.c_type)),
          ownBias));
    }
    return Status::success();
  };
  return forEachIteration(
      desc, {}, [&](int loop) { return loop != batch && !isSum(loop); },
      matrix);
}

} // namespace heddle::runtime::cuda
