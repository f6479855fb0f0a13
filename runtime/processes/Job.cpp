//===- Job.cpp - The processes that run one artifact ----------------------===//

#include "heddle_rt/job.h"
#include "communicators/Transport.h"
#include "processes/GlooTransport.h"
#include "support/Message.h"

#include <csignal>
#include <cstring>
#include <string>

namespace heddle::runtime {

Transport::~Transport() = default;
Transport::Message::~Message() = default;

struct Job::Impl {
  std::unique_ptr<Control> control;
  std::unique_ptr<Transport> transport;
  uint64_t callback = 0;
  bool hasLeft = false;

  /// Waits for a message for as long as the job has not failed.
  Status wait(Transport::Message &message) const;
};

static bool isLoopback(const std::string &address) {
  return address == "localhost" || address == "::1" ||
         address.starts_with("127.");
}

Job::Job(std::unique_ptr<Impl> impl) : impl(std::move(impl)) {}

Job::~Job() {
  if (!impl->hasLeft)
    (void)impl->control->fail(
        errorOf("process ", process(), " has left the job before its end"));
  impl->control->forget(impl->callback);
  impl->transport.reset();
}

Expected<std::shared_ptr<Job>> Job::join(const JobOptions &options) {
  HEDDLE_RT_RETURN_IF_ERROR(checkGloo());
  if (options.processes < 2 || options.process < 0 ||
      options.process >= options.processes)
    return errorOf("expected a process below the number of processes, at "
                   "least 2, got process ",
                   options.process, " of ", options.processes);
  if (options.key.empty() && !isLoopback(options.address))
    return errorOf("expected a secret in HEDDLE_JOB_KEY, because others may "
                   "reach ",
                   options.address,
                   ": set it to the same text for all processes, for example "
                   "the output of 'openssl rand -hex 16'");
  // A write to a process that has died must fail, not end this one.
  struct sigaction action;
  if (::sigaction(SIGPIPE, nullptr, &action) == 0 &&
      action.sa_handler == SIG_DFL)
    ::signal(SIGPIPE, SIG_IGN);
  Expected<Joined> joined = joinJob(options);
  HEDDLE_RT_RETURN_IF_ERROR(joined.status());
  auto impl = std::make_unique<Impl>();
  impl->control = std::make_unique<Control>(options, std::move(*joined));
  Expected<std::unique_ptr<Transport>> transport =
      makeGlooTransport(*impl->control);
  if (!transport.ok())
    return impl->control->fail(transport.status());
  impl->transport = std::move(*transport);
  impl->callback =
      impl->control->onFailure([transport = impl->transport.get()](
                                   const Status &) { transport->interrupt(); });
  return std::shared_ptr<Job>(new Job(std::move(impl)));
}

int32_t Job::process() const { return impl->control->jobOptions().process; }
int32_t Job::processes() const { return impl->control->jobOptions().processes; }
Transport &Job::transport() const { return *impl->transport; }

int32_t Job::processesOnHost() const {
  const std::vector<ProcessInfo> &all = impl->control->members().processes;
  const ProcessInfo &self = all[size_t(process())];
  int32_t count = 0;
  for (const ProcessInfo &each : all)
    count += each.host == self.host;
  return count;
}

void Job::setRanksPerProcess(int64_t count) {
  impl->control->setRanksPerProcess(count);
}

Status Job::Impl::wait(Transport::Message &message) const {
  if (message.wait(Transport::Clock::time_point::max()) ==
      Transport::Message::End::Done)
    return Status::success();
  Status failure = control->awaitFailure(std::chrono::seconds(2));
  return failure.ok() ? control->fail(error(
                            "the connection to another process is broken"))
                      : failure;
}

Status Job::exchange(const std::vector<std::span<const std::byte>> &out,
                     const std::vector<std::span<std::byte>> &in) {
  int32_t self = process();
  auto slot = [](int32_t from, int32_t to) {
    return slotOf(SlotPurpose::Job, 0, 0, from, to);
  };
  std::vector<std::unique_ptr<Transport::Message>> messages;
  for (int32_t i = 0; i < processes(); ++i) {
    if (i == self)
      continue;
    auto from = in[size_t(i)];
    auto to = out[size_t(i)];
    if (!from.empty())
      messages.push_back(
          transport().receive(i, slot(i, self), from.data(), from.size()));
    if (!to.empty())
      messages.push_back(
          transport().send(i, slot(self, i), to.data(), to.size()));
  }
  for (auto &message : messages)
    HEDDLE_RT_RETURN_IF_ERROR(impl->wait(*message));
  return Status::success();
}

Expected<std::vector<std::vector<std::byte>>>
Job::allGather(std::span<const std::byte> mine) {
  auto count = size_t(processes());
  uint64_t size = mine.size();
  std::vector<uint64_t> sizes(count);
  std::vector<std::span<const std::byte>> out(
      count, std::as_bytes(std::span(&size, 1)));
  std::vector<std::span<std::byte>> in;
  for (uint64_t &each : sizes)
    in.push_back(std::as_writable_bytes(std::span(&each, 1)));
  HEDDLE_RT_RETURN_IF_ERROR(exchange(out, in));
  std::vector<std::vector<std::byte>> all(count);
  for (size_t i = 0; i < count; ++i) {
    all[i].resize(sizes[i]);
    in[i] = all[i];
    out[i] = mine;
  }
  all[size_t(process())].assign(mine.begin(), mine.end());
  HEDDLE_RT_RETURN_IF_ERROR(exchange(out, in));
  return all;
}

Expected<std::string> Job::fromFirst(std::string_view text) {
  auto all = allGather(std::as_bytes(process() == 0
                                         ? std::span(text.data(), text.size())
                                         : std::span<const char>()));
  HEDDLE_RT_RETURN_IF_ERROR(all.status());
  const std::vector<std::byte> &first = all->front();
  return std::string(reinterpret_cast<const char *>(first.data()),
                     first.size());
}

Expected<bool> Job::any(bool mine) {
  std::byte flag{mine};
  auto all = allGather({&flag, 1});
  HEDDLE_RT_RETURN_IF_ERROR(all.status());
  bool found = false;
  for (const std::vector<std::byte> &each : *all)
    found |= each.front() != std::byte(0);
  return found;
}

Status Job::fail(const Status &why) { return impl->control->fail(why); }

Status Job::awaitFailure(std::chrono::milliseconds time) const {
  return impl->control->awaitFailure(time);
}

uint64_t Job::onFailure(std::function<void(const Status &)> callback) {
  return impl->control->onFailure(std::move(callback));
}

void Job::forget(uint64_t number) { impl->control->forget(number); }

void Job::leave() {
  if (awaitFailure(std::chrono::milliseconds(0)).ok())
    (void)allGather({});
  impl->hasLeft = true;
}

} // namespace heddle::runtime
