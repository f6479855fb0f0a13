//===- InnerAttention.h - Tiles of attention --------------------*- C++ -*-===//
//
// Part of IsaBuild.h, which explains it. Shared by the forward and the backward
// pass.
//
//===----------------------------------------------------------------------===//

namespace heddle::runtime {
namespace HEDDLE_RT_ISA {

constexpr int64_t tileEdge = attentionTile;
constexpr float log2e = 1.44269504088896340736f;
constexpr float ln2 = 0.693147180559945309417f;

static inline const void *elementAt(const void *base, int32_t type,
                                    int64_t offset) {
  return static_cast<const char *>(base) +
         offset * (type == HEDDLE_RT_F32 ? 4 : 2);
}
static inline void *elementAt(void *base, int32_t type, int64_t offset) {
  return static_cast<char *>(base) + offset * (type == HEDDLE_RT_F32 ? 4 : 2);
}

/// Loads rows into a dense tile whose rows have padded(columns) elements: to[i,
/// j] = scale * from[i * rowStride + j], and zero for j >= columns.
static void loadRows(const void *from, int32_t type, int64_t rowStride,
                     int64_t rows, int64_t columns, float scale, float *to) {
  int64_t width = padded(columns);
  for (int64_t i = 0; i < rows; ++i) {
    const void *row = elementAt(from, type, i * rowStride);
    float *target = to + i * width;
    if (type == HEDDLE_RT_F32) {
      auto *values = static_cast<const float *>(row);
      for (int64_t j = 0; j < columns; ++j)
        target[j] = values[j] * scale;
    } else {
      auto *values = static_cast<const uint16_t *>(row);
      for (int64_t j = 0; j < columns; ++j)
        target[j] =
            __builtin_bit_cast(float, uint32_t(values[j]) << 16) * scale;
    }
    for (int64_t j = columns; j < width; ++j)
      target[j] = 0;
  }
}

/// Stores rows of such a tile, rounded to `type`: to[i * rowStride + j] = scale
/// * from[i, j] for j < columns.
static void storeRows(const float *from, int64_t rows, int64_t columns,
                      float scale, void *to, int32_t type, int64_t rowStride) {
  int64_t width = padded(columns);
  for (int64_t i = 0; i < rows; ++i) {
    void *row = elementAt(to, type, i * rowStride);
    const float *source = from + i * width;
    if (type == HEDDLE_RT_F32) {
      auto *values = static_cast<float *>(row);
      for (int64_t j = 0; j < columns; ++j)
        values[j] = source[j] * scale;
    } else {
      float scaled[64];
      for (int64_t begin = 0; begin < columns; begin += 64) {
        int64_t count = minimum(64, columns - begin);
        for (int64_t j = 0; j < count; ++j)
          scaled[j] = source[begin + j] * scale;
        f32ToBf16(scaled, static_cast<uint16_t *>(row) + begin, count);
      }
    }
  }
}

typedef float Four __attribute__((vector_size(16)));
typedef float FourAt __attribute__((vector_size(16), aligned(4), may_alias));

/// Transposes a tile: to[j * tileEdge + i] = from[i * width + j]. Columns i in
/// [rows, padded(rows)) of `to` become zero. `width` is a multiple of 4.
static void transposeTile(const float *from, int64_t rows, int64_t width,
                          float *to) {
  int64_t whole = rows / 4 * 4;
  for (int64_t i = 0; i < whole; i += 4)
    for (int64_t j = 0; j < width; j += 4) {
      Four a = *reinterpret_cast<const FourAt *>(from + i * width + j);
      Four b = *reinterpret_cast<const FourAt *>(from + (i + 1) * width + j);
      Four c = *reinterpret_cast<const FourAt *>(from + (i + 2) * width + j);
      Four d = *reinterpret_cast<const FourAt *>(from + (i + 3) * width + j);
      Four ab0 = __builtin_shufflevector(a, b, 0, 4, 1, 5);
      Four ab1 = __builtin_shufflevector(a, b, 2, 6, 3, 7);
      Four cd0 = __builtin_shufflevector(c, d, 0, 4, 1, 5);
      Four cd1 = __builtin_shufflevector(c, d, 2, 6, 3, 7);
      float *column = to + j * tileEdge + i;
      *reinterpret_cast<FourAt *>(column) =
          __builtin_shufflevector(ab0, cd0, 0, 1, 4, 5);
      *reinterpret_cast<FourAt *>(column + tileEdge) =
          __builtin_shufflevector(ab0, cd0, 2, 3, 6, 7);
      *reinterpret_cast<FourAt *>(column + 2 * tileEdge) =
          __builtin_shufflevector(ab1, cd1, 0, 1, 4, 5);
      *reinterpret_cast<FourAt *>(column + 3 * tileEdge) =
          __builtin_shufflevector(ab1, cd1, 2, 3, 6, 7);
    }
  for (int64_t j = 0; j < width; ++j)
    for (int64_t i = whole; i < padded(rows); ++i)
      to[j * tileEdge + i] = i < rows ? from[i * width + j] : 0;
}

/// How far from its own position a query sees keys, because of causality and
/// the window. Half of the range of int64_t means no limit: it exceeds every
/// distance, and positions can be added to it without overflow.
struct Reach {
  explicit Reach(const heddle_rt_attention_desc &d)
      : before(d.window > 0 ? d.window - 1 : INT64_MAX / 2),
        after(d.causal ? 0 : before) {}
  int64_t before, after;
};

/// The keys (columns) of a tile that its rows (queries) see: row i sees the
/// columns from begin(i) to end(i), except for those that the caller's mask
/// hides.
struct TileMask {
  int64_t columns;  ///< columns that are keys, not padding
  int64_t diagonal; ///< row i has the position of column i + diagonal
  Reach reach;
  int64_t begin(int64_t row) const {
    return minimum(columns, maximum(0, row + diagonal - reach.before));
  }
  int64_t end(int64_t row) const {
    return minimum(columns, maximum(0, row + diagonal + reach.after + 1));
  }
  /// Returns true if no row of [0, rows) sees a column.
  bool isEmpty(int64_t rows) const {
    return end(rows - 1) == 0 || begin(0) == columns;
  }
  /// Returns true if no score of rows [0, rows) must be masked: there is no
  /// padding, and the first and the last row see all columns.
  bool isFull(int64_t rows) const {
    return rows > 0 && end(0) == padded(columns) && begin(rows - 1) == 0;
  }
};

/// A number of the caller's mask that is at most this hides the key.
constexpr float hidingAddend = -1e30f;

/// Applies the caller's mask to the scores of one tile of one head, which are
/// in units of log2(e): queries from `query` and keys from `key` on.
static void applyMask(const AttentionCall &call, float *scores, int64_t batch,
                      int64_t group, int64_t member, int64_t query,
                      int64_t rows, int64_t key, int64_t columns) {
  const heddle_rt_attention_desc &d = *call.desc;
  if (d.mask_kind == HEDDLE_RT_MASK_NONE)
    return;
  int64_t first = batch * d.mask_batch_stride + group * d.mask_group_stride +
                  member * d.mask_head_stride +
                  (key + call.offsets.key) * d.mask_key_stride;
  for (int64_t i = 0; i < rows; ++i) {
    float *row = scores + i * tileEdge;
    int64_t at = first + (query + i) * d.mask_row_stride;
    if (d.mask_kind == HEDDLE_RT_MASK_SEEN) {
      auto *seen = static_cast<const uint8_t *>(call.mask) + at;
      for (int64_t j = 0; j < columns; ++j)
        row[j] = seen[j * d.mask_key_stride] ? row[j] : minusInfinity;
    } else {
      auto *added = static_cast<const float *>(call.mask) + at;
      for (int64_t j = 0; j < columns; ++j) {
        float x = added[j * d.mask_key_stride];
        row[j] = x <= hidingAddend ? minusInfinity : row[j] + x * log2e;
      }
    }
  }
}

/// Sets the scores of keys that a row does not see to -infinity.
static void maskScores(float *scores, int64_t rows, const TileMask &mask) {
  int64_t width = padded(mask.columns);
  for (int64_t i = 0; i < rows; ++i) {
    for (int64_t j = 0; j < mask.begin(i); ++j)
      scores[i * tileEdge + j] = minusInfinity;
    for (int64_t j = mask.end(i); j < width; ++j)
      scores[i * tileEdge + j] = minusInfinity;
  }
}

/// Dropout of probabilities: Philox4x32-10, as heddle_rt/abi.h defines it.
class Dropout {
public:
  Dropout(const AttentionCall &call)
      : desc(*call.desc), offsets(call.offsets), step(call.step),
        threshold(uint64_t(double(desc.dropout) * 4294967296.0)),
        keep(1.0f / (1.0f - desc.dropout)) {}

