//===- Join.h - How the processes of a job find each other ------*- C++ -*-===//
//
// Process 0 listens. For each connection:
//
//   process 0 -> other   Challenge: a nonce
//   other -> process 0   Hello: a nonce, who it is, HMAC(key, both)
//   process 0 -> other   Welcome: HMAC(key, both nonces)
//
// Process 0 interprets a Hello only if its HMAC is right. It refuses and logs
// other connections. When all processes have joined, it stops listening. The
// connections stay open for Control.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_PROCESSES_JOIN_H
#define HEDDLE_RT_PROCESSES_JOIN_H

#include "heddle_rt/job.h"
#include "processes/Socket.h"

#include <array>

namespace heddle::runtime {

/// A process as the others know it.
struct ProcessInfo {
  std::array<char, 64> host{}; ///< name, with a null at its end
  int32_t pid = 0;
};

struct Joined {
  /// By process. Process 0 has a connection to each other process, the others
  /// have one to process 0; the rest are closed.
  std::vector<Socket> peers;
  std::vector<ProcessInfo> processes;
  /// The address of this machine that other processes reach.
  std::string localAddress;
  std::array<uint8_t, 16> session{}; ///< random; the same in all processes
};

Expected<Joined> joinJob(const JobOptions &options);

} // namespace heddle::runtime

#endif // HEDDLE_RT_PROCESSES_JOIN_H
