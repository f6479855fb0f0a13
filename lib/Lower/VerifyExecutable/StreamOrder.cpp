//===- StreamOrder.cpp - Checks the order of calls on streams -------------===//
//
// Walks the program with vector clocks: each stream has a clock, which counts
// the calls of every stream that are over when this stream goes on. For each
// byte of memory, the walk keeps the last call that wrote it and, for each
// stream, the last call that has read it since. Earlier calls need no check:
// the last write is ordered behind them, or the walk has emitted an error.
//
//===----------------------------------------------------------------------===//

#include "StreamOrder.h"
#include "llvm/ADT/DenseMap.h"
#include <array>
#include <map>

using namespace mlir;
using namespace heddle;

namespace {
/// The execution of a call.
struct Moment {
  rt::DeviceCallOpInterface call;
  int32_t stream;
  uint32_t number; ///< among the calls of the stream, from 1
};

/// For each stream, the number of its calls that are over.
using Clock = std::array<uint32_t, kMaxStreams>;

/// The last uses of a run of bytes. The map that holds the segment has the
/// run's first byte as its key.
struct Segment {
  int64_t end; ///< behind the last byte
  std::optional<Moment> write;
  SmallVector<Moment, 1> reads; ///< since the write, at most one per stream
};

/// The uses of one memory.
class MemoryUses {
public:
  /// Records that `now` touches the bytes from `begin` to `end`. Returns an
  /// earlier use that is not ordered before `now`, and true if that use is a
  /// write. Returns nullopt if all earlier uses are ordered.
  std::optional<std::pair<Moment, bool>>
  use(int64_t begin, int64_t end, const Moment &now, bool writes,
      llvm::function_ref<bool(const Moment &)> isOver);

private:
  /// Splits the segment that contains the bytes before and behind `offset`.
  void splitAt(int64_t offset);

  std::map<int64_t, Segment> segments; ///< by first byte; do not overlap
};

class OrderChecker {
public:
  explicit OrderChecker(rt::ProgramOp program) : program(program) {
    // The program's start counts as the compute stream's first call.
    clocks[kComputeStream][kComputeStream] = 1;
  }

  LogicalResult run();

private:
  LogicalResult check(Block &block);
  LogicalResult check(rt::DeviceCallOpInterface call);
  LogicalResult checkLoop(rt::WhileOp loop);
  LogicalResult checkEnd();
  void waitForAll();

  MemoryUses &getUses(rt::BufferAttr buffer) {
    return memories[{static_cast<uint32_t>(buffer.getSpace()),
                     buffer.getSymbol(), buffer.getIndex()}];
  }

  rt::ProgramOp program;
  std::array<Clock, kMaxStreams> clocks = {};
  std::array<rt::DeviceCallOpInterface, kMaxStreams> lastCalls;
  DenseMap<int32_t, Clock> events;
  DenseMap<std::tuple<uint32_t, Attribute, int64_t>, MemoryUses> memories;
};
} // namespace

//===----------------------------------------------------------------------===//
// Uses of memory
//===----------------------------------------------------------------------===//

void MemoryUses::splitAt(int64_t offset) {
  auto next = segments.upper_bound(offset);
  if (next == segments.begin())
    return;
  auto &[begin, segment] = *std::prev(next);
  if (begin == offset || segment.end <= offset)
    return;
  segments.emplace_hint(next, offset, segment);
  segment.end = offset;
}

