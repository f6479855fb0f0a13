//===- Control.cpp - Signs of life and failures of processes --------------===//

#include "processes/Control.h"
#include "support/Message.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

namespace heddle::runtime {

using Clock = std::chrono::steady_clock;

/// The largest message. Longer texts are cut.
static constexpr size_t mostBytes = 1 << 20;
/// Longest time to wait for a process that does not read its messages.
static constexpr std::chrono::seconds writeTime{5};

Control::Control(const JobOptions &options, Joined members)
    : options(options), joined(std::move(members)),
      wake(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  for (size_t i = 0; i < joined.peers.size(); ++i) {
    Peer &peer = *peers.emplace_back(std::make_unique<Peer>());
    peer.socket = std::move(joined.peers[i]);
    peer.isOpen = peer.socket.isOpen();
    peer.heard = Clock::now();
  }
  thread = std::thread([this] { serve(); });
  pthread_setname_np(thread.native_handle(), "heddle control");
}

Control::~Control() {
  sendToAll(Kind::Goodbye, "", peers.size());
  {
    std::lock_guard lock(mutex);
    stopping = true;
  }
  wakeUp();
  thread.join();
}

void Control::wakeUp() {
  uint64_t one = 1;
  (void)!::write(wake.descriptor(), &one, sizeof one);
}

std::string Control::describe(size_t process) const {
  int64_t count = ranksPerProcess, first = int64_t(process) * count;
  const ProcessInfo &info = joined.processes[process];
  return concat("process ", process, " (",
                count == 1 ? concat("rank ", first)
                           : concat("ranks ", first, " to ", first + count - 1),
                ", on host ", info.host.data(), ", pid ", info.pid, ")");
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

void Control::send(size_t process, Kind kind, std::string_view payload) {
  Peer &peer = *peers[process];
  payload = payload.substr(0, mostBytes);
  Header header{kind, uint32_t(payload.size())};
  std::string bytes(reinterpret_cast<const char *>(&header), sizeof header);
  bytes += payload;
  std::lock_guard lock(peer.mutex);
  // If the process is gone, the thread that reads notices it.
  if (peer.isOpen)
    (void)peer.socket.write(bytes.data(), bytes.size(),
                            Clock::now() + writeTime);
}

void Control::sendToAll(Kind kind, std::string_view payload, size_t except) {
  for (size_t i = 0; i < peers.size(); ++i)
    if (i != except && peers[i]->isOpen)
      send(i, kind, payload);
}

void Control::remember(std::string_view payload) {
  uint32_t length;
  if (payload.size() < sizeof length)
    return;
  std::memcpy(&length, payload.data(), sizeof length);
  payload.remove_prefix(sizeof length);
  std::string_view value =
      payload.substr(std::min<size_t>(length, payload.size()));
  {
    std::lock_guard lock(mutex);
    published[std::string(payload.substr(0, length))] = {value.begin(),
                                                         value.end()};
  }
  changed.notify_all();
}

void Control::publish(const std::string &key, const std::vector<char> &value) {
  auto length = uint32_t(key.size());
  std::string payload(reinterpret_cast<const char *>(&length), sizeof length);
  payload += key;
  payload.append(value.begin(), value.end());
  remember(payload);
  sendToAll(Kind::Publish, payload, peers.size());
}

std::optional<std::vector<char>>
Control::find(const std::string &key, std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, time,
                   [&] { return !failure.ok() || published.contains(key); });
  auto found = published.find(key);
  if (!failure.ok() || found == published.end())
    return std::nullopt;
  return found->second;
}

void Control::handle(size_t process, Kind kind, std::string_view payload) {
  switch (kind) {
  case Kind::Alive:
    return;
  case Kind::Publish:
    remember(payload);
    if (isFirst())
      sendToAll(kind, payload, process);
    return;
  case Kind::Failed:
    return declare(error(std::string(payload)));
  case Kind::Goodbye:
    peers[process]->hasLeft = true;
    return;
  }
}

void Control::receive(size_t process) {
  Peer &peer = *peers[process];
  char buffer[4096];
  ssize_t got =
      ::recv(peer.socket.descriptor(), buffer, sizeof buffer, MSG_DONTWAIT);
  if (got < 0 && (errno == EAGAIN || errno == EINTR))
    return;
  if (got <= 0) {
    std::string why = got < 0 ? std::strerror(errno) : "its connection closed";
    {
      std::lock_guard lock(peer.mutex);
      peer.isOpen = false;
      peer.socket.close();
    }
    if (!peer.hasLeft)
      declare(errorOf(describe(process), " has died: ", why));
    return;
  }
  peer.heard = Clock::now();
  peer.received.append(buffer, size_t(got));
  for (;;) {
    Header header;
    if (peer.received.size() < sizeof header)
      return;
    std::memcpy(&header, peer.received.data(), sizeof header);
    size_t whole = sizeof header + std::min<size_t>(header.bytes, mostBytes);
    if (peer.received.size() < whole)
      return;
    std::string message =
        peer.received.substr(sizeof header, whole - sizeof header);
    peer.received.erase(0, whole);
    handle(process, header.kind, message);
  }
}

void Control::serve() {
  auto interval = std::clamp<std::chrono::milliseconds>(
      options.hangTimeout / 4, std::chrono::milliseconds(20),
      std::chrono::milliseconds(1000));
  Deadline nextSign = Clock::now();
  for (;;) {
    Status first;
    {
      std::lock_guard lock(mutex);
      if (stopping)
        return;
      if (!failure.ok() && !std::exchange(hasCalled, true))
        first = failure;
    }
    if (!first.ok()) {
      std::lock_guard lock(callbackMutex);
      for (auto &[number, callback] : callbacks)
        callback(first);
    }
    std::vector<pollfd> entries{{wake.descriptor(), POLLIN, 0}};
    std::vector<size_t> processes{0};
    for (size_t i = 0; i < peers.size(); ++i)
      if (peers[i]->isOpen) {
        entries.push_back({peers[i]->socket.descriptor(), POLLIN, 0});
        processes.push_back(i);
      }
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        nextSign - Clock::now());
    ::poll(entries.data(), entries.size(),
           int(std::max<int64_t>(0, left.count()) + 1));
    uint64_t ignored;
    (void)!::read(wake.descriptor(), &ignored, sizeof ignored);
    for (size_t i = 1; i < entries.size(); ++i)
      if (entries[i].revents)
        receive(processes[i]);
    Deadline now = Clock::now();
    if (now < nextSign)
      continue;
    // This thread itself may have stood still, as under a debugger. Then the
    // others' signs of life are in its sockets, and it reads them first.
    bool late = now - nextSign > interval;
    nextSign = now + interval;
    sendToAll(Kind::Alive, "", peers.size());
    for (size_t i = 0; i < peers.size() && !late; ++i)
      if (peers[i]->isOpen && !peers[i]->hasLeft &&
          now - peers[i]->heard > options.hangTimeout)
        declare(errorOf(describe(i), " has given no sign of life for ",
                        double(options.hangTimeout.count()) / 1000,
                        " s: it is stopped, or its host is unreachable"));
  }
}

