//===- GlooTransport.cpp - Messages between processes over Gloo -----------===//
//
// A message is a buffer of Gloo's with one pending send or receive. Gloo's
// waits have a timeout that breaks all connections, so they are called without
// one. A thread of ours, the clock, ends the waits whose deadlines are over.
//
// Gloo reports errors by exceptions, which end here. A message whose length
// differs from the receive's would end the process; so callers agree on lengths
// first.
//
// Two processes have a connection for each direction. Gloo locks a connection
// while it writes. If data arrives on the same one then, Gloo's thread asks for
// the lock again and again until the write is over, on a core that others need.
// Gloo's own notices of pending messages still arrive on the connection that is
// written to. So Gloo's thread is also kept from interrupting threads that
// write (GlooThreads).
//
//===----------------------------------------------------------------------===//

#include "processes/GlooTransport.h"
#include "processes/Sha256.h"
#include "support/Message.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <deque>
#include <list>
#include <vector>

#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/device.h>
#include <gloo/transport/tcp/device.h>
#include <gloo/transport/unbound_buffer.h>

#include <pthread.h>
#include <sched.h>

namespace heddle::runtime {

namespace {

using Clock = Transport::Clock;
using Buffer = gloo::transport::UnboundBuffer;

/// For ever, as far as a run is concerned.
constexpr std::chrono::hours noTimeout{1000};

/// The addresses of Gloo's connections.
class ControlStore final : public gloo::rendezvous::Store {
public:
  /// `prefix` tells the addresses of one context from those of others.
  ControlStore(Control &control, std::string prefix)
      : control(control), prefix(std::move(prefix)) {}

  void set(const std::string &key, const std::vector<char> &data) override {
    control.publish(prefix + key, data);
  }
  std::vector<char> get(const std::string &key) override {
    wait({key});
    return *control.find(prefix + key, std::chrono::milliseconds(0));
  }
  void wait(const std::vector<std::string> &keys) override {
    wait(keys, control.jobOptions().joinTimeout);
  }
  void wait(const std::vector<std::string> &keys,
            const std::chrono::milliseconds &timeout) override {
    for (const std::string &key : keys)
      if (!control.find(prefix + key, timeout))
        throw ::gloo::IoException("a process has not opened its connections");
  }

private:
  Control &control;
  const std::string prefix;
};

/// Which way messages go: to a process of a higher or of a lower number.
enum class Direction { Up, Down };

Direction directionOf(int32_t from, int32_t to) {
  return from < to ? Direction::Up : Direction::Down;
}

/// A connection between every two processes, for each direction.
using Contexts = std::array<std::shared_ptr<gloo::Context>, 2>;

class GlooTransport final : public Transport {
public:
  explicit GlooTransport(Contexts contexts)
      : contexts(std::move(contexts)), clock([this] { endLateWaits(); }),
        postman([this] { awaitCopies(); }) {}
  ~GlooTransport() override;

  std::unique_ptr<Message> send(int32_t process, uint64_t slot,
                                const void *data, size_t bytes) override;
  std::unique_ptr<Message> receive(int32_t process, uint64_t slot, void *data,
                                   size_t bytes) override;
  void sendCopy(int32_t process, uint64_t slot, const void *data,
                size_t bytes) override;
  void interrupt() override;

  /// Sends or receives on the connection of one direction.
  std::unique_ptr<Message> sendOn(Direction direction, int32_t process,
                                  uint64_t slot, const void *data,
                                  size_t bytes);
  std::unique_ptr<Message> receiveOn(Direction direction, int32_t process,
                                     uint64_t slot, void *data, size_t bytes);

private:
  class GlooMessage;
  /// A wait under way.
  struct Wait {
    Clock::time_point deadline;
    GlooMessage *message;
    bool isLate = false;
  };
  using Waits = std::list<Wait>;

  Waits::iterator begin(GlooMessage &message, Clock::time_point deadline);
  /// Returns true if the wait ended because of its deadline.
  bool end(Waits::iterator wait);
  void endLateWaits();
  void awaitCopies();

  const Contexts contexts;
  std::atomic<bool> interrupted{false};

  std::mutex mutex; ///< guards what follows
  Waits waits;
  std::condition_variable deadlineChanged;
  Clock::time_point nextDeadline = Clock::time_point::max();
  bool stopping = false;

  /// A message and the memory that it is sent from.
  struct Copy {
    std::unique_ptr<std::byte[]> bytes;
    std::unique_ptr<Message> message;
  };
  std::condition_variable copyAdded;
  std::deque<Copy> copies;

  std::thread clock, postman;
};

class GlooTransport::GlooMessage final : public Message {
public:
  GlooMessage(GlooTransport &transport, Direction direction, const void *data,
              size_t bytes, bool isSend)
      : transport(transport),
        buffer(transport.contexts[size_t(direction)]->createUnboundBuffer(
            const_cast<void *>(data), bytes)),
        isSend(isSend) {}

