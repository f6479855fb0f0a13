//===- Join.cpp - How the processes of a job find each other --------------===//

#include "processes/Join.h"
#include "heddle_rt/atomic_file.h"
#include "processes/Sha256.h"
#include "support/Message.h"

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <thread>

#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

namespace heddle::runtime {

namespace {

using Nonce = std::array<uint8_t, 16>;
constexpr std::array<char, 8> magic = {'h', 'e', 'd', 'd', 'l', 'e', ' ', '1'};

/// Limits of connections that have not proven that they know the key: the most
/// at once, and the longest time of one.
constexpr size_t mostGuests = 64;
constexpr std::chrono::seconds guestTime{5};
/// Refusals that are logged one by one.
constexpr int mostLogged = 20;

struct Challenge {
  std::array<char, 8> word = magic;
  Nonce nonce;
};

struct Hello {
  std::array<char, 8> word = magic;
  Nonce nonce;
  int32_t process, processes;
  ProcessInfo info;
  Digest code; ///< HMAC of the Challenge and all fields before
};

struct Welcome {
  Digest code; ///< HMAC of the two nonces
  /// Why the process cannot take part, with a null at its end; empty if it can.
  std::array<char, 232> refusal{};
};

/// Sent when all have joined, followed by one ProcessInfo for each process.
struct Start {
  Nonce session;
};

Nonce randomNonce() {
  Nonce nonce{};
  for (size_t at = 0; at < nonce.size();) {
    ssize_t got = ::getrandom(nonce.data() + at, nonce.size() - at, 0);
    at += got > 0 ? size_t(got) : 0;
  }
  return nonce;
}

template <typename T> std::string_view bytesOf(const T &object, size_t bytes) {
  return {reinterpret_cast<const char *>(&object), bytes};
}

Digest codeOf(const std::string &key, const Challenge &challenge,
              const Hello &hello) {
  std::string text(bytesOf(challenge, sizeof challenge));
  return hmac(key, text.append(bytesOf(hello, offsetof(Hello, code))));
}

Digest codeOf(const std::string &key, const Nonce &first, const Nonce &second) {
  std::string text(bytesOf(first, sizeof first));
  return hmac(key, text.append(bytesOf(second, sizeof second)));
}

ProcessInfo describeSelf() {
  ProcessInfo info;
  ::gethostname(info.host.data(), info.host.size() - 1);
  info.pid = int32_t(::getpid());
  return info;
}

//===----------------------------------------------------------------------===//
// Process 0
//===----------------------------------------------------------------------===//

/// Admits the processes of the job, as process 0.
class Door {
public:
  Door(const JobOptions &options, Socket listener)
      : options(options), listener(std::move(listener)) {
    joined.peers.resize(size_t(options.processes));
    joined.processes.resize(size_t(options.processes));
    joined.processes[0] = describeSelf();
    joined.session = randomNonce();
    missing = options.processes - 1;
  }

  Expected<Joined> run();

private:
  /// A connection that has not proven that it knows the key.
  struct Guest {
    Socket socket;
    std::string address;
    Challenge challenge;
    Hello hello;
    size_t bytes = 0; ///< of `hello` that have arrived
    Deadline deadline;
  };

  void greet();
  /// Reads the bytes that have arrived. Returns true if the guest was admitted
  /// or refused.
  bool hear(Guest &guest);
  void admit(Guest &guest);
  void refuse(const Guest &guest, std::string_view why);

