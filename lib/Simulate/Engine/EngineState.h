//===- EngineState.h - What is under way ------------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_SIMULATE_ENGINE_ENGINESTATE_H
#define HEDDLE_LIB_SIMULATE_ENGINE_ENGINESTATE_H

#include "Engine.h"
#include <deque>
#include <memory>
#include <unordered_map>

namespace heddle::simulator {

/// The place of a call: a stream of a list.
struct Place {
  unsigned list;
  int32_t stream;
  unsigned call;
};

/// A communication that at least one list has come to.
struct Flow {
  std::vector<Place> members; ///< that have come to it
  Traffic traffic;
  double least = 0; ///< seconds that it takes from now on at least
  double load = 1;  ///< see CostModel::getLoad
  size_t phase = 0;
  double latency = 0, bytes = 0; ///< left of the phase
  bool hasEnded = false;

  /// Goes on to the next phase that takes time. Ends the flow behind the last.
  void beginPhase() {
    for (; phase < traffic.size(); ++phase) {
      latency = traffic[phase].latency;
      bytes = traffic[phase].pattern < 0 ? 0 : traffic[phase].bytes;
      if (latency > 0 || bytes > 0)
        return;
    }
  }
  bool usesLinks() const {
    return phase < traffic.size() && latency <= 0 && bytes > 0;
  }
};

/// A stream of the representative rank of a list.
struct Stream {
  size_t next = 0; ///< item of the queue
  enum { Idle, Computing, Communicating } state = Idle;
  unsigned call = 0;   ///< that runs
  double left = 0;     ///< seconds of a computing call, at full pace
  double slowdown = 1; ///< while the device communicates
  /// Whether the communication is under way: all lists have come to it.
  bool hasBegun = false;
  /// The call whose end let the stream come to `next`, and the time.
  CallRef cause;
  double ready = 0;
};

/// An event that is recorded once.
struct Event {
  bool hasOccurred = false;
  double time = 0;
  CallRef cause;
};

/// Properties of a call that are the same each time it runs.
struct KnownCall {
  double seconds = 0, slowdown = 1;
  std::optional<Communication> communication; ///< if it is one
};

/// Runs queues. Times are seconds from the start of the part.
class Engine {
public:
  Engine(llvm::ArrayRef<CallQueues> lists, LinkTraffic &links, MeshAttr mesh,
         CostModel &model);

  mlir::FailureOr<std::vector<std::vector<CallTimes>>> run();

private:
  // Queues. `advance` takes the next item of an idle stream's queue, and
  // returns false if the stream has to wait.
  mlir::LogicalResult advanceStreams();
  mlir::FailureOr<bool> advance(unsigned list, int32_t stream);
  bool passBarrier(unsigned list);
  void end(const Place &place);

  using Axes = std::vector<unsigned>;
  /// The lists that take part in collectives, and their devices, in order.
  struct Meeting {
    std::vector<unsigned> lists;
    std::vector<int64_t> devices;
  };
  /// The traffic and times of a communication: see Flow and CallTimes. Its
  /// first phase is the launch.
  struct Effort {
    Traffic traffic;
    double least = 0, load = 1, seconds = 0;
    int64_t bytes = 0;
  };
  /// The axes, stream, sending and receiving list of a transfer.
  using Channel = std::tuple<Axes, int32_t, unsigned, unsigned>;
  struct Route {
    std::vector<Channel> channels;
    Effort effort; ///< of a send
  };

  // Calls that streams come to.
  mlir::FailureOr<const KnownCall *> getKnown(rt::DeviceCallOpInterface call);
  mlir::LogicalResult begin(Place place);
  const Meeting &getMeeting(unsigned list, const Axes &axes);
  void beginCollective(Place place, const Communication &collective);
  mlir::FailureOr<const Route *> getRoute(Place place,
                                          const Communication &transfer);
  mlir::LogicalResult beginTransfer(Place place, const Communication &transfer);
  Effort getEffort(const Communication &communication, Traffic traffic);
  void start(const std::shared_ptr<Flow> &flow, const Effort &effort);
  double getWake(Place place) const;
  void takeTransfers();
  bool endReceives();

  // Time.
  double findPaces();
  void blame(double seconds);
  void pass(double seconds);
  mlir::LogicalResult emitDeadlock();

  llvm::ArrayRef<CallQueues> lists;
  LinkTraffic &links;
  const MeshTopology &topology;
  MeshAttr mesh;
  CostModel &model;
  std::vector<std::array<Stream, kMaxStreams>> streams; ///< by list
  std::vector<std::vector<Event>> events;               ///< by list
  std::vector<std::vector<CallTimes>> times;            ///< by list
  llvm::DenseMap<int64_t, unsigned> listOf;             ///< by device
  double now = 0;

  std::vector<std::shared_ptr<Flow>> underWay;
  /// The seconds that a second of latency or a byte of each flow under way
  /// takes, and a second of computation of each stream, until the next event.
  std::vector<double> flowPaces;
  std::vector<std::array<double, kMaxStreams>> streamPaces;

  // What is known of calls, and of calls of a list. Nodes do not move.
  std::unordered_map<mlir::Operation *, KnownCall> knownCalls;
  std::map<std::pair<unsigned, Axes>, Meeting> meetingsOf;
  std::map<std::pair<mlir::Operation *, unsigned>, Effort> effortOf;
  std::map<std::pair<mlir::Operation *, unsigned>, Route> routes;

  /// Collectives that not all lists have come to. The key has the lists, axes,
  /// stream, and number among the collectives of this list, axes and stream.
  std::map<std::tuple<std::vector<unsigned>, Axes, int32_t, unsigned>,
           std::shared_ptr<Flow>>
      meetings;
  std::map<std::tuple<unsigned, Axes, int32_t>, unsigned> numCollectives;

  struct Receive {
    Place place;
    std::vector<Channel> channels; ///< whose next transfer was not sent yet
    std::vector<std::shared_ptr<Flow>> flows;
  };
  /// Transfers that no receive has taken yet, and receives under way.
  std::map<Channel, std::deque<std::shared_ptr<Flow>>> sent;
  std::vector<Receive> receives;
};

} // namespace heddle::simulator

#endif // HEDDLE_LIB_SIMULATE_ENGINE_ENGINESTATE_H
