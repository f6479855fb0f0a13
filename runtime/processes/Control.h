//===- Control.h - Signs of life and failures of processes ------*- C++ -*-===//
//
// Process 0 has a connection to every other process. Both ends of a connection
// send a sign of life now and then. Process 0 decides which failure came first
// and tells it to all. So all processes report the same cause.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_PROCESSES_CONTROL_H
#define HEDDLE_RT_PROCESSES_CONTROL_H

#include "processes/Join.h"

#include <atomic>
#include <condition_variable>
#include <map>
#include <mutex>
#include <thread>

namespace heddle::runtime {

class Control {
public:
  Control(const JobOptions &options, Joined joined);
  /// Says goodbye, so that the others do not report a death.
  ~Control();

  const JobOptions &jobOptions() const { return options; }
  /// The connections of the result belong to this object and are closed.
  const Joined &members() const { return joined; }
  void setRanksPerProcess(int64_t count) { ranksPerProcess = count; }

  /// Implement the functions of Job that have these names.
  Status fail(const Status &why);
  Status awaitFailure(std::chrono::milliseconds time) const;
  uint64_t onFailure(std::function<void(const Status &)> callback);
  void forget(uint64_t number);

  /// Publishes a value to all processes.
  void publish(const std::string &key, const std::vector<char> &value);
  /// Waits until the value is known. Returns nothing after a failure or a
  /// timeout.
  std::optional<std::vector<char>> find(const std::string &key,
                                        std::chrono::milliseconds time) const;

private:
  enum class Kind : uint32_t { Alive, Publish, Failed, Goodbye };
  struct Header {
    Kind kind;
    uint32_t bytes; ///< after the header
  };
  /// The connection to another process. Closed if there is none. Its fields
  /// belong to the thread, except `socket` and `isOpen`.
  struct Peer {
    std::mutex mutex; ///< held by who writes or closes
    Socket socket;
    std::atomic<bool> isOpen = false;
    Deadline heard;
    std::string received; ///< the beginning of a message
    bool hasLeft = false; ///< said goodbye
  };

  bool isFirst() const { return options.process == 0; }
  std::string describe(size_t process) const;
  void serve();
  void receive(size_t process);
  void handle(size_t process, Kind kind, std::string_view payload);
  void send(size_t process, Kind kind, std::string_view payload);
  /// Sends to all connected processes except one.
  void sendToAll(Kind kind, std::string_view payload, size_t except);
  /// Records a failure as the first one, and tells the others. The thread calls
  /// the callbacks.
  void declare(const Status &why);
  void wakeUp();
  void remember(std::string_view payload);

  const JobOptions options;
  Joined joined;
  std::atomic<int64_t> ranksPerProcess{1};
  std::vector<std::unique_ptr<Peer>> peers; ///< by process

  mutable std::mutex mutex; ///< guards what follows
  mutable std::condition_variable changed;
  Status failure;
  std::map<std::string, std::vector<char>> published;
  bool hasCalled = false; ///< the callbacks
  bool stopping = false;

  std::mutex callbackMutex; ///< held while callbacks run
  std::map<uint64_t, std::function<void(const Status &)>> callbacks;
  uint64_t nextCallback = 1;

  Socket wake; ///< an eventfd that the thread polls
  std::thread thread;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_PROCESSES_CONTROL_H
