//===- WholeTensors.cpp - Tensors whose slices are variables --------------===//
//
// Accesses a tensor whose slices are variables. Example: dimension 1 of a
// tensor [2, 8, 3] is cut into slices of 5 and 3 rows. Elements 0..14 of the
// tensor are elements 0..14 of the first slice, 15..23 are elements 0..8 of the
// second, 24..38 are elements 15..29 of the first, and so on.
//
//===----------------------------------------------------------------------===//

#include "heddle_rt/session.h"
#include "support/Message.h"

#include <algorithm>

namespace heddle::runtime {

/// Cuts the elements [first, first + count) into runs that lie in one slice.
/// Calls body(variable, first element in the variable, count, position in the
/// range) for each run.
template <typename Body>
static Status forEachRun(const Manifest &manifest, const WholeTensor &tensor,
                         int64_t first, int64_t count, Body &&body) {
  if (tensor.parts.size() == 1)
    return body(tensor.parts.front(), first, count, int64_t(0));
  size_t dim = size_t(tensor.dim);
  int64_t inner = 1;
  for (size_t i = dim + 1; i < tensor.shape.size(); ++i)
    inner *= tensor.shape[i];
  int64_t rows = tensor.shape[dim];
  for (int64_t position = first, end = first + count; position < end;) {
    int64_t outer = position / (rows * inner);
    int64_t row = position / inner % rows;
    auto part = std::partition_point(
        tensor.parts.begin(), tensor.parts.end(), [&](size_t variable) {
          const VariableInfo &info = manifest.variables[variable];
          return info.slice->offset + info.shape[dim] <= row;
        });
    const VariableInfo &info = manifest.variables[*part];
    int64_t own = info.shape[dim];
    int64_t begin = (outer * rows + info.slice->offset) * inner;
    int64_t length = std::min(end, begin + own * inner) - position;
    HEDDLE_RT_RETURN_IF_ERROR(body(*part,
                                   outer * own * inner + position - begin,
                                   length, position - first));
    position += length;
  }
  return Status::success();
}

static Status check(const Manifest &manifest, size_t index, int64_t first,
                    int64_t count, size_t bytes) {
  if (index >= manifest.tensors.size())
    return errorOf("expected a tensor below ", manifest.tensors.size(),
                   ", got ", index);
  const WholeTensor &tensor = manifest.tensors[index];
  int64_t elements = tensor.elements();
  if (first < 0 || count < 0 || first > elements || count > elements - first)
    return errorOf(tensor.name, ": expected elements within [0, ", elements,
                   "), got ", count, " from ", first);
  size_t expected = size_t(count) * byteSize(tensor.type);
  if (bytes != expected)
    return errorOf(tensor.name, ": expected a host buffer of ", expected,
                   " bytes, got ", bytes);
  return Status::success();
}

Status Session::readTensor(size_t index, int64_t first, int64_t count,
                           Bytes to) const {
  HEDDLE_RT_RETURN_IF_ERROR(check(manifest(), index, first, count, to.size()));
  const WholeTensor &tensor = manifest().tensors[index];
  size_t bytes = byteSize(tensor.type);
  return forEachRun(
      manifest(), tensor, first, count,
      [&](size_t variable, int64_t own, int64_t length, int64_t position) {
        return readElements(
            variable, own, length,
            to.subspan(size_t(position) * bytes, size_t(length) * bytes));
      });
}

Status Session::writeTensor(size_t index, int64_t first, int64_t count,
                            ConstBytes from) {
  HEDDLE_RT_RETURN_IF_ERROR(
      check(manifest(), index, first, count, from.size()));
  const WholeTensor &tensor = manifest().tensors[index];
  size_t bytes = byteSize(tensor.type);
  return forEachRun(
      manifest(), tensor, first, count,
      [&](size_t variable, int64_t own, int64_t length, int64_t position) {
        return writeElements(
            variable, own, length,
            from.subspan(size_t(position) * bytes, size_t(length) * bytes));
      });
}

} // namespace heddle::runtime
