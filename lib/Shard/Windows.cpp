//===- Windows.cpp - Rows of neighbours -----------------------------------===//

#include "Windows.h"
#include "heddle/Support/Rows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

namespace {

/// Rows [begin, end) of the part of the device at a distance.
struct Piece {
  int64_t distance;
  int64_t begin, end;
};

/// What some device needs from each distance. What lies between two pieces is
/// read by nobody.
SmallVector<Piece> findPieces(const Window &window, int64_t size, int64_t part,
                              int64_t devices) {
  SmallVector<Piece> pieces;
  for (int64_t distance = 1 - devices; distance < devices; ++distance) {
    Piece piece{distance, part, 0};
    for (int64_t k = 0; k < devices; ++k) {
      int64_t source = k + distance;
      if (source < 0 || source >= devices)
        continue;
      int64_t first = window.first + k * window.step;
      int64_t begin = std::max<int64_t>({first, source * part, 0});
      int64_t end =
          std::min({first + window.length, (source + 1) * part, size});
      if (begin >= end)
        continue;
      piece.begin = std::min(piece.begin, begin - source * part);
      piece.end = std::max(piece.end, end - source * part);
    }
    if (piece.begin < piece.end)
      pieces.push_back(piece);
  }
  // A device's own rows cost nothing, and pieces that join need no zeros.
  for (size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i].distance == 0) {
      if (i != 0)
        pieces[i].begin = 0;
      if (i + 1 != pieces.size())
        pieces[i].end = part;
    }
  return pieces;
}

} // namespace

static Value zeros(OpBuilder &builder, Location loc, RankedTensorType type,
                   int64_t dim, int64_t length) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = length;
  return builder.create<arith::ConstantOp>(
      loc, builder.getZeroAttr(type.clone(shape)));
}

Value heddle::fetchWindow(Value local, int64_t dim, int64_t size,
                          const Window &window, Localizer &localizer,
                          unsigned factor) {
  OpBuilder &builder = localizer.builder;
  Location loc = local.getLoc();
  auto type = cast<RankedTensorType>(local.getType());
  int64_t part = type.getDimSize(dim);
  int64_t devices = localizer.getDegree(factor);

  SmallVector<Piece> pieces = findPieces(window, size, part, devices);
  // Rows are counted from the device's own first one.
  int64_t low = 0, high = 0;
  for (int64_t k = 0; k < devices; ++k) {
    int64_t first = window.first + k * (window.step - part);
    low = k ? std::min(low, first) : first;
    high = k ? std::max(high, first + window.length) : first + window.length;
  }

  SmallVector<Value> parts;
  int64_t at = low;
  auto addZerosUpTo = [&](int64_t row) {
    if (row > at)
      parts.push_back(zeros(builder, loc, type, dim, row - at));
    at = std::max(at, row);
  };
  for (const Piece &piece : pieces) {
    int64_t begin = piece.distance * part + piece.begin;
    int64_t end = piece.distance * part + piece.end;
    // A whole part of one's own may reach beyond what any device reads.
    int64_t from = std::max(begin, low), to = std::min(end, high);
    if (from >= to)
      continue;
    addZerosUpTo(from);
    Value rows = local;
    if (to - from != part)
      rows = extractRows(builder, local.getLoc(), local, dim,
                         builder.getIndexAttr(from - piece.distance * part),
                         to - from);
    if (piece.distance != 0) {
      SmallVector<int64_t> sources;
      for (int64_t k = 0; k < devices; ++k) {
        int64_t source = k + piece.distance;
        sources.push_back(source < 0 || source >= devices ? -1 : source);
      }
      rows = localizer.permute(rows, sources, factor);
    }
    parts.push_back(rows);
    at = to;
  }
  addZerosUpTo(high);
  if (parts.empty()) // of a tensor without elements
    return zeros(builder, loc, type, dim, 0);

  Value joined = parts[0];
  if (parts.size() > 1)
    joined = builder.create<tensor::ConcatOp>(loc, dim, parts);
  if (high - low == window.length)
    return joined;
  // first + k * (step - part), from `low` on.
  Value offset = builder.create<arith::AddIOp>(
      loc,
      builder.create<arith::MulIOp>(
          loc, localizer.getIndex(factor),
          builder.create<arith::ConstantIndexOp>(loc, window.step - part)),
      builder.create<arith::ConstantIndexOp>(loc, window.first - low));
  return extractRows(builder, joined.getLoc(), joined, dim, offset,
                     window.length);
}