  bool isNone() const { return desc.dropout == 0; }

  /// Fills factors[i * tileEdge + j] with 0 or 1 / (1 - p) for one tile of one
  /// head: queries from `query` and keys from `key` on. All indices are local
  /// to the device.
  void fill(int64_t batch, int64_t group, int64_t member, int64_t query,
            int64_t rows, int64_t key, int64_t columns, float *factors) const {
    uint64_t head =
        (uint64_t(batch + offsets.batch) * uint64_t(desc.global_groups) +
         uint64_t(group + offsets.group)) *
            uint64_t(desc.global_group_size) +
        uint64_t(member + offsets.group_member);
    uint32_t words[tileEdge + 4 * lanes + 4];
    for (int64_t i = 0; i < rows; ++i) {
      uint64_t first = (head * uint64_t(desc.global_queries) +
                        uint64_t(query + i + offsets.query)) *
                           uint64_t(desc.global_keys) +
                       uint64_t(key + offsets.key);
      int64_t skip = int64_t(first % 4);
      int64_t blocks = (skip + columns + 3) / 4;
      for (int64_t block = 0; block < blocks; block += lanes)
        draw(first / 4 + uint64_t(block), words + 4 * block);
      for (int64_t j = 0; j < columns; ++j)
        factors[i * tileEdge + j] = words[skip + j] < threshold ? 0.0f : keep;
    }
  }

private:
  /// Computes the random words of the Philox blocks first .. first + lanes - 1.
  void draw(uint64_t first, uint32_t *words) const {
    uint32_t x0[lanes], x1[lanes], x2[lanes], x3[lanes];
    for (int64_t i = 0; i < lanes; ++i) {
      x0[i] = uint32_t(first + uint64_t(i));
      x1[i] = uint32_t((first + uint64_t(i)) >> 32);
      x2[i] = step;
      x3[i] = desc.op_id;
    }
    uint32_t key0 = uint32_t(desc.seed), key1 = uint32_t(desc.seed >> 32);
    for (int round = 0; round < 10; ++round) {
      for (int64_t i = 0; i < lanes; ++i) {
        uint64_t p0 = uint64_t(0xD2511F53u) * x0[i];
        uint64_t p1 = uint64_t(0xCD9E8D57u) * x2[i];
        x0[i] = uint32_t(p1 >> 32) ^ x1[i] ^ key0;
        x1[i] = uint32_t(p1);
        x2[i] = uint32_t(p0 >> 32) ^ x3[i] ^ key1;
        x3[i] = uint32_t(p0);
      }
      key0 += 0x9E3779B9u;
      key1 += 0xBB67AE85u;
    }
    for (int64_t i = 0; i < lanes; ++i) {
      words[4 * i] = x0[i];
      words[4 * i + 1] = x1[i];
      words[4 * i + 2] = x2[i];
      words[4 * i + 3] = x3[i];
    }
  }