  const JobOptions &options;
  Socket listener;
  std::vector<Guest> guests;
  Joined joined;
  int32_t missing;
  int refused = 0;
};

void Door::refuse(const Guest &guest, std::string_view why) {
  if (++refused <= mostLogged)
    std::fprintf(stderr, "heddle: refused a connection from %s: %.*s%s\n",
                 guest.address.c_str(), int(why.size()), why.data(),
                 refused == mostLogged ? " (others will not be reported)" : "");
}

void Door::greet() {
  Guest guest;
  guest.socket = acceptFrom(listener);
  if (!guest.socket.isOpen())
    return;
  guest.address = peerOf(guest.socket);
  guest.challenge.nonce = randomNonce();
  guest.deadline = std::chrono::steady_clock::now() + guestTime;
  if (guest.socket
          .write(&guest.challenge, sizeof guest.challenge, guest.deadline)
          .ok())
    guests.push_back(std::move(guest));
}

bool Door::hear(Guest &guest) {
  auto *start = reinterpret_cast<char *>(&guest.hello);
  ssize_t got = ::recv(guest.socket.descriptor(), start + guest.bytes,
                       sizeof(Hello) - guest.bytes, MSG_DONTWAIT);
  if (got > 0)
    guest.bytes += size_t(got);
  bool isOver = got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR) ||
                std::chrono::steady_clock::now() > guest.deadline;
  if (guest.bytes < sizeof(Hello)) {
    if (isOver)
      refuse(guest,
             concat("it sent ", guest.bytes, " bytes of ", sizeof(Hello)));
    return isOver;
  }
  if (!isEqual(guest.hello.code,
               codeOf(options.key, guest.challenge, guest.hello))) {
    refuse(guest, "it does not know the job's key");
    return true;
  }
  admit(guest);
  return true;
}

void Door::admit(Guest &guest) {
  const Hello &hello = guest.hello;
  Welcome welcome;
  welcome.code = codeOf(options.key, hello.nonce, guest.challenge.nonce);
  std::string why;
  if (hello.processes != options.processes)
    why = concat("expected a job of ", options.processes, " processes, got ",
                 hello.processes);
  else if (hello.process <= 0 || hello.process >= options.processes)
    why = concat("expected a process from 1 to ", options.processes - 1,
                 ", got ", hello.process);
  else if (joined.peers[size_t(hello.process)].isOpen())
    why = concat("another process ", hello.process, " has joined, on host ",
                 joined.processes[size_t(hello.process)].host.data());
  why.copy(welcome.refusal.data(), welcome.refusal.size() - 1);
  Deadline deadline = std::chrono::steady_clock::now() + guestTime;
  bool sent = guest.socket.write(&welcome, sizeof welcome, deadline).ok();
  if (!why.empty() || !sent) {
    refuse(guest, why.empty() ? "it has left" : why);
    return;
  }
  auto process = size_t(hello.process);
  joined.processes[process] = hello.info;
  joined.processes[process].host.back() = '\0';
  joined.peers[process] = std::move(guest.socket);
  --missing;
}

Expected<Joined> Door::run() {
  Deadline deadline = std::chrono::steady_clock::now() + options.joinTimeout;
  while (missing > 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      std::string names;
      for (int32_t i = 1; i < options.processes; ++i)
        if (!joined.peers[size_t(i)].isOpen())
          names += concat(names.empty() ? "" : ", ", i);
      return errorOf("process ", names, " of ", options.processes,
                     " did not join the job within ",
                     double(options.joinTimeout.count()) / 1000, " s");
    }
    std::vector<pollfd> entries;
    for (const Guest &guest : guests)
      entries.push_back({guest.socket.descriptor(), POLLIN, 0});
    if (guests.size() < mostGuests)
      entries.push_back({listener.descriptor(), POLLIN, 0});
    ::poll(entries.data(), entries.size(), 100);
    bool isCalled = guests.size() < mostGuests && entries.back().revents != 0;
    std::erase_if(guests, [&](Guest &guest) { return hear(guest); });
    if (isCalled)
      greet();
  }
  Start start{joined.session};
  for (size_t i = 1; i < joined.peers.size(); ++i) {
    Deadline soon = std::chrono::steady_clock::now() + guestTime;
    Status status = joined.peers[i].write(&start, sizeof start, soon);
    if (status.ok())
      status = joined.peers[i].write(
          joined.processes.data(),
          joined.processes.size() * sizeof(ProcessInfo), soon);
    HEDDLE_RT_RETURN_IF_ERROR(std::move(status).in(
        concat("process ", i, " left while the job was joined")));
  }
  joined.localAddress = localAddressOf(joined.peers[1]);
  return std::move(joined);
}