std::optional<std::pair<Moment, bool>>
MemoryUses::use(int64_t begin, int64_t end, const Moment &now, bool writes,
                llvm::function_ref<bool(const Moment &)> isOver) {
  if (begin >= end)
    return std::nullopt;
  splitAt(begin);
  splitAt(end);
  auto first = segments.lower_bound(begin), last = segments.lower_bound(end);
  for (auto it = first; it != last; ++it) {
    const Segment &segment = it->second;
    if (segment.write && !isOver(*segment.write))
      return std::pair(*segment.write, true);
    if (writes)
      for (const Moment &read : segment.reads)
        if (!isOver(read))
          return std::pair(read, false);
  }
  if (writes) {
    segments.erase(first, last);
    segments[begin] = {end, now, {}};
    return std::nullopt;
  }
  for (auto it = first; it != last; ++it) {
    // The bytes before the segment have no use yet.
    if (begin < it->first)
      segments.emplace_hint(it, begin, Segment{it->first, {}, {now}});
    begin = it->second.end;
    SmallVectorImpl<Moment> &reads = it->second.reads;
    auto *mine = llvm::find_if(
        reads, [&](const Moment &read) { return read.stream == now.stream; });
    if (mine != reads.end())
      *mine = now;
    else
      reads.push_back(now);
  }
  if (begin < end)
    segments.emplace_hint(last, begin, Segment{end, {}, {now}});
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// The walk
//===----------------------------------------------------------------------===//

/// Adds to `clock` the calls that are over according to `other`.
static void join(Clock &clock, const Clock &other) {
  for (auto [mine, theirs] : llvm::zip(clock, other))
    mine = std::max(mine, theirs);
}

/// Prints the memory of a buffer as "arena", "variable @w" or "result 1".
static void printMemory(InFlightDiagnostic &diag, rt::BufferAttr buffer) {
  diag << rt::stringifySpace(buffer.getSpace());
  if (buffer.getSymbol())
    diag << ' ' << buffer.getSymbol();
  else if (buffer.getSpace() != rt::Space::Arena)
    diag << ' ' << buffer.getIndex();
}

static LogicalResult emitRace(Moment now, rt::Access access, Moment before,
                              bool beforeWrites) {
  rt::BufferAttr buffer = access.buffer;
  Operation *op = now.call, *other = before.call;
  InFlightDiagnostic diag = op->emitOpError();
  diag << "expected events to order it behind '" << other->getName()
       << "': it is on stream " << now.stream << ", serves "
       << now.call.getServes() << " and "
       << (access.writes ? "writes" : "reads") << " bytes "
       << buffer.getOffset() << " to " << buffer.getOffset() + buffer.getBytes()
       << " of ";
  printMemory(diag, buffer);
  diag << "; the other is on stream " << before.stream << ", serves "
       << before.call.getServes() << " and "
       << (beforeWrites ? "writes" : "reads") << " some of them";
  diag.attachNote(other->getLoc()) << "the other call";
  return diag;
}

LogicalResult OrderChecker::check(rt::DeviceCallOpInterface call) {
  int32_t stream = call.getStream();
  Clock &clock = clocks[stream];
  if (clock[kComputeStream] == 0)
    return call->emitOpError()
           << "expected stream " << stream << " to wait for an event of stream "
           << kComputeStream
           << " first: what ran before the program may use its memory still";
  Moment now{call, stream, ++clock[stream]};
  lastCalls[stream] = call;
  auto isOver = [&](const Moment &before) {
    return clock[before.stream] >= before.number;
  };
  for (const rt::Access &access : call.getAccesses()) {
    if (access.buffer.getSpace() == rt::Space::Constant)
      continue;
    int64_t begin = access.buffer.getOffset();
    if (auto race = getUses(access.buffer)
                        .use(begin, begin + access.buffer.getBytes(), now,
                             access.writes, isOver))
      return emitRace(now, access, race->first, race->second);
  }
  return success();
}

void OrderChecker::waitForAll() {
  Clock all = {};
  for (const Clock &clock : clocks)
    join(all, clock);
  clocks.fill(all);
  memories.clear();
}

LogicalResult OrderChecker::checkLoop(rt::WhileOp loop) {
  // The host waits for all streams after each run of `before`. So a use in one
  // pass of `after` and `before` can conflict only with uses in the same pass,
  // and an op behind the loop conflicts with no use in the loop.
  if (failed(check(loop.getBefore().front())))
    return failure();
  waitForAll();
  if (failed(check(loop.getAfter().front())) ||
      failed(check(loop.getBefore().front())))
    return failure();
  waitForAll();
  return success();
}

LogicalResult OrderChecker::check(Block &block) {
  for (Operation &op : block) {
    if (auto call = dyn_cast<rt::DeviceCallOpInterface>(op)) {
      if (failed(check(call)))
        return failure();
    } else if (auto record = dyn_cast<rt::RecordOp>(op)) {
      events[record.getEvent()] = clocks[record.getStream()];
    } else if (auto wait = dyn_cast<rt::WaitOp>(op)) {
      join(clocks[wait.getStream()], events[wait.getEvent()]);
    } else if (auto loop = dyn_cast<rt::WhileOp>(op)) {
      if (failed(checkLoop(loop)))
        return failure();
    }
  }
  return success();
}

LogicalResult OrderChecker::checkEnd() {
  const Clock &end = clocks[kComputeStream];
  for (int32_t stream = 0; stream < kMaxStreams; ++stream) {
    rt::DeviceCallOpInterface last = lastCalls[stream];
    if (!last || end[stream] == clocks[stream][stream])
      continue;
    return last->emitOpError()
           << "expected stream " << kComputeStream
           << " to wait for it before the program ends: it is on stream "
           << stream << " and serves " << last.getServes();
  }
  return success();
}

LogicalResult OrderChecker::run() {
  return success(succeeded(check(program.getBody().front())) &&
                 succeeded(checkEnd()));
}

LogicalResult heddle::verifyStreamOrder(rt::ProgramOp program) {
  return OrderChecker(program).run();
}