  const heddle_rt_attention_desc &desc;
  const heddle_rt_attention_offsets &offsets;
  uint32_t step;
  uint64_t threshold;
  float keep;
};

/// Hands out pieces of a core's scratch, each on a cache line. If `base` is
/// null, only counts their bytes.
class Scratch {
public:
  explicit Scratch(void *base) : base(static_cast<char *>(base)) {}
  float *take(int64_t count) {
    char *part = base ? base + used : nullptr;
    used += (count * 4 + 63) / 64 * 64;
    return reinterpret_cast<float *>(part);
  }
  int64_t bytes() const { return used; }

private:
  char *base;
  int64_t used = 0;
};

/// Returns the number of the device's keys that lie within the global keys.
static int64_t existingKeys(const AttentionCall &call) {
  const heddle_rt_attention_desc &d = *call.desc;
  return minimum(d.keys, maximum(0, d.global_keys - call.offsets.key));
}

/// Returns the number of keys that at least one query below `queries` sees.
static int64_t visibleKeys(const AttentionCall &call, int64_t queries) {
  int64_t last = queries - 1 + call.offsets.query - call.offsets.key;
  return minimum(existingKeys(call),
                 maximum(0, last + Reach(*call.desc).after + 1));
}

/// Returns the first key of the first tile of keys in which `query` or a later
/// query sees a key.
static int64_t firstVisibleTile(const AttentionCall &call, int64_t query) {
  int64_t first = query + call.offsets.query - call.offsets.key;
  return maximum(0, first - Reach(*call.desc).before) / tileEdge * tileEdge;
}

} // namespace HEDDLE_RT_ISA
} // namespace heddle::runtime
