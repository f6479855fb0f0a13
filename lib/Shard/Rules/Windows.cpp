//===- Windows.cpp - Rows of neighbours -----------------------------------===//

#include "Windows.h"
#include "ZeroRows.h"
#include "heddle/Support/Rows.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;
using namespace heddle;

namespace {

/// Rows [begin, end) of a part, which devices need from another device. Device
/// k needs the rows from device sources[k]; -1 means that it needs none.
struct Piece {
  int64_t begin, end;
  SmallVector<int64_t> sources;
  int64_t distance = 0; ///< of each source from device k, set by findPieces

  Piece(int64_t part, int64_t devices)
      : begin(part), end(0), sources(devices, -1) {}

  /// Adds the rows of the part of `source` that device k's window contains.
  /// Returns false if there are none.
  bool add(int64_t k, int64_t source, const Window &window, int64_t size,
           int64_t part) {
    int64_t first = window.first + k * window.step;
    int64_t from = std::max<int64_t>({first, source * part, 0});
    int64_t to = std::min({first + window.length, (source + 1) * part, size});
    if (from >= to)
      return false;
    begin = std::min(begin, from - source * part);
    end = std::max(end, to - source * part);
    sources[k] = source;
    return true;
  }
};

/// Returns a piece for each distance between devices from which any device
/// needs rows. No device reads the rows between two pieces.
SmallVector<Piece> findPieces(const Window &window, int64_t size, int64_t part,
                              int64_t devices) {
  SmallVector<Piece> pieces;
  for (int64_t distance = 1 - devices; distance < devices; ++distance) {
    Piece piece(part, devices);
    piece.distance = distance;
    for (int64_t k = std::max<int64_t>(0, -distance);
         k < std::min(devices, devices - distance); ++k)
      piece.add(k, k + distance, window, size, part);
    if (piece.begin < piece.end)
      pieces.push_back(piece);
  }
  // Extends the device's own piece to its neighbours' pieces. Its own rows cost
  // nothing and save zeros between the pieces.
  for (size_t i = 0; i < pieces.size(); ++i)
    if (pieces[i].distance == 0) {
      if (i != 0)
        pieces[i].begin = 0;
      if (i + 1 != pieces.size())
        pieces[i].end = part;
    }
  return pieces;
}

/// Returns the first part that contains rows of device k's window.
int64_t getFirstPart(const Window &window, int64_t k, int64_t part) {
  return std::max<int64_t>(window.first + k * window.step, 0) / part;
}

/// Returns one piece for each position in the list of parts that a device
/// reads. Piece 0 has the rows of the first part that each device reads, piece
/// 1 those of the second part, and so on.
SmallVector<Piece> findRounds(const Window &window, int64_t size, int64_t part,
                              int64_t devices) {
  SmallVector<Piece> rounds;
  for (int64_t k = 0; k < devices && part > 0; ++k) {
    int64_t first = getFirstPart(window, k, part);
    for (int64_t source = first; source < devices; ++source) {
      Piece piece(part, devices);
      if (!piece.add(k, source, window, size, part))
        break;
      if (source - first == int64_t(rounds.size()))
        rounds.emplace_back(part, devices);
      rounds[source - first].add(k, source, window, size, part);
    }
  }
  return rounds;
}

} // namespace

static Value zeros(OpBuilder &builder, Location loc, RankedTensorType type,
                   int64_t dim, int64_t length) {
  SmallVector<int64_t> shape(type.getShape());
  shape[dim] = length;
  return makeZeros(builder, loc, type.clone(shape));
}

/// Returns the rows of the piece, on each device that needs them.
static Value fetchPiece(const Piece &piece, Value local, int64_t dim,
                        Localizer &localizer, unsigned factor) {
  Value rows = local;
  if (piece.end - piece.begin !=
      cast<RankedTensorType>(local.getType()).getDimSize(dim))
    rows = extractRows(localizer.builder, local.getLoc(), local, dim,
                       localizer.builder.getIndexAttr(piece.begin),
                       piece.end - piece.begin);
  for (auto [k, source] : llvm::enumerate(piece.sources))
    if (source >= 0 && source != int64_t(k))
      return localizer.permute(rows, piece.sources, factor);
  return rows;
}

