//===- Streams.h - The streams of one device --------------------*- C++ -*-===//
//
// Each stream is a queue of calls and a thread that runs them in order. One
// thread, the host, issues all calls of a device. A call and its arguments lie
// in a ring of bytes, which is allocated once; the host waits when the ring is
// full.
//
// An event is a place in a stream: the call that was issued last before the
// event was recorded. A wait is an entry of the queue that ends when the other
// stream has passed this place. So recording costs nothing, and an event that
// is recorded again does not change the waits that were issued before.
//
// After the device's first error all calls that have not started are dropped.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CPU_THREADS_STREAMS_H
#define HEDDLE_RT_BACKENDS_CPU_THREADS_STREAMS_H

#include "device/Device.h"
#include "heddle_rt/stream_order.h"

#include <algorithm>
#include <array>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <span>
#include <thread>
#include <type_traits>
#include <vector>

namespace heddle::runtime {

class Streams {
public:
  /// A call as errors, times and the trace show it.
  struct Label {
    WorkKind kind;
    const char *operation; ///< a string literal
  };

  /// Starts the threads of `count` streams of a device. With `spin`, an idle
  /// thread watches memory for some microseconds before it sleeps. Throws
  /// std::system_error if the system refuses a thread.
  Streams(heddle_rt_device &device, int count, const StreamOrder &order,
          bool spin);
  /// Drops the calls that have not started.
  ~Streams();
  Streams(const Streams &) = delete;
  Streams &operator=(const Streams &) = delete;

  const StreamOrder &order() const { return streamOrder; }

  /// Issues a call: the stream's thread will call `work`, or work(pointers) if
  /// it takes an argument, with a copy of `pointers`. Pointers into `words` are
  /// replaced by pointers into a copy of `words`.
  template <typename Work>
  Status issue(int32_t stream, const Label &label, const Work &work,
               std::span<void *const> pointers = {},
               std::span<const int64_t> words = {});
  Status recordEvent(int32_t stream, int32_t event);
  Status waitEvent(int32_t stream, int32_t event);

  /// Returns the time at which everything that the running call of a stream
  /// waited for was over, in nanoseconds of the steady clock. Only that call
  /// may use it.
  int64_t getReadyTime(int32_t stream) const {
    return streams[size_t(stream)]->ready;
  }

  /// Waits until all streams are idle. Returns the device's error.
  Status synchronize();

  /// Drops the calls that have not started. Must be called after the device has
  /// failed.
  void dropCalls();

private:
  /// The head of a call in a ring. The call's arguments follow it.
  struct alignas(64) Entry {
    Status (*run)(Entry &call); ///< null: a wait, or unused bytes of the ring
    Label label;
    CallPlace place;
    uint64_t number;       ///< counts the entries of all streams
    uint64_t awaited;      ///< a wait: the place in the other stream
    int32_t awaitedStream; ///< a wait: the other stream; -1 for unused bytes
    uint32_t bytes;        ///< with the arguments
  };
  static_assert(sizeof(Entry) == 64);

  /// A queue. Positions in the ring count all bytes that ever passed.
  struct Stream {
    Stream();
    Entry &at(uint64_t position) const {
      return *reinterpret_cast<Entry *>(ring.get() + position % ringBytes);
    }

    struct Free {
      void operator()(std::byte *memory) const {
        ::operator delete(memory, std::align_val_t(64));
      }
    };
    std::unique_ptr<std::byte, Free> ring;
    // Used by the host alone.
    uint64_t written = 0; ///< end of what the host has written
    uint64_t issued = 0;  ///< entries
    // Guarded by `mutex`.
    uint64_t begin = 0, end = 0; ///< the entries that are issued and not done
    uint64_t done = 0;           ///< entries
    bool running = false;        ///< the entry at `begin` runs
    /// The time at which everything that the entry at `begin` waits for was
    /// over.
    int64_t ready = 0;
    /// The end times of the last entries, by the entry's number modulo the
    /// array's size.
    std::array<int64_t, 512> ends{};
    std::condition_variable changed;
    std::thread thread;
  };
  struct Event {
    int32_t stream = 0;
    uint64_t place = 0; ///< entries of the stream
  };
  static constexpr size_t ringBytes = 256 << 10;