  /// Starts the transfer. If it cannot start, `wait` says so.
  void post(int32_t process, uint64_t slot) {
    try {
      isSend ? buffer->send(process, slot) : buffer->recv(process, slot);
    } catch (const std::exception &) {
      failed = true;
    }
  }

  End wait(Clock::time_point deadline) override {
    if (done)
      return End::Done;
    if (failed || transport.interrupted)
      return End::Failed;
    bool isLate = waitUntil(deadline);
    // If the clock ends the wait of a message that has just arrived, the
    // message looks late, too. A second wait finds out whether it has arrived.
    if (isLate)
      isLate = waitUntil(Clock::now() + std::chrono::milliseconds(100));
    return done ? End::Done : isLate ? End::Late : End::Failed;
  }

  /// Ends a wait on another thread.
  void abortWait() {
    isSend ? buffer->abortWaitSend() : buffer->abortWaitRecv();
  }

private:
  /// Sets `done` or `failed`, or returns true if the deadline ended the wait.
  bool waitUntil(Clock::time_point deadline) {
    Waits::iterator entry = transport.begin(*this, deadline);
    try {
      done = isSend ? buffer->waitSend(noTimeout) : buffer->waitRecv(noTimeout);
    } catch (const std::exception &) {
      failed = true;
    }
    bool isLate = transport.end(entry) && !done && !failed;
    failed |= !done && !isLate;
    return isLate;
  }