/// Fetches the parts that each device reads, joins them, and cuts the device's
/// window out. Used if windows lie far from the devices' own parts: then each
/// device reads few parts, but the distances are many.
static Value fetchRounds(ArrayRef<Piece> rounds, Value local, int64_t dim,
                         const Window &window, Localizer &localizer,
                         unsigned factor) {
  OpBuilder &builder = localizer.builder;
  Location loc = local.getLoc();
  auto type = cast<RankedTensorType>(local.getType());
  int64_t part = type.getDimSize(dim), rows = rounds.size() * part;
  // [low, high): the places of all devices' windows in their joined parts. A
  // window without rows may begin before the joined parts, by at most its
  // length.
  int64_t low = 0, high = rows;
  for (int64_t k = 0; k < localizer.getDegree(factor); ++k) {
    int64_t begin =
        window.first + k * window.step - getFirstPart(window, k, part) * part;
    begin = std::max(begin, -window.length);
    low = std::min(low, begin);
    high = std::max(high, begin + window.length);
  }
  SmallVector<Value> parts;
  auto addZeros = [&](int64_t length) {
    if (length > 0)
      parts.push_back(zeros(builder, loc, type, dim, length));
  };
  addZeros(-low);
  for (const Piece &round : rounds) {
    addZeros(round.begin);
    parts.push_back(fetchPiece(round, local, dim, localizer, factor));
    addZeros(part - round.end);
  }
  addZeros(high - rows);
  Value joined = parts[0];
  if (parts.size() > 1)
    joined = builder.create<tensor::ConcatOp>(loc, dim, parts);

  auto constant = [&](int64_t value) -> Value {
    return builder.create<arith::ConstantIndexOp>(loc, value);
  };
  Value first = builder.create<arith::AddIOp>(
      loc,
      builder.create<arith::MulIOp>(loc, localizer.getIndex(factor),
                                    constant(window.step)),
      constant(window.first));
  Value known = builder.create<arith::MaxSIOp>(loc, first, constant(0));
  Value begin = builder.create<arith::SubIOp>(
      loc, first,
      builder.create<arith::SubIOp>(
          loc, known,
          builder.create<arith::RemUIOp>(loc, known, constant(part))));
  begin = builder.create<arith::MaxSIOp>(loc, begin, constant(-window.length));
  begin = builder.create<arith::SubIOp>(loc, begin, constant(low));
  return extractRows(builder, loc, joined, dim, begin, window.length);
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
  SmallVector<Piece> rounds = findRounds(window, size, part, devices);
  auto isOfOthers = [](const Piece &piece) { return piece.distance != 0; };
  if (!rounds.empty() &&
      int64_t(rounds.size()) < llvm::count_if(pieces, isOfOthers))
    return fetchRounds(rounds, local, dim, window, localizer, factor);

  // From here, row 0 is the first row of the device's own part.
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
    // The device's own piece may have been extended beyond the rows that any
    // device reads.
    int64_t from = std::max(begin, low), to = std::min(end, high);
    if (from >= to)
      continue;
    addZerosUpTo(from);
    Piece needed = piece;
    needed.begin = from - piece.distance * part;
    needed.end = to - piece.distance * part;
    Value rows = fetchPiece(needed, local, dim, localizer, factor);
    parts.push_back(rows);
    at = to;
  }
  addZerosUpTo(high);
  if (parts.empty()) // the tensor has no elements
    return zeros(builder, loc, type, dim, 0);

  Value joined = parts[0];
  if (parts.size() > 1)
    joined = builder.create<tensor::ConcatOp>(loc, dim, parts);
  if (high - low == window.length)
    return joined;
  // The device's window begins at first + k * (step - part), counted from
  // `low`.
  Value offset = builder.create<arith::AddIOp>(
      loc,
      builder.create<arith::MulIOp>(
          loc, localizer.getIndex(factor),
          builder.create<arith::ConstantIndexOp>(loc, window.step - part)),
      builder.create<arith::ConstantIndexOp>(loc, window.first - low));
  return extractRows(builder, joined.getLoc(), joined, dim, offset,
                     window.length);
}