  Status check(int32_t stream) const;
  Expected<Entry *> reserve(int32_t stream, size_t bytes);
  void publish(int32_t stream, Entry &entry);
  void waitAsHost(std::unique_lock<std::mutex> &lock, const Stream *full);

  // With the lock held:
  bool mayHostGoOn() const;
  bool isOver(const Entry &entry) const;
  int64_t getEnd(const Entry &wait) const;
  bool mayRun(const Stream &stream) const;
  void pop(Stream &stream, int64_t end);
  void settle();
  void grant();

  void serve(size_t stream);
  void run(size_t stream, std::unique_lock<std::mutex> &lock);
  void join();

  heddle_rt_device &device;
  const StreamOrder streamOrder;
  const int spins;
  uint64_t nextNumber = 0;   ///< used by the host alone
  std::vector<Event> events; ///< used by the host alone

  mutable std::mutex mutex;
  // Guarded by `mutex`.
  std::condition_variable hostChanged;
  bool hostWaits = false;
  const Stream *awaitedRoom = nullptr; ///< null: the host waits for all streams
  bool stopping = false;
  /// In an order other than Natural: the stream that may start its next call;
  /// null: none.
  const Stream *granted = nullptr;
  /// In an order other than Natural: a call runs that must run alone.
  bool exclusive = false;
  std::mt19937_64 random;
  /// Grows whenever an entry is issued or done. Idle threads watch it.
  std::atomic<uint64_t> changes{0};

  std::vector<std::unique_ptr<Stream>> streams;
};

template <typename Work>
Status Streams::issue(int32_t stream, const Label &label, const Work &work,
                      std::span<void *const> pointers,
                      std::span<const int64_t> words) {
  static_assert(std::is_trivially_copyable_v<Work> &&
                std::is_trivially_destructible_v<Work> &&
                alignof(Work) <= alignof(Entry));
  constexpr size_t workBytes =
      (sizeof(Work) + sizeof(void *) - 1) / sizeof(void *) * sizeof(void *);
  Expected<Entry *> reserved =
      reserve(stream, sizeof(Entry) + workBytes + pointers.size_bytes() +
                          words.size_bytes());
  HEDDLE_RT_RETURN_IF_ERROR(reserved.status());
  Entry &entry = **reserved;
  auto *arguments = reinterpret_cast<std::byte *>(&entry + 1);
  new (arguments) Work(work);
  auto **copied = reinterpret_cast<void **>(arguments + workBytes);
  auto *copiedWords = reinterpret_cast<int64_t *>(copied + pointers.size());
  std::copy(words.begin(), words.end(), copiedWords);
  std::ranges::transform(pointers, copied, [&](void *pointer) -> void * {
    auto *word = static_cast<const int64_t *>(pointer);
    bool isWord = std::less_equal<>()(words.data(), word) &&
                  std::less<>()(word, words.data() + words.size());
    return isWord ? copiedWords + (word - words.data()) : pointer;
  });
  entry.label = label;
  entry.place = device.place;
  entry.awaitedStream = -1;
  entry.run = [](Entry &entry) -> Status {
    auto *arguments = reinterpret_cast<std::byte *>(&entry + 1);
    const Work &work = *std::launder(reinterpret_cast<Work *>(arguments));
    if constexpr (std::is_invocable_v<const Work &, void *const *>)
      return work(reinterpret_cast<void *const *>(arguments + workBytes));
    else
      return work();
  };
  publish(stream, entry);
  return Status::success();
}

} // namespace heddle::runtime

#endif // HEDDLE_RT_BACKENDS_CPU_THREADS_STREAMS_H
