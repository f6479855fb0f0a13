//===- Streams.cpp - The streams of one device ----------------------------===//

#include "backends/cpu/threads/Streams.h"
#include "backends/cpu/threads/CoreBinding.h"
#include "support/Message.h"

#include <algorithm>
#include <pthread.h>

namespace heddle::runtime {

Streams::Stream::Stream()
    : ring(static_cast<std::byte *>(
          ::operator new(ringBytes, std::align_val_t(64)))) {}

Streams::Streams(heddle_rt_device &device, int count, const StreamOrder &order,
                 bool spin)
    : device(device), streamOrder(order), spins(spin ? 1000 : 0),
      random(order.seed + uint64_t(device.rank)) {
  for (int stream = 0; stream < count; ++stream)
    streams.push_back(std::make_unique<Stream>());
  try {
    for (size_t stream = 0; stream < streams.size(); ++stream) {
      streams[stream]->thread = std::thread([this, stream] { serve(stream); });
      std::string name = concat("heddle ", device.rank, ".", stream);
      pthread_setname_np(streams[stream]->thread.native_handle(),
                         name.substr(0, 15).c_str());
    }
  } catch (...) { // the system refuses a thread
    join();
    throw;
  }
}

Streams::~Streams() { join(); }

void Streams::join() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
    settle();
    for (auto &stream : streams)
      stream->changed.notify_all();
  }
  for (auto &stream : streams)
    if (stream->thread.joinable())
      stream->thread.join();
}

//===----------------------------------------------------------------------===//
// The host
//===----------------------------------------------------------------------===//

Status Streams::check(int32_t stream) const {
  return stream >= 0 && size_t(stream) < streams.size()
             ? Status::success()
             : errorOf("stream ", stream, " does not exist: the device has ",
                       streams.size());
}

/// Returns true if the stream for which the host waits has a half of its ring
/// free, or if all streams are idle. With half a ring free, the host does not
/// wake for each call that ends.
bool Streams::mayHostGoOn() const {
  if (awaitedRoom)
    return awaitedRoom->end - awaitedRoom->begin <= ringBytes / 2;
  return std::all_of(streams.begin(), streams.end(), [](const auto &stream) {
    return stream->begin == stream->end;
  });
}

/// Waits until a stream has room, or until all are idle if `full` is null.
/// Meanwhile the host issues nothing, so an order other than Natural may choose
/// among the calls.
void Streams::waitAsHost(std::unique_lock<std::mutex> &lock,
                         const Stream *full) {
  awaitedRoom = full;
  hostWaits = true;
  settle();
  hostChanged.wait(lock, [&] { return mayHostGoOn(); });
  hostWaits = false;
}

/// Returns room for an entry behind the last one of the stream.
Expected<Streams::Entry *> Streams::reserve(int32_t number, size_t bytes) {
  HEDDLE_RT_RETURN_IF_ERROR(check(number));
  Stream &stream = *streams[size_t(number)];
  bytes = (bytes + alignof(Entry) - 1) / alignof(Entry) * alignof(Entry);
  if (bytes > ringBytes / 4)
    return errorOf("expected arguments of at most ", ringBytes / 4,
                   " bytes, got ", bytes);
  size_t rest = ringBytes - stream.written % ringBytes;
  size_t unused = rest < bytes ? rest : 0; // an entry lies in one piece
  {
    std::unique_lock lock(mutex);
    if (stream.written + unused + bytes - stream.begin > ringBytes)
      waitAsHost(lock, &stream);
  }
  if (unused) {
    Entry &filler = stream.at(stream.written);
    filler.run = nullptr;
    filler.awaitedStream = -1;
    filler.bytes = uint32_t(unused);
    stream.written += unused;
  }
  Entry &entry = stream.at(stream.written);
  entry.bytes = uint32_t(bytes);
  return &entry;
}

void Streams::publish(int32_t number, Entry &entry) {
  Stream &stream = *streams[size_t(number)];
  entry.number = nextNumber++;
  stream.written += entry.bytes;
  ++stream.issued;
  std::lock_guard lock(mutex);
  if (stream.begin == stream.end)
    stream.ready = std::max(stream.ready, nanoseconds());
  stream.end = stream.written;
  settle();
}

Status Streams::recordEvent(int32_t stream, int32_t event) {
  HEDDLE_RT_RETURN_IF_ERROR(check(stream));
  if (event < 0)
    return errorOf("expected an event of at least 0, got ", event);
  if (size_t(event) >= events.size()) // only in a program's first run
    events.resize(std::max(size_t(event) + 1, events.size() * 2));
  events[size_t(event)] = {stream, streams[size_t(stream)]->issued};
  return Status::success();
}

Status Streams::waitEvent(int32_t stream, int32_t event) {
  HEDDLE_RT_RETURN_IF_ERROR(check(stream));
  // An event that was never recorded has no calls before it.
  if (event < 0 || size_t(event) >= events.size())
    return Status::success();
  Event awaited = events[size_t(event)];
  if (awaited.stream == stream)
    return Status::success();
  Expected<Entry *> entry = reserve(stream, sizeof(Entry));
  HEDDLE_RT_RETURN_IF_ERROR(entry.status());
  (*entry)->run = nullptr;
  (*entry)->awaitedStream = awaited.stream;
  (*entry)->awaited = awaited.place;
  publish(stream, **entry);
  return Status::success();
}

Status Streams::synchronize() {
  std::unique_lock lock(mutex);
  waitAsHost(lock, nullptr);
  lock.unlock();
  return device.error();
}

void Streams::dropCalls() {
  std::lock_guard lock(mutex);
  settle();
}

//===----------------------------------------------------------------------===//
// The queues
//===----------------------------------------------------------------------===//

