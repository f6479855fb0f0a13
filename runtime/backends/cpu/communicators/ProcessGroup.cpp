//===- ProcessGroup.cpp - A group whose members share messages ------------===//

#include "backends/cpu/communicators/ProcessGroup.h"
#include "communicators/Errors.h"

namespace heddle::runtime {

using Kind = Collective::Kind;
using Clock = Transport::Clock;

//===----------------------------------------------------------------------===//
// ProcessState
//===----------------------------------------------------------------------===//

ProcessState::ProcessState(std::shared_ptr<Job> joined)
    : job(std::move(joined)),
      failure([this](const Status &why) { return job->fail(why); }) {}

void ProcessState::watch() {
  callback = job->onFailure([this](const Status &why) {
    failure.record(why);
    interrupt();
  });
}

void ProcessState::interrupt() {
  for (auto &[key, place] : places)
    place->interrupt();
}

Status ProcessState::failureOfConnection() {
  Status first = job->awaitFailure(std::chrono::seconds(2));
  if (first.ok())
    failure.set(error("the connection to another process is broken"));
  else
    failure.record(first);
  return failure.get();
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

namespace {

/// What a member calls. All members of a collective must agree on it.
struct Header {
  int64_t kind = 0, type = 0, count = 0, detail = 0;
};

Header headerOf(const Collective &call) {
  return {int64_t(call.kind), call.type, call.count, call.detail()};
}

} // namespace

ProcessGroup::ProcessGroup(ProcessState &state, const GroupView &view,
                           int32_t index, int32_t stream,
                           int32_t ranksPerProcess,
                           const ThreadCommunicatorOptions &options)
    : state(state), transport(state.job->transport()), index(index),
      stream(stream), self(view.member), options(options), ranks(view.ranks) {
  std::vector<int32_t> here;
  for (size_t member = 0; member < ranks.size(); ++member) {
    int32_t process = ranks[member] / ranksPerProcess;
    processes.push_back(process);
    bool isHere = process == state.job->process();
    local.push_back(isHere ? int32_t(here.size()) : -1);
    if (isHere)
      here.push_back(ranks[member]);
    else
      others.push_back(int32_t(member));
  }
  auto &known = state.places[{index, stream, ranks.front()}];
  if (!known)
    known = std::make_unique<Rendezvous>(here, state.failure, options);
  place = known.get();
}

Status ProcessGroup::begin(const Collective &call) {
  if (state.failure.isSet())
    return state.failure.get();
  Clock::time_point deadline = Clock::now() + options.timeout;
  std::vector<Header> headers(ranks.size());
  headers[size_t(self)] = headerOf(call);
  Messages receives, sends;
  for (int32_t other : others) {
    int32_t process = processes[size_t(other)];
    receives.push_back(
        transport.receive(process, slot(SlotPurpose::Header, other, self),
                          &headers[size_t(other)], sizeof(Header)));
    sends.push_back(transport.send(process,
                                   slot(SlotPurpose::Header, self, other),
                                   &headers[size_t(self)], sizeof(Header)));
  }
  HEDDLE_RT_RETURN_IF_ERROR(
      place->enterUnchecked(local[size_t(self)], offerOf(call)));

  std::string missing;
  for (size_t i = 0; i < receives.size(); ++i)
    switch (receives[i]->wait(deadline)) {
    case Transport::Message::End::Done:
      break;
    case Transport::Message::End::Late:
      missing += concat(missing.empty() ? "" : ", ", ranks[size_t(others[i])]);
      break;
    case Transport::Message::End::Failed:
      return state.failureOfConnection();
    }
  if (!missing.empty()) {
    state.failure.set(didNotArrive(missing, name(call.kind), options.timeout));
    return state.failure.get();
  }
  auto callOf = [&](size_t i) -> MemberCall {
    if (local[i] < 0)
      return {ranks[i], name(Kind(headers[i].kind)), headers[i].type,
              headers[i].count, headers[i].detail};
    const Offer &offer = place->offer(local[i]);
    return {ranks[i], offer.operation, offer.type, offer.count, offer.detail};
  };
  for (size_t i = 1; i < ranks.size(); ++i)
    if (Status agreed = checkAgreement(callOf(0), callOf(i)); !agreed.ok()) {
      state.failure.set(agreed);
      return state.failure.get();
    }
  return waitForAll(sends);
}

Status ProcessGroup::end(Messages &messages) {
  HEDDLE_RT_RETURN_IF_ERROR(waitForAll(messages));
  return leave();
}

Status ProcessGroup::waitForAll(Messages &messages) {
  for (auto &message : messages)
    if (message->wait(Clock::time_point::max()) !=
        Transport::Message::End::Done)
      return state.failureOfConnection();
  messages.clear();
  return Status::success();
}

void ProcessGroup::post(Messages &messages, int32_t to, const void *data,
                        int64_t bytes) {
  if (bytes > 0)
    messages.push_back(transport.send(processes[size_t(to)],
                                      slot(SlotPurpose::Data, self, to), data,
                                      size_t(bytes)));
}

void ProcessGroup::expect(Messages &messages, int32_t from, void *data,
                          int64_t bytes) {
  if (bytes > 0)
    messages.push_back(transport.receive(processes[size_t(from)],
                                         slot(SlotPurpose::Data, from, self),
                                         data, size_t(bytes)));
}

//===----------------------------------------------------------------------===//
// Transfers
//===----------------------------------------------------------------------===//

Status ProcessGroup::send(const Collective &call) {
  if (isLocal(call.peer))
    return place->send(local[size_t(self)], local[size_t(call.peer)], call.type,
                       call.in, call.count);
  if (state.failure.isSet())
    return state.failure.get();
  Header header = headerOf(call);
  int32_t process = processes[size_t(call.peer)];
  uint64_t to = slot(SlotPurpose::Transfer, self, call.peer);
  transport.sendCopy(process, to, &header, sizeof header);
  if (call.count > 0)
    transport.sendCopy(process, to, call.in,
                       size_t(call.count) * byteSize(call.type));
  return Status::success();
}

Status ProcessGroup::recv(const Collective &call) {
  if (isLocal(call.peer))
    return place->recv(local[size_t(self)], local[size_t(call.peer)], call.type,
                       call.out, call.count);
  if (state.failure.isSet())
    return state.failure.get();
  int32_t process = processes[size_t(call.peer)];
  uint64_t from = slot(SlotPurpose::Transfer, call.peer, self);
  int32_t rank = ranks[size_t(self)], sender = ranks[size_t(call.peer)];
  Header header;
  auto message = transport.receive(process, from, &header, sizeof header);
  switch (message->wait(Clock::now() + options.timeout)) {
  case Transport::Message::End::Done:
    break;
  case Transport::Message::End::Late:
    state.failure.set(didNotSend(sender, rank, options.timeout));
    return state.failure.get();
  case Transport::Message::End::Failed:
    return state.failureOfConnection();
  }
  Status matches = checkMessage(rank, call.type, call.count, sender,
                                DType(header.type), header.count);
  if (!matches.ok()) {
    state.failure.set(matches);
    return state.failure.get();
  }
  Messages data;
  if (call.count > 0)
    data.push_back(transport.receive(process, from, call.out,
                                     size_t(call.count) * byteSize(call.type)));
  return waitForAll(data);
}

} // namespace heddle::runtime
