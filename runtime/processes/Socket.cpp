//===- Socket.cpp - TCP sockets with deadlines ----------------------------===//

#include "processes/Socket.h"
#include "support/Message.h"

#include <cerrno>
#include <cstring>
#include <memory>
#include <thread>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace heddle::runtime {

Socket::~Socket() { close(); }

void Socket::close() {
  if (number >= 0)
    ::close(number);
  number = -1;
}

/// Waits until the socket is ready for `events`.
static Status waitFor(int descriptor, short events, Deadline deadline) {
  for (;;) {
    auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - std::chrono::steady_clock::now());
    if (left.count() < 0)
      return error("timed out");
    pollfd entry{descriptor, events, 0};
    int ready =
        ::poll(&entry, 1, int(std::min<int64_t>(left.count() + 1, 60'000)));
    if (ready > 0)
      return Status::success();
    if (ready < 0 && errno != EINTR)
      return errorOf("poll: ", std::strerror(errno));
  }
}

Status Socket::write(const void *data, size_t bytes, Deadline deadline) const {
  const char *next = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t done = ::send(number, next, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (done > 0) {
      next += done;
      bytes -= size_t(done);
    } else if (errno == EAGAIN) {
      HEDDLE_RT_RETURN_IF_ERROR(waitFor(number, POLLOUT, deadline));
    } else if (errno != EINTR) {
      return error(std::strerror(errno));
    }
  }
  return Status::success();
}

Status Socket::read(void *data, size_t bytes, Deadline deadline) const {
  char *next = static_cast<char *>(data);
  while (bytes > 0) {
    ssize_t done = ::recv(number, next, bytes, MSG_DONTWAIT);
    if (done > 0) {
      next += done;
      bytes -= size_t(done);
    } else if (done == 0) {
      return error("the connection was closed");
    } else if (errno == EAGAIN) {
      HEDDLE_RT_RETURN_IF_ERROR(waitFor(number, POLLIN, deadline));
    } else if (errno != EINTR) {
      return error(std::strerror(errno));
    }
  }
  return Status::success();
}

using AddressList = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

static Expected<AddressList> resolve(const std::string &address, int port) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  int problem = getaddrinfo(address.c_str(), std::to_string(port).c_str(),
                            &hints, &found);
  if (problem != 0)
    return errorOf("cannot find the address '", address,
                   "': ", gai_strerror(problem));
  return AddressList(found, &freeaddrinfo);
}

static std::string describe(const sockaddr_storage &address, socklen_t size,
                            bool withPort) {
  char host[NI_MAXHOST], port[NI_MAXSERV];
  if (getnameinfo(reinterpret_cast<const sockaddr *>(&address), size, host,
                  sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "an unknown address";
  return withPort ? concat(host, ":", port) : std::string(host);
}

Expected<Socket> listenAt(const std::string &address, int port) {
  Expected<AddressList> found = resolve(address, port);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  const addrinfo &first = **found;
  Socket socket(::socket(first.ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int on = 1;
  ::setsockopt(socket.descriptor(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (!socket.isOpen() ||
      ::bind(socket.descriptor(), first.ai_addr, first.ai_addrlen) != 0 ||
      ::listen(socket.descriptor(), SOMAXCONN) != 0)
    return errorOf("cannot listen at ", address, ":", port, ": ",
                   std::strerror(errno));
  return socket;
}

template <typename Function>
static std::pair<sockaddr_storage, socklen_t> nameOf(const Socket &socket,
                                                     Function function) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  function(socket.descriptor(), reinterpret_cast<sockaddr *>(&address), &size);
  return {address, size};
}

int portOf(const Socket &socket) {
  auto [address, size] = nameOf(socket, ::getsockname);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6 &>(address).sin6_port
                   : reinterpret_cast<sockaddr_in &>(address).sin_port);
}

std::string localAddressOf(const Socket &socket) {
  auto [address, size] = nameOf(socket, ::getsockname);
  return describe(address, size, /*withPort=*/false);
}

std::string peerOf(const Socket &socket) {
  auto [address, size] = nameOf(socket, ::getpeername);
  return describe(address, size, /*withPort=*/true);
}

/// Sends small messages at once.
static void sendAtOnce(const Socket &socket) {
  int on = 1;
  ::setsockopt(socket.descriptor(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

Socket acceptFrom(const Socket &listener) {
  Socket socket(::accept4(listener.descriptor(), nullptr, nullptr,
                          SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (socket.isOpen())
    sendAtOnce(socket);
  return socket;
}

Expected<Socket> connectTo(const std::string &address, int port,
                           Deadline deadline) {
  Expected<AddressList> found = resolve(address, port);
  HEDDLE_RT_RETURN_IF_ERROR(found.status());
  const addrinfo &first = **found;
  for (;;) {
    Socket socket(::socket(first.ai_family,
                           SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    if (!socket.isOpen())
      return errorOf("cannot open a socket: ", std::strerror(errno));
    int problem = 0;
    if (::connect(socket.descriptor(), first.ai_addr, first.ai_addrlen) != 0) {
      problem = errno;
      socklen_t size = sizeof problem;
      if (problem == EINPROGRESS) {
        problem = ETIMEDOUT;
        if (waitFor(socket.descriptor(), POLLOUT, deadline).ok())
          ::getsockopt(socket.descriptor(), SOL_SOCKET, SO_ERROR, &problem,
                       &size);
      }
    }
    if (problem == 0) {
      sendAtOnce(socket);
      return socket;
    }
    if (std::chrono::steady_clock::now() >= deadline)
      return errorOf("cannot connect to ", address, ":", port, ": ",
                     std::strerror(problem));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

} // namespace heddle::runtime
