//===- StagedSums.cpp - Sums of what other processes send -----------------===//

#include "backends/cpu/communicators/StagedSums.h"
#include "backends/cpu/communicators/Reduce.h"
#include "backends/cpu/threads/ThreadPool.h"
#include "heddle_rt/staging.h"
#include "support/Message.h"

#include <cstring>

namespace heddle::runtime {

Status StagedSums::check(const Collective &call, int64_t members) const {
  auto width = int64_t(byteSize(call.type));
  int64_t inputBytes = call.count * width;
  int64_t least =
      call.kind == Collective::Kind::AllReduce && inputBytes <= wholeInputBytes
          ? stagingOfWholeInputs(members, inputBytes)
          : stagingOfSlice(members, pieceUnit);
  if (bytes >= least)
    return Status::success();
  return errorOf(name(call.kind), ": expected at least ", least,
                 " bytes of staging in the manifest, got ", bytes,
                 " (compile the model again)");
}

Status StagedSums::sumSlice(ProcessGroup &group, const Collective &call,
                            const Slices &slices, void *to, Messages &sends) {
  auto width = int64_t(byteSize(call.type));
  int64_t first = slices.begin[size_t(group.member())];
  int64_t count = slices.count[size_t(group.member())];
  int64_t pieceBytes = group.size() == 1 ? std::max(count, int64_t(1)) * width
                                         : pieceOfStaging(group.size(), bytes);
  int64_t piece = pieceBytes / width;
  auto *in = static_cast<const char *>(call.in);
  for (int32_t other : group.remote())
    for (int64_t done = 0, all = slices.count[size_t(other)]; done < all;
         done += piece)
      group.post(sends, other,
                 in + (slices.begin[size_t(other)] + done) * width,
                 std::min(piece, all - done) * width);

  // There are two sets of pieces: one is summed while the other arrives.
  auto placeOf = [&](int64_t done, size_t remote) {
    size_t set = size_t(done / piece % 2) * group.remote().size();
    return memory.get() + int64_t(set + remote) * pieceBytes;
  };
  std::array<Messages, 2> receives;
  auto expectPiece = [&](int64_t done) {
    for (size_t i = 0; i < group.remote().size(); ++i)
      group.expect(receives[size_t(done / piece % 2)], group.remote()[i],
                   placeOf(done, i), std::min(piece, count - done) * width);
  };
  std::vector<const void *> ins(size_t(group.size()));
  expectPiece(0);
  for (int64_t done = 0; done < count; done += piece) {
    if (done + piece < count)
      expectPiece(done + piece);
    HEDDLE_RT_RETURN_IF_ERROR(
        group.waitForAll(receives[size_t(done / piece % 2)]));
    for (size_t i = 0; i < group.remote().size(); ++i)
      ins[size_t(group.remote()[i])] = placeOf(done, i);
    for (int32_t i = 0; i < group.size(); ++i)
      if (group.isLocal(i))
        ins[size_t(i)] = group.inOf(i) + (first + done) * width;
    void *sum = static_cast<char *>(to) + done * width;
    pool.forRanges(std::min(piece, count - done), grainBytes / width,
                   [&](int64_t from, int64_t until) {
                     reduceInto(call.reduction, call.type, ins, from, {&sum, 1},
                                from, until - from);
                   });
  }
  return Status::success();
}

Status StagedSums::sumWhole(ProcessGroup &group, const Collective &call) {
  auto inputBytes = call.count * int64_t(byteSize(call.type));
  auto placeOf = [&](int64_t member) {
    return memory.get() + member * inputBytes;
  };
  Messages receives, sends;
  for (int32_t other : group.remote()) {
    group.expect(receives, other, placeOf(other), inputBytes);
    group.post(sends, other, call.in, inputBytes);
  }
  HEDDLE_RT_RETURN_IF_ERROR(group.waitForAll(receives));
  std::vector<const void *> ins;
  for (int32_t i = 0; i < group.size(); ++i)
    ins.push_back(group.isLocal(i) ? static_cast<const void *>(group.inOf(i))
                                   : placeOf(i));
  void *sum = placeOf(group.size());
  reduceInto(call.reduction, call.type, ins, 0, {&sum, 1}, 0, call.count);
  // The output may be the input that others still read.
  HEDDLE_RT_RETURN_IF_ERROR(group.end(sends));
  std::memcpy(call.out, sum, size_t(inputBytes));
  return Status::success();
}

} // namespace heddle::runtime