/// Returns true for unused bytes and for a wait that is over.
bool Streams::isOver(const Entry &entry) const {
  return !entry.run &&
         (entry.awaitedStream < 0 ||
          streams[size_t(entry.awaitedStream)]->done >= entry.awaited);
}

/// Returns true if the stream's thread may start the first entry.
bool Streams::mayRun(const Stream &stream) const {
  return stream.begin != stream.end && !stream.running &&
         stream.at(stream.begin).run &&
         (streamOrder.kind == StreamOrder::Kind::Natural || granted == &stream);
}

/// Removes the first entry of a stream, which was over at `end`.
void Streams::pop(Stream &stream, int64_t end) {
  const Entry &entry = stream.at(stream.begin);
  stream.begin += entry.bytes;
  if (!entry.run && entry.awaitedStream < 0)
    return;
  // A wait is over no earlier than the collectives before it.
  int64_t earlier = stream.ends[stream.done % stream.ends.size()];
  ++stream.done;
  stream.ends[stream.done % stream.ends.size()] = std::max(end, earlier);
}

/// Returns the time at which a wait was over. Returns 0 if that is so long ago
/// that the time is no longer stored.
int64_t Streams::getEnd(const Entry &wait) const {
  const Stream &awaited = *streams[size_t(wait.awaitedStream)];
  return awaited.done - wait.awaited < awaited.ends.size()
             ? awaited.ends[wait.awaited % awaited.ends.size()]
             : 0;
}

/// Removes entries at the heads of streams that need no thread: waits that are
/// over and, after an error, all entries that have not started. Then wakes the
/// threads that have a call to run.
void Streams::settle() {
  bool drop = stopping || device.hasFailed();
  for (bool again = true; again;) {
    again = false;
    for (auto &stream : streams)
      while (stream->begin != stream->end && !stream->running) {
        const Entry &entry = stream->at(stream->begin);
        if (!drop && !isOver(entry))
          break;
        if (isOver(entry) && entry.awaitedStream >= 0)
          stream->ready = std::max(stream->ready, getEnd(entry));
        pop(*stream, stream->ready);
        again = true;
      }
  }
  if (streamOrder.kind != StreamOrder::Kind::Natural)
    grant();
  changes.fetch_add(1, std::memory_order_release);
  for (auto &stream : streams)
    if (mayRun(*stream))
      stream->changed.notify_one();
  if (hostWaits && mayHostGoOn())
    hostChanged.notify_one();
}

/// Chooses the stream that may start its next call. Chooses none while a call
/// runs that must run alone, or while the host still issues calls.
void Streams::grant() {
  if (granted && granted->begin == granted->end) // its calls were dropped
    granted = nullptr;
  if (!hostWaits || granted || exclusive)
    return;
  uint64_t seen = 0, chosen = 0;
  for (auto &stream : streams) {
    if (stream->begin == stream->end || stream->running ||
        !stream->at(stream->begin).run)
      continue;
    uint64_t number = stream->at(stream->begin).number;
    bool better = true;
    if (streamOrder.kind == StreamOrder::Kind::Earliest)
      better = number < chosen;
    else if (streamOrder.kind == StreamOrder::Kind::Latest)
      better = number > chosen;
    else // the i-th ready stream becomes the choice with probability 1 / i
      better = random() % (seen + 1) == 0;
    if (seen++ && !better)
      continue;
    granted = stream.get();
    chosen = number;
  }
}

//===----------------------------------------------------------------------===//
// The streams' threads
//===----------------------------------------------------------------------===//

void Streams::serve(size_t number) {
  // A stream that communicates sleeps while links are busy. When it wakes, it
  // shares a core with computations that wait for it sooner or later.
  if (number > 0)
    wakeSoon();
  Stream &stream = *streams[number];
  std::unique_lock lock(mutex);
  while (!stopping) {
    if (mayRun(stream)) {
      run(number, lock);
      continue;
    }
    if (spins) {
      uint64_t seen = changes.load(std::memory_order_relaxed);
      lock.unlock();
      for (int spin = 0;
           spin < spins && changes.load(std::memory_order_acquire) == seen;
           ++spin) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
      }
      lock.lock();
    }
    stream.changed.wait(lock, [&] { return stopping || mayRun(stream); });
  }
}

/// Runs the first entry of a stream.
void Streams::run(size_t number, std::unique_lock<std::mutex> &lock) {
  Stream &stream = *streams[number];
  Entry &entry = stream.at(stream.begin);
  stream.running = true;
  // A collective waits for other devices, so it lets other calls start.
  bool alone = streamOrder.kind != StreamOrder::Kind::Natural &&
               entry.label.kind != WorkKind::Collective;
  if (streamOrder.kind != StreamOrder::Kind::Natural) {
    granted = nullptr;
    exclusive |= alone;
    settle();
  }
  lock.unlock();
  int64_t begin = nanoseconds();
  Status status;
  try {
    status = entry.run(entry);
  } catch (const std::exception &exception) {
    status = Status::error(exception.what());
  }
  int64_t end = nanoseconds();
  if (!status.ok())
    device.fail(std::move(status).in(entry.label.operation), entry.place);
  lock.lock();
  const auto &[kind, operation] = entry.label;
  device.times.seconds[size_t(kind)] += double(end - begin) * 1e-9;
  ++device.times.calls[size_t(kind)];
  if (device.trace)
    device.trace->push_back(
        {operation, kind, int32_t(number), entry.place, begin, end});
  stream.running = false;
  if (alone)
    exclusive = false;
  if (kind != WorkKind::Collective)
    stream.ready = end;
  pop(stream, end);
  settle();
}

} // namespace heddle::runtime
