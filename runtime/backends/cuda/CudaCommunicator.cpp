//===- CudaCommunicator.cpp - Collectives of ranks on one GPU -------------===//

#include "backends/cuda/CudaCommunicator.h"
#include "communicators/EmulatedLinks.h"
#include "support/Message.h"

#include <algorithm>
#include <array>

namespace heddle::runtime::cuda {

CudaCommunicator::CudaCommunicator(CudaDevice &device, int32_t stream,
                                   std::vector<GroupView> groups,
                                   std::shared_ptr<Meetings> meetings,
                                   std::shared_ptr<const LinkClocks> clocks)
    : CheckedCommunicator(std::move(groups)), device(device), stream(stream),
      meetings(std::move(meetings)), clocks(std::move(clocks)),
      events(this->groups().size()) {}

CudaCommunicator::~CudaCommunicator() {
  if (!device.gpu().use().ok())
    return;
  const Driver &driver = device.gpu().driver();
  auto destroy = [&](Event event) {
    if (event)
      driver.eventDestroy(event);
  };
  for (auto [before, after] : events) {
    destroy(before);
    destroy(after);
  }
  for (const auto &message : messages) {
    destroy(message->sent);
    destroy(message->read);
  }
}

Expected<Event> CudaCommunicator::record(Event &event) {
  const Driver &driver = device.gpu().driver();
  if (!event)
    HEDDLE_RT_RETURN_IF_ERROR(device.check(
        driver.eventCreate(&event, kEventDisableTiming), "cuEventCreate"));
  HEDDLE_RT_RETURN_IF_ERROR(device.check(
      driver.eventRecord(event, device.stream(stream)), "cuEventRecord"));
  return event;
}

Status CudaCommunicator::wait(Event event) {
  return device.check(
      device.gpu().driver().streamWaitEvent(device.stream(stream), event, 0),
      "cuStreamWaitEvent");
}

Status CudaCommunicator::waitForAll(const Offers &offers, int32_t member) {
  for (size_t i = 0; i < offers.size(); ++i)
    if (int32_t(i) != member)
      HEDDLE_RT_RETURN_IF_ERROR(wait(offers[i].event));
  return Status::success();
}

void CudaCommunicator::abort(const Status &why) {
  meetings->abort(why);
  // If this fails, the waits end with their flows.
  if (clocks)
    (void)clocks->stop(device);
}

Status CudaCommunicator::beginFlow(const Collective &call,
                                   const Traffic &traffic) {
  if (!flowEnd) {
    Expected<Address> memory = device.reserve(sizeof(uint64_t));
    HEDDLE_RT_RETURN_IF_ERROR(memory.status());
    flowEnd = *memory;
  }
  return clocks->begin(device, stream, traffic, flowEnd)
      .in(concat(name(call.kind), " of ",
                 call.count * int64_t(byteSize(call.type)), " bytes"));
}

Status CudaCommunicator::endFlow() {
  return clocks->end(device, stream, flowEnd);
}

Status CudaCommunicator::copy(void *to, const void *from, int64_t bytes) {
  return device.copyOnDevice(stream, from, bytes, to, bytes, 1, bytes);
}

Status CudaCommunicator::reduce(const Offers &offers,
                                std::vector<const void *> outs,
                                int64_t inOffset, int64_t outOffset,
                                int64_t count) {
  const Collective &call = offers.front().call;
  if (count == 0)
    return Status::success();
  std::vector<const void *> ins;
  for (const Offer &offer : offers)
    ins.push_back(offer.call.in);
  Expected<const void *> inTable =
      device.upload(ins.data(), ins.size() * sizeof(void *));
  HEDDLE_RT_RETURN_IF_ERROR(inTable.status());
  Expected<const void *> outTable =
      device.upload(outs.data(), outs.size() * sizeof(void *));
  HEDDLE_RT_RETURN_IF_ERROR(outTable.status());
  const std::array<uint64_t, 9> arguments{reinterpret_cast<uint64_t>(*inTable),
                                          ins.size(),
                                          uint64_t(inOffset),
                                          reinterpret_cast<uint64_t>(*outTable),
                                          outs.size(),
                                          uint64_t(outOffset),
                                          uint64_t(count),
                                          uint64_t(call.type),
                                          uint64_t(call.reduction)};
  return device.launchLibrary(stream, "heddle_reduce",
                              std::min<int64_t>((count + 127) / 128, 4096),
                              arguments);
}

Status CudaCommunicator::copyFromAll(const Offers &offers, int64_t first,
                                     int64_t bytes, void *out) {
  auto *to = static_cast<char *>(out);
  for (const Offer &offer : offers) {
    HEDDLE_RT_RETURN_IF_ERROR(
        copy(to, static_cast<const char *>(offer.call.in) + first, bytes));
    to += bytes;
  }
  return Status::success();
}

Status CudaCommunicator::exchange(const Collective &call, const Offers &offers,
                                  int32_t member) {
  int64_t bytes = call.count * int64_t(byteSize(call.type));
  switch (call.kind) {
  case Collective::Kind::AllReduce: {
    // Each member sums a slice and writes it to all.
    auto size = int64_t(offers.size());
    int64_t begin = call.count * member / size;
    int64_t end = call.count * (member + 1) / size;
    std::vector<const void *> outs;
    for (const Offer &offer : offers)
      outs.push_back(offer.call.out);
    return reduce(offers, outs, begin, begin, end - begin);
  }
  case Collective::Kind::ReduceScatter:
    return reduce(offers, {call.out}, member * call.count, 0, call.count);
  case Collective::Kind::AllGather:
    return copyFromAll(offers, 0, bytes, call.out);
  case Collective::Kind::AllToAll:
    return copyFromAll(offers, member * bytes, bytes, call.out);
  case Collective::Kind::Broadcast: {
    const void *from = offers[size_t(call.peer)].call.in;
    return from == call.out ? Status::success() : copy(call.out, from, bytes);
  }
  case Collective::Kind::Permute: {
    int32_t source = call.sources[member];
    return source < 0 ? device.fillZero(stream, call.out, bytes)
                      : copy(call.out, offers[size_t(source)].call.in, bytes);
  }
  case Collective::Kind::Send:
  case Collective::Kind::Recv:
    break;
  }
  return Status::error("the kind of a collective is unknown");
}

Status CudaCommunicator::send(const Collective &call) {
  const GroupView &view = viewOf(call);
  Meetings::Channel channel{call.group, view.ranks[size_t(view.member)],
                            view.ranks[size_t(call.peer)], stream};
  size_t bytes = size_t(call.count) * byteSize(call.type);
  if (clocks)
    HEDDLE_RT_RETURN_IF_ERROR(
        beginFlow(call, clocks->links().transfer(channel.from, channel.to,
                                                 int64_t(bytes))));
  Message *message = meetings->findUnused(channel, bytes);
  if (message) {
    HEDDLE_RT_RETURN_IF_ERROR(wait(message->read));
  } else {
    message = messages.emplace_back(std::make_unique<Message>()).get();
    message->bytes = bytes;
    if (bytes > 0) {
      Expected<Address> memory = device.reserve(bytes);
      HEDDLE_RT_RETURN_IF_ERROR(memory.status());
      message->copy = *memory;
    }
  }
  message->type = call.type;
  message->count = call.count;
  HEDDLE_RT_RETURN_IF_ERROR(
      copy(reinterpret_cast<void *>(message->copy), call.in, int64_t(bytes)));
  // The receiver waits for the end of the flow too.
  if (clocks)
    HEDDLE_RT_RETURN_IF_ERROR(endFlow());
  HEDDLE_RT_RETURN_IF_ERROR(record(message->sent).status());
  return meetings->send(channel, *message);
}

Status CudaCommunicator::receive(const Collective &call) {
  const GroupView &view = viewOf(call);
  Meetings::Channel channel{call.group, view.ranks[size_t(call.peer)],
                            view.ranks[size_t(view.member)], stream};
  Expected<Message *> message =
      meetings->receive(channel, call.type, call.count);
  HEDDLE_RT_RETURN_IF_ERROR(message.status());
  HEDDLE_RT_RETURN_IF_ERROR(wait((*message)->sent));
  HEDDLE_RT_RETURN_IF_ERROR(copy(call.out,
                                 reinterpret_cast<void *>((*message)->copy),
                                 int64_t((*message)->bytes)));
  HEDDLE_RT_RETURN_IF_ERROR(record((*message)->read).status());
  meetings->giveBack(channel, **message);
  return Status::success();
}

Status CudaCommunicator::run(const Collective &call) {
  if (call.kind == Collective::Kind::Send)
    return send(call);
  if (call.kind == Collective::Kind::Recv)
    return receive(call);
  auto [ranks, member] = viewOf(call);
  Meetings::Place place{call.group, ranks, stream};
  auto &[before, after] = events[size_t(call.group)];
  Expected<Event> ready = record(before);
  HEDDLE_RT_RETURN_IF_ERROR(ready.status());
  auto offers = meetings->meet(place, member, {call, *ready});
  HEDDLE_RT_RETURN_IF_ERROR(offers.status());
  HEDDLE_RT_RETURN_IF_ERROR(waitForAll(**offers, member));
  // One member emulates the links. The others wait for it at the end.
  bool isOnLinks = clocks && member == 0 && ranks.size() > 1;
  if (isOnLinks)
    HEDDLE_RT_RETURN_IF_ERROR(
        beginFlow(call, trafficOf(call, ranks, clocks->links())));
  HEDDLE_RT_RETURN_IF_ERROR(exchange(call, **offers, member));
  if (isOnLinks)
    HEDDLE_RT_RETURN_IF_ERROR(endFlow());
  Expected<Event> done = record(after);
  HEDDLE_RT_RETURN_IF_ERROR(done.status());
  auto ends = meetings->meet(place, member, {call, *done});
  HEDDLE_RT_RETURN_IF_ERROR(ends.status());
  return waitForAll(**ends, member);
}

} // namespace heddle::runtime::cuda
