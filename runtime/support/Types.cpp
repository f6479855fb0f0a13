//===- Types.cpp - Names and sizes of the enumerations --------------------===//

#include "heddle_rt/manifest.h"
#include "heddle_rt/session.h"

namespace heddle::runtime {

namespace {
struct DTypeEntry {
  DType type;
  std::string_view name;
  size_t bytes;
};
constexpr DTypeEntry dtypes[] = {
    {HEDDLE_RT_F32, "f32", 4}, {HEDDLE_RT_BF16, "bf16", 2},
    {HEDDLE_RT_F16, "f16", 2}, {HEDDLE_RT_F64, "f64", 8},
    {HEDDLE_RT_I1, "i1", 1},   {HEDDLE_RT_I8, "i8", 1},
    {HEDDLE_RT_I32, "i32", 4}, {HEDDLE_RT_I64, "i64", 8},
};
} // namespace

size_t byteSize(DType type) {
  for (const DTypeEntry &entry : dtypes)
    if (entry.type == type)
      return entry.bytes;
  return 0;
}

std::string_view name(DType type) {
  for (const DTypeEntry &entry : dtypes)
    if (entry.type == type)
      return entry.name;
  return "unknown";
}

std::optional<DType> parseDType(std::string_view name) {
  for (const DTypeEntry &entry : dtypes)
    if (entry.name == name)
      return entry.type;
  return std::nullopt;
}

std::string_view name(WorkKind kind) {
  switch (kind) {
  case WorkKind::Matmul:
    return "matmul";
  case WorkKind::Attention:
    return "attention";
  case WorkKind::Kernel:
    return "kernel";
  case WorkKind::Collective:
    return "collective";
  case WorkKind::Copy:
    return "copy";
  }
  return "unknown";
}

} // namespace heddle::runtime