//===----------------------------------------------------------------------===//
// Failures
//===----------------------------------------------------------------------===//

void Control::declare(const Status &why) {
  {
    std::lock_guard lock(mutex);
    if (!failure.ok())
      return;
    failure = why;
  }
  if (isFirst())
    sendToAll(Kind::Failed, why.message(), peers.size());
  changed.notify_all();
  wakeUp();
}

Status Control::fail(const Status &why) {
  {
    std::lock_guard lock(mutex);
    if (!failure.ok())
      return failure;
  }
  if (!isFirst() && peers[0]->isOpen) {
    // Process 0 decides whose failure came first.
    send(0, Kind::Failed, why.message());
    if (Status first = awaitFailure(std::chrono::seconds(2)); !first.ok())
      return first;
  }
  declare(why);
  return awaitFailure(std::chrono::milliseconds(0));
}

Status Control::awaitFailure(std::chrono::milliseconds time) const {
  std::unique_lock lock(mutex);
  changed.wait_for(lock, time, [&] { return !failure.ok(); });
  return failure;
}

uint64_t Control::onFailure(std::function<void(const Status &)> callback) {
  std::lock_guard lock(callbackMutex);
  if (Status first = awaitFailure(std::chrono::milliseconds(0)); !first.ok())
    callback(first);
  callbacks[nextCallback] = std::move(callback);
  return nextCallback++;
}

void Control::forget(uint64_t number) {
  std::lock_guard lock(callbackMutex);
  callbacks.erase(number);
}

} // namespace heddle::runtime
