//===- Socket.h - TCP sockets with deadlines --------------------*- C++ -*-===//

#ifndef HEDDLE_RT_PROCESSES_SOCKET_H
#define HEDDLE_RT_PROCESSES_SOCKET_H

#include "heddle_rt/status.h"

#include <chrono>
#include <cstddef>
#include <string>
#include <utility>

namespace heddle::runtime {

using Deadline = std::chrono::steady_clock::time_point;

/// A descriptor that is closed with its owner.
class Socket {
public:
  Socket() = default;
  explicit Socket(int descriptor) : number(descriptor) {}
  Socket(Socket &&other) noexcept : number(std::exchange(other.number, -1)) {}
  Socket &operator=(Socket &&other) noexcept {
    std::swap(number, other.number);
    return *this;
  }
  ~Socket();

  int descriptor() const { return number; }
  bool isOpen() const { return number >= 0; }
  void close();

  /// Write and read all of `bytes` bytes. An error says what happened.
  Status write(const void *data, size_t bytes, Deadline deadline) const;
  Status read(void *data, size_t bytes, Deadline deadline) const;

private:
  int number = -1;
};

/// Listens on the given address alone. Port 0 takes any free one.
Expected<Socket> listenAt(const std::string &address, int port);
/// Returns the port of a socket of this process.
int portOf(const Socket &socket);
/// Returns the text of the address that a socket has on this machine.
std::string localAddressOf(const Socket &socket);
/// Returns the text of a peer's address and port.
std::string peerOf(const Socket &socket);
/// Accepts a connection that waits. The socket is closed if none does.
Socket acceptFrom(const Socket &listener);
/// Connects. Tries again until the deadline if nobody listens there yet.
Expected<Socket> connectTo(const std::string &address, int port,
                           Deadline deadline);

} // namespace heddle::runtime

#endif // HEDDLE_RT_PROCESSES_SOCKET_H
