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
    for (const ProgramCall &call : list.calls)
      repeat(call.repeat, [&] {
        events.clear();
        add(call.program->getRegion(0).front());
      });
  }
  std::vector<CallQueues> take() {
    llvm::erase_if(parts,
                   [](const CallQueues &part) { return part.calls.empty(); });
    return std::move(parts);
  }

private:
  CallQueues &part() { return parts.back(); }
  void beginPart(int64_t repeat) {
    parts.push_back({devices, {}, {}, {}, repeat});
    events.clear();
  }
  /// Adds what addOnce() adds, `count` times.
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
  void add(Block &block) {
    for (Operation &op : block) {
      if (auto call = dyn_cast<rt::DeviceCallOpInterface>(op)) {
        push(call.getStream(), QueueItem::Call, part().calls.size());
        part().calls.push_back(call);
      } else if (auto record = dyn_cast<rt::RecordOp>(op)) {
        unsigned event = part().recorders.size();
        events[record.getEvent()] = event;
        part().recorders.push_back(record.getStream());
        push(record.getStream(), QueueItem::Record, event);
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
  std::vector<CallQueues> parts;
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
    return {std::move(devices), {}, {}, {}, 1};
  return std::move(parts.front());
}
