//===- CudaCommunicator.cpp - Collectives of ranks on one GPU -------------===//

#include "backends/cuda/CudaCommunicator.h"
#include "support/Message.h"

#include <algorithm>
#include <array>

namespace heddle::runtime::cuda {

CudaCommunicator::CudaCommunicator(CudaDevice &device, int32_t stream,
                                   std::vector<GroupView> groups,
                                   std::shared_ptr<Meetings> meetings)
    : device(device), stream(stream), groups(std::move(groups)),
      meetings(std::move(meetings)), events(this->groups.size()) {}

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
}

int32_t CudaCommunicator::groupSize(int32_t group) const {
  if (group < 0 || size_t(group) >= groups.size() ||
      groups[size_t(group)].member < 0)
    return 0;
  return int32_t(groups[size_t(group)].ranks.size());
}

Expected<const GroupView *> CudaCommunicator::viewOf(int32_t group) const {
  if (groupSize(group) == 0)
    return errorOf("expected a group that this rank is a member of, got group ",
                   group);
  return &groups[size_t(group)];
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

Status CudaCommunicator::waitForAll(const Offers &offers, int32_t member) {
  for (size_t i = 0; i < offers.size(); ++i)
    if (int32_t(i) != member)
      HEDDLE_RT_RETURN_IF_ERROR(
          device.check(device.gpu().driver().streamWaitEvent(
                           device.stream(stream), offers[i].event, 0),
                       "cuStreamWaitEvent"));
  return Status::success();
}

static Status checkAgreement(const Offers &offers) {
  const Collective &first = offers.front().call;
  for (size_t i = 1; i < offers.size(); ++i) {
    const Collective &other = offers[i].call;
    if (other.kind != first.kind || other.type != first.type ||
        other.count != first.count || other.reduction != first.reduction ||
        other.peer != first.peer)
      return errorOf("members 0 and ", i, " disagree: ", name(first.kind),
                     " of ", first.count, " ", name(first.type), ", and ",
                     name(other.kind), " of ", other.count, " ",
                     name(other.type));
  }
  return Status::success();
}

Status CudaCommunicator::meet(const Collective &call, const Part &part) {
  Expected<const GroupView *> view = viewOf(call.group);
  HEDDLE_RT_RETURN_IF_ERROR(view.status());
  auto [ranks, member] = **view;
  Meetings::Place place{call.group, ranks, stream};
  auto &[before, after] = events[size_t(call.group)];
  Expected<Event> ready = record(before);
  HEDDLE_RT_RETURN_IF_ERROR(ready.status());
  auto offers = meetings->meet(place, member, {call, *ready});
  HEDDLE_RT_RETURN_IF_ERROR(offers.status());
  HEDDLE_RT_RETURN_IF_ERROR(checkAgreement(**offers));
  HEDDLE_RT_RETURN_IF_ERROR(waitForAll(**offers, member));
  HEDDLE_RT_RETURN_IF_ERROR(part(**offers, member));
  Expected<Event> done = record(after);
  HEDDLE_RT_RETURN_IF_ERROR(done.status());
  auto ends = meetings->meet(place, member, {call, *done});
  HEDDLE_RT_RETURN_IF_ERROR(ends.status());
  return waitForAll(**ends, member);
}

Status CudaCommunicator::copy(void *to, const void *from, int64_t bytes) {
  return device.copy(stream, from, bytes, to, bytes, 1, bytes);
}

Status CudaCommunicator::reduce(const Offers &offers,
                                std::vector<const void *> outs,
                                int64_t inOffset, int64_t outOffset,
                                int64_t count) {
  const Collective &call = offers.front().call;
  if (call.type == HEDDLE_RT_F16)
    return error("elements of type f16 cannot be reduced on a GPU");
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

Status CudaCommunicator::allReduce(int32_t group, Reduction reduction,
                                   DType type, const void *in, void *out,
                                   int64_t count) {
  return meet({.kind = Collective::Kind::AllReduce,
               .group = group,
               .type = type,
               .in = in,
               .out = out,
               .count = count,
               .reduction = reduction},
              [&](const Offers &offers, int32_t member) {
                // Each member sums a slice and writes it to all.
                auto size = int64_t(offers.size());
                int64_t begin = count * member / size;
                int64_t end = count * (member + 1) / size;
                std::vector<const void *> outs;
                for (const Offer &offer : offers)
                  outs.push_back(offer.call.out);
                return reduce(offers, outs, begin, begin, end - begin);
              });
}

Status CudaCommunicator::allGather(int32_t group, DType type, const void *in,
                                   void *out, int64_t count) {
  return meet({.kind = Collective::Kind::AllGather,
               .group = group,
               .type = type,
               .in = in,
               .out = out,
               .count = count},
              [&](const Offers &offers, int32_t) {
                auto bytes = count * int64_t(byteSize(type));
                auto *to = static_cast<char *>(out);
                for (const Offer &offer : offers) {
                  HEDDLE_RT_RETURN_IF_ERROR(copy(to, offer.call.in, bytes));
                  to += bytes;
                }
                return Status::success();
              });
}

Status CudaCommunicator::reduceScatter(int32_t group, Reduction reduction,
                                       DType type, const void *in, void *out,
                                       int64_t count) {
  return meet({.kind = Collective::Kind::ReduceScatter,
               .group = group,
               .type = type,
               .in = in,
               .out = out,
               .count = count,
               .reduction = reduction},
              [&](const Offers &offers, int32_t member) {
                return reduce(offers, {out}, member * count, 0, count);
              });
}

Status CudaCommunicator::allToAll(int32_t group, DType type, const void *in,
                                  void *out, int64_t count) {
  return meet({.kind = Collective::Kind::AllToAll,
               .group = group,
               .type = type,
               .in = in,
               .out = out,
               .count = count},
              [&](const Offers &offers, int32_t member) {
                auto bytes = count * int64_t(byteSize(type));
                auto *to = static_cast<char *>(out);
                for (const Offer &offer : offers) {
                  HEDDLE_RT_RETURN_IF_ERROR(copy(
                      to,
                      static_cast<const char *>(offer.call.in) + member * bytes,
                      bytes));
                  to += bytes;
                }
                return Status::success();
              });
}

Status CudaCommunicator::broadcast(int32_t group, int32_t root, DType type,
                                   const void *in, void *out, int64_t count) {
  if (root < 0 || root >= groupSize(group))
    return errorOf("expected a root below ", groupSize(group), ", got ", root);
  return meet({.kind = Collective::Kind::Broadcast,
               .group = group,
               .type = type,
               .in = in,
               .out = out,
               .count = count,
               .peer = root},
              [&](const Offers &offers, int32_t) {
                const void *from = offers[size_t(root)].call.in;
                return from == out
                           ? Status::success()
                           : copy(out, from, count * int64_t(byteSize(type)));
              });
}

Status CudaCommunicator::permute(int32_t group, const int32_t *sources,
                                 DType type, const void *in, void *out,
                                 int64_t count) {
  return meet({.kind = Collective::Kind::Permute,
               .group = group,
               .type = type,
               .in = in,
               .out = out,
               .count = count},
              [&](const Offers &offers, int32_t member) {
                auto bytes = count * int64_t(byteSize(type));
                int32_t source = sources[member];
                if (source < -1 || source >= int32_t(offers.size()))
                  return errorOf("expected sources below ", offers.size(),
                                 ", got ", source);
                return source < 0
                           ? device.fillZero(stream, out, bytes)
                           : copy(out, offers[size_t(source)].call.in, bytes);
              });
}

/// A receive would have to wait, on its stream, for an event that its peer has
/// not recorded yet. To wait on the host instead would stop the calls behind
/// it, among them the send for which the peer may wait.
static Status refuseTransfers() {
  return Status::error("pipelines are not served on a GPU yet: choose a mesh "
                       "without the axis pp, or compile the model without "
                       "--target-gpu");
}

Status CudaCommunicator::send(int32_t, int32_t, DType, const void *, int64_t) {
  return refuseTransfers();
}

Status CudaCommunicator::recv(int32_t, int32_t, DType, void *, int64_t) {
  return refuseTransfers();
}

} // namespace heddle::runtime::cuda