  GlooTransport &transport;
  std::unique_ptr<Buffer> buffer;
  bool isSend, done = false, failed = false;
};

GlooTransport::~GlooTransport() {
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  interrupt();
  deadlineChanged.notify_all();
  copyAdded.notify_all();
  clock.join();
  postman.join();
  copies.clear();
}

std::unique_ptr<Transport::Message>
GlooTransport::sendOn(Direction direction, int32_t process, uint64_t slot,
                      const void *data, size_t bytes) {
  auto message =
      std::make_unique<GlooMessage>(*this, direction, data, bytes, true);
  message->post(process, slot);
  return message;
}

std::unique_ptr<Transport::Message>
GlooTransport::receiveOn(Direction direction, int32_t process, uint64_t slot,
                         void *data, size_t bytes) {
  auto message =
      std::make_unique<GlooMessage>(*this, direction, data, bytes, false);
  message->post(process, slot);
  return message;
}

std::unique_ptr<Transport::Message> GlooTransport::send(int32_t process,
                                                        uint64_t slot,
                                                        const void *data,
                                                        size_t bytes) {
  return sendOn(directionOf(contexts[0]->rank, process), process, slot, data,
                bytes);
}

std::unique_ptr<Transport::Message> GlooTransport::receive(int32_t process,
                                                           uint64_t slot,
                                                           void *data,
                                                           size_t bytes) {
  return receiveOn(directionOf(process, contexts[0]->rank), process, slot, data,
                   bytes);
}

void GlooTransport::sendCopy(int32_t process, uint64_t slot, const void *data,
                             size_t bytes) {
  Copy copy{std::make_unique<std::byte[]>(bytes), nullptr};
  std::memcpy(copy.bytes.get(), data, bytes);
  copy.message = send(process, slot, copy.bytes.get(), bytes);
  {
    std::lock_guard lock(mutex);
    copies.push_back(std::move(copy));
  }
  copyAdded.notify_all();
}

/// Frees copies that have been sent, the oldest first.
void GlooTransport::awaitCopies() {
  std::unique_lock lock(mutex);
  for (;;) {
    copyAdded.wait(lock, [&] { return stopping || !copies.empty(); });
    if (stopping)
      return;
    Message &message = *copies.front().message;
    lock.unlock();
    Message::End end = message.wait(Clock::time_point::max());
    lock.lock();
    if (end != Message::End::Done) // the connections are broken
      return;
    copies.pop_front();
  }
}

GlooTransport::Waits::iterator
GlooTransport::begin(GlooMessage &message, Clock::time_point deadline) {
  std::lock_guard lock(mutex);
  waits.push_back({deadline, &message});
  if (interrupted)
    message.abortWait();
  if (deadline < nextDeadline) {
    nextDeadline = deadline;
    deadlineChanged.notify_one();
  }
  return std::prev(waits.end());
}

bool GlooTransport::end(Waits::iterator wait) {
  std::lock_guard lock(mutex);
  bool isLate = wait->isLate;
  waits.erase(wait);
  return isLate;
}

void GlooTransport::endLateWaits() {
  std::unique_lock lock(mutex);
  while (!stopping) {
    if (nextDeadline == Clock::time_point::max())
      deadlineChanged.wait(lock);
    else
      deadlineChanged.wait_until(lock, nextDeadline);
    Clock::time_point now = Clock::now();
    nextDeadline = Clock::time_point::max();
    for (Wait &wait : waits)
      if (wait.deadline <= now) {
        wait.isLate = true;
        wait.message->abortWait();
      } else {
        nextDeadline = std::min(nextDeadline, wait.deadline);
      }
  }
}

void GlooTransport::interrupt() {
  std::lock_guard lock(mutex);
  interrupted = true;
  for (Wait &wait : waits)
    wait.message->abortWait();
}

/// Checks that each connection leads to the process that it should: while
/// Gloo's connections are made, anybody could connect.
Status checkPeers(GlooTransport &transport, Direction direction,
                  const JobOptions &options, const Joined &members) {
  auto codeOf = [&](int32_t from, int32_t to) {
    std::string text(reinterpret_cast<const char *>(members.session.data()),
                     members.session.size());
    return hmac(options.key,
                text + concat("gloo ", int(direction), " ", from, " ", to));
  };
  auto slotOfCode = [](int32_t from, int32_t to) {
    return slotOf(SlotPurpose::Job, 1, 0, from, to);
  };
  auto count = size_t(options.processes);
  std::vector<Digest> mine(count), theirs(count);
  std::vector<std::unique_ptr<Transport::Message>> sends(count),
      receives(count);
  for (int32_t i = 0; i < options.processes; ++i) {
    if (i == options.process)
      continue;
    mine[size_t(i)] = codeOf(options.process, i);
    receives[size_t(i)] =
        transport.receiveOn(direction, i, slotOfCode(i, options.process),
                            theirs[size_t(i)].data(), sizeof(Digest));
    sends[size_t(i)] =
        transport.sendOn(direction, i, slotOfCode(options.process, i),
                         mine[size_t(i)].data(), sizeof(Digest));
  }
  Clock::time_point deadline = Clock::now() + std::chrono::seconds(30);
  for (int32_t i = 0; i < options.processes; ++i)
    if (i != options.process &&
        (receives[size_t(i)]->wait(deadline) != Transport::Message::End::Done ||
         sends[size_t(i)]->wait(deadline) != Transport::Message::End::Done ||
         !isEqual(theirs[size_t(i)], codeOf(i, options.process))))
      return errorOf("the connection to process ", i,
                     " leads elsewhere or is broken: start the job again");
  return Status::success();
}

/// While it lives, this thread starts threads that do not interrupt others when
/// they wake up (SCHED_BATCH). A write to a process of this host wakes up that
/// process's Gloo thread. If the woken thread took over the writer's core, the
/// writer's own Gloo thread would poll for the lock of the connection for the
/// length of a time slice.
class GlooThreads {
public:
  GlooThreads() {
    sched_param parameters = {};
    int policy;
    isChanged =
        pthread_getschedparam(pthread_self(), &policy, &parameters) == 0 &&
        policy == SCHED_OTHER &&
        pthread_setschedparam(pthread_self(), SCHED_BATCH, &parameters) == 0;
  }
  ~GlooThreads() {
    sched_param parameters = {};
    if (isChanged)
      pthread_setschedparam(pthread_self(), SCHED_OTHER, &parameters);
  }

private:
  bool isChanged;
};

std::shared_ptr<gloo::transport::Device>
createDevice(const gloo::transport::tcp::attr &attribute) {
  GlooThreads threads;
  return gloo::transport::tcp::CreateDevice(attribute);
}

Expected<std::unique_ptr<Transport>> makeTransport(Control &control) {
  const JobOptions &options = control.jobOptions();
  std::unique_ptr<GlooTransport> transport;
  try {
    gloo::transport::tcp::attr attribute;
    attribute.hostname = control.members().localAddress;
    std::shared_ptr<gloo::transport::Device> device = createDevice(attribute);
    Contexts contexts;
    for (size_t i = 0; i < contexts.size(); ++i) {
      auto context = std::make_shared<gloo::rendezvous::Context>(
          options.process, options.processes);
      context->setTimeout(std::chrono::seconds(30));
      ControlStore store(control, concat("direction ", i, " "));
      context->connectFullMesh(store, device);
      contexts[i] = std::move(context);
    }
    transport = std::make_unique<GlooTransport>(std::move(contexts));
  } catch (const std::exception &problem) {
    if (Status failure = control.awaitFailure(std::chrono::milliseconds(200));
        !failure.ok())
      return failure;
    return errorOf("cannot connect to the other processes: ", problem.what());
  }
  for (Direction direction : {Direction::Up, Direction::Down})
    HEDDLE_RT_RETURN_IF_ERROR(
        checkPeers(*transport, direction, options, control.members()));
  return std::unique_ptr<Transport>(std::move(transport));
}

} // namespace

} // namespace heddle::runtime

extern "C" const heddle::runtime::GlooTable heddle_gloo_table = {
    {heddle::runtime::GlooTable::current}, heddle::runtime::makeTransport};