Expected<Joined> joinAsFirst(const JobOptions &options) {
  Socket listener(options.listener >= 0 ? ::dup(options.listener) : -1);
  if (options.listener >= 0)
    ::close(options.listener);
  if (!listener.isOpen()) {
    Expected<Socket> made = listenAt(options.address, options.port);
    HEDDLE_RT_RETURN_IF_ERROR(made.status());
    listener = std::move(*made);
  }
  if (!options.file.empty())
    HEDDLE_RT_RETURN_IF_ERROR(writeFileAtomically(
        options.file.string(),
        concat(localAddressOf(listener), " ", portOf(listener), "\n")));
  Expected<Joined> joined = Door(options, std::move(listener)).run();
  // A file that stays would lead the processes of the next job to this port.
  if (!options.file.empty()) {
    std::error_code ignored;
    std::filesystem::remove(options.file, ignored);
  }
  return joined;
}

//===----------------------------------------------------------------------===//
// The other processes
//===----------------------------------------------------------------------===//

/// Waits for the file that process 0 writes, and reads its address and port.
Status readFile(const JobOptions &options, Deadline deadline,
                std::string &address, int &port) {
  for (;;) {
    std::ifstream stream(options.file);
    if (stream >> address >> port)
      return Status::success();
    if (std::chrono::steady_clock::now() >= deadline)
      return errorOf("process 0 did not write its address to '",
                     options.file.string(), "' in time");
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

Expected<Joined> joinFirst(const JobOptions &options) {
  Deadline deadline = std::chrono::steady_clock::now() + options.joinTimeout;
  std::string address = options.address;
  int port = options.port;
  if (!options.file.empty())
    HEDDLE_RT_RETURN_IF_ERROR(readFile(options, deadline, address, port));
  Expected<Socket> socket = connectTo(address, port, deadline);
  HEDDLE_RT_RETURN_IF_ERROR(socket.status());
  std::string context = concat("cannot join the job at ", address, ":", port,
                               " as process ", options.process);
  Challenge challenge;
  HEDDLE_RT_RETURN_IF_ERROR(
      socket->read(&challenge, sizeof challenge, deadline).in(context));
  if (challenge.word != magic)
    return errorOf(context, ": something else answers there");
  Hello hello;
  hello.nonce = randomNonce();
  hello.process = options.process;
  hello.processes = options.processes;
  hello.info = describeSelf();
  hello.code = codeOf(options.key, challenge, hello);
  HEDDLE_RT_RETURN_IF_ERROR(
      socket->write(&hello, sizeof hello, deadline).in(context));
  Welcome welcome;
  Status heard = socket->read(&welcome, sizeof welcome, deadline);
  if (!heard.ok() ||
      !isEqual(welcome.code, codeOf(options.key, hello.nonce, challenge.nonce)))
    return errorOf(context, ": process 0 has another key (HEDDLE_JOB_KEY)");
  welcome.refusal.back() = '\0';
  if (welcome.refusal[0])
    return errorOf(context, ": ", welcome.refusal.data());

  Joined joined;
  joined.peers.resize(size_t(options.processes));
  joined.processes.resize(size_t(options.processes));
  Start start;
  HEDDLE_RT_RETURN_IF_ERROR(
      socket->read(&start, sizeof start, deadline).in(context));
  HEDDLE_RT_RETURN_IF_ERROR(
      socket
          ->read(joined.processes.data(),
                 joined.processes.size() * sizeof(ProcessInfo), deadline)
          .in(context));
  joined.session = start.session;
  joined.localAddress = localAddressOf(*socket);
  joined.peers[0] = std::move(*socket);
  return joined;
}

} // namespace

Expected<Joined> joinJob(const JobOptions &options) {
  return options.process == 0 ? joinAsFirst(options) : joinFirst(options);
}

} // namespace heddle::runtime
