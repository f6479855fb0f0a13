//===- CallQueues.cpp - Programs as queues of streams ---------------------===//

#include "CallQueues.h"

using namespace mlir;
using namespace heddle;

namespace {
class QueueBuilder {
public:
  QueueBuilder(std::vector<int64_t> devices, int64_t loopIterations,
               bool inParts)
      : devices(std::move(devices)), loopIterations(loopIterations),
        inParts(inParts) {
    beginPart(1);
  }

  void add(const CallList &list) {
    std::vector<bool> isAwaited(list.calls.size());
    for (const ProgramCall &call : list.calls)
      for (unsigned other : call.after)
        isAwaited[other] = true;
    endOf.resize(list.calls.size());
    for (entry = 0; entry < list.calls.size(); ++entry) {
      const ProgramCall &call = list.calls[entry];
      rt::DeviceCallOpInterface transfer = call.transfer;
      int32_t stream = transfer ? transfer.getStream() : kComputeStream;
      // Parts run one after the other, so in parts, earlier entries have ended.
      if (!inParts)
        for (unsigned other : call.after)
          push(stream, QueueItem::Wait, endOf[other]);
      if (transfer)
        add(transfer);
      else
        repeat(call.repeat, [&] {
          events.clear();
          rt::ProgramOp program = call.program;
          add(program->getRegion(0).front());
        });
      if (isAwaited[entry])
        endOf[entry] = record(stream);
    }
  }
  std::vector<CallQueues> take() {
    llvm::erase_if(parts,
                   [](const CallQueues &part) { return part.calls.empty(); });
    return std::move(parts);
  }

private:
  CallQueues &part() { return parts.back(); }
  void beginPart(int64_t repeat) {
    parts.push_back({devices, {}, {}, {}, {}, repeat});
    events.clear();
  }
  /// Adds the items that addOnce() adds, `count` times.
  void repeat(int64_t count, llvm::function_ref<void()> addOnce) {
    if (!inParts) {
      for (int64_t i = 0; i < count; ++i)
        addOnce();
      return;
    }
    int64_t outer = part().repeat;
    beginPart(outer * count);
    addOnce();
    beginPart(outer);
  }
  void add(rt::DeviceCallOpInterface call) {
    push(call.getStream(), QueueItem::Call, part().calls.size());
    part().calls.push_back(call);
    part().entries.push_back(entry);
  }
  /// Records an event on the stream, and returns its number.
  unsigned record(int32_t stream) {
    unsigned event = part().recorders.size();
    part().recorders.push_back(stream);
    push(stream, QueueItem::Record, event);
    return event;
  }
  void add(Block &block) {
    for (Operation &op : block) {
      if (auto call = dyn_cast<rt::DeviceCallOpInterface>(op)) {
        add(call);
      } else if (auto recordOp = dyn_cast<rt::RecordOp>(op)) {
        events[recordOp.getEvent()] = record(recordOp.getStream());
      } else if (auto wait = dyn_cast<rt::WaitOp>(op)) {
        // An event of an earlier part has occurred.
        if (auto event = events.find(wait.getEvent()); event != events.end())
          push(wait.getStream(), QueueItem::Wait, event->second);
      } else if (auto loop = dyn_cast<rt::WhileOp>(op)) {
        add(loop);
      }
    }
  }
  /// The host waits for all streams after each run of `before`.
  void add(rt::WhileOp loop) {
    add(loop.getBefore().front());
    addBarrier();
    repeat(loopIterations, [&] {
      add(loop.getAfter().front());
      add(loop.getBefore().front());
      addBarrier();
    });
  }
  void addBarrier() {
    for (int32_t stream = 0; stream < kMaxStreams; ++stream)
      push(stream, QueueItem::Barrier, 0);
  }
  void push(int32_t stream, QueueItem::Kind kind, unsigned number) {
    part().streams[stream].push_back({kind, number});
  }

  std::vector<int64_t> devices;
  int64_t loopIterations;
  bool inParts;
  unsigned entry = 0; ///< that is being added
  std::vector<CallQueues> parts;
  std::vector<unsigned> endOf;              ///< by entry, the event of its end
  llvm::DenseMap<int32_t, unsigned> events; ///< the latest record of each
};
} // namespace

std::vector<CallQueues> heddle::makeParts(const CallList &list,
                                          std::vector<int64_t> devices,
                                          int64_t loopIterations) {
  QueueBuilder builder(std::move(devices), loopIterations, /*inParts=*/true);
  builder.add(list);
  return builder.take();
}

CallQueues heddle::makeQueues(const CallList &list,
                              std::vector<int64_t> devices,
                              int64_t loopIterations) {
  QueueBuilder builder(devices, loopIterations, /*inParts=*/false);
  builder.add(list);
  std::vector<CallQueues> parts = builder.take();
  if (parts.empty())
    return {std::move(devices), {}, {}, {}, {}, 1};
  return std::move(parts.front());
}
