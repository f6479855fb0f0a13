//===- SleepingDevice.cpp - A rank that sleeps instead of computing -------===//

#include "backends/cpu/SleepingDevice.h"
#include "support/Message.h"

#include <algorithm>
#include <thread>

namespace heddle::runtime {

void SleepingDevice::sleepOn(size_t stream, Clock::duration duration) {
  Clock::time_point end = Clock::now() - late[stream] + duration;
  std::this_thread::sleep_until(end);
  late[stream] = std::max(Clock::duration::zero(), Clock::now() - end);
}

Status SleepingDevice::sleep(int32_t stream, const Streams::Label &label,
                             double seconds) {
  auto duration = std::chrono::ceil<Clock::duration>(
      std::chrono::duration<double>(seconds));
  return streams.issue(stream, label, [=, this] {
    sleepOn(size_t(stream), duration);
    return Status::success();
  });
}

Status SleepingDevice::launch(int32_t stream, heddle_rt_kernel_fn kernel,
                              std::span<void *const>, std::span<const int64_t>,
                              int64_t, int64_t) {
  std::optional<double> seconds = callTimes->secondsOf(kernel);
  if (!seconds)
    return errorOf("cannot emulate a kernel whose work the artifact does not "
                   "list (compile the model again)");
  return sleep(stream, {WorkKind::Kernel, "launch"}, *seconds);
}

Status SleepingDevice::matmul(int32_t stream, const heddle_rt_matmul_desc &desc,
                              const void *, const void *, void *,
                              const void *) {
  return sleep(
      stream, {WorkKind::Matmul, "matmul"},
      callTimes->seconds(workOf(desc), static_cast<DType>(desc.a_type)));
}

Status SleepingDevice::attention(int32_t stream,
                                 const heddle_rt_attention_desc &desc,
                                 const heddle_rt_attention_offsets &,
                                 const int64_t *, const void *, const void *,
                                 const void *, const void *, void *, float *) {
  return sleep(
      stream, {WorkKind::Attention, "attention"},
      callTimes->seconds(workOfAttention(desc), static_cast<DType>(desc.type)));
}

Status SleepingDevice::attentionGrad(int32_t stream,
                                     const heddle_rt_attention_desc &desc,
                                     const heddle_rt_attention_offsets &,
                                     const int64_t *, const void *,
                                     const void *, const void *, const void *,
                                     const void *, const float *, const void *,
                                     void *, void *, void *) {
  return sleep(stream, {WorkKind::Attention, "attention_grad"},
               callTimes->seconds(workOfAttentionGrad(desc),
                                  static_cast<DType>(desc.type)));
}

Status SleepingDevice::embeddingGrad(int32_t stream, const int32_t *,
                                     int64_t numIds, const void *, int32_t type,
                                     int64_t width, int64_t, int64_t tableRows,
                                     bool accumulate, float *) {
  return sleep(
      stream, {WorkKind::Kernel, "embedding_grad"},
      callTimes->seconds(workOfEmbeddingGrad(numIds, static_cast<DType>(type),
                                             width, tableRows, accumulate)));
}

Status SleepingDevice::rotaryTable(int32_t stream, const double *, int64_t half,
                                   int64_t, int64_t rows, float *, float *) {
  return sleep(stream, {WorkKind::Kernel, "rotary_table"},
               callTimes->seconds(workOfRotaryTable(half, rows)));
}

Status SleepingDevice::copy(int32_t stream, const void *, int64_t, void *,
                            int64_t, int64_t blocks, int64_t bytes) {
  return sleep(stream, {WorkKind::Copy, "copy"},
               callTimes->seconds({0, 2 * double(blocks) * double(bytes)}));
}

Status SleepingDevice::fillZero(int32_t stream, void *, int64_t bytes) {
  return sleep(stream, {WorkKind::Copy, "fill_zero"},
               callTimes->seconds({0, double(bytes)}));
}

Status SleepingDevice::collective(int32_t stream, const Collective &call) {
  auto launch = std::chrono::ceil<Clock::duration>(
      std::chrono::duration<double>(callTimes->launch()));
  return streams.issue(stream, {WorkKind::Collective, name(call.kind)},
                       [=, this] {
                         sleepOn(size_t(stream), launch);
                         Collective timed = call;
                         timed.ready = streams.getReadyTime(stream) +
                                       std::chrono::nanoseconds(launch).count();
                         return communicators[size_t(stream)]->perform(timed);
                       });
}

Status SleepingDevice::synchronize() {
  Status status = CpuDevice::synchronize();
  std::fill(late.begin(), late.end(), Clock::duration::zero());
  return status;
}

} // namespace heddle::runtime
