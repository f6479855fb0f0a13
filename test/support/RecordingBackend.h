//===- RecordingBackend.h - A backend that writes down its calls *- C++ -*-===//
//
// Implements a device in the simplest way that a session accepts. Its memory is
// the host's. A call computes nothing; the device writes down its name, its
// stream and its sizes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_SUPPORT_RECORDINGBACKEND_H
#define HEDDLE_TEST_SUPPORT_RECORDINGBACKEND_H

#include "device/Backend.h"
#include "support/Message.h"

#include <cstring>
#include <string>
#include <vector>

namespace heddle::runtime {

class RecordingDevice final : public heddle_rt_device {
public:
  RecordingDevice(int32_t rank, std::vector<std::string> &calls)
      : heddle_rt_device(rank), calls(calls) {}

  Expected<std::unique_ptr<Region>> allocate(size_t bytes) override {
    return std::make_unique<HostRegion>(bytes);
  }
  Status copyToDevice(void *to, const void *from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return Status::success();
  }
  Status copyToHost(void *to, const void *from, size_t bytes) override {
    std::memcpy(to, from, bytes);
    return Status::success();
  }
  size_t scratchBytes() const override { return 0; }
  Status runOnHost(
      int64_t count, int64_t grain,
      const std::function<Status(int64_t begin, int64_t end)> &body) override {
    for (int64_t begin = 0; begin < count; begin += grain)
      HEDDLE_RT_RETURN_IF_ERROR(body(begin, std::min(count, begin + grain)));
    return Status::success();
  }

  Status launch(int32_t stream, heddle_rt_kernel_fn,
                std::span<void *const> buffers, std::span<const int64_t>,
                int64_t blocks, int64_t grain) override {
    return add(stream, "launch of ", blocks, " blocks by ", grain, " with ",
               buffers.size(), " buffers");
  }
  Status matmul(int32_t stream, const heddle_rt_matmul_desc &desc, const void *,
                const void *, void *, const void *) override {
    return add(stream, "matmul ", desc.m, " x ", desc.n, " x ", desc.k);
  }
  Status attention(int32_t stream, const heddle_rt_attention_desc &,
                   const heddle_rt_attention_offsets &, const int64_t *,
                   const void *, const void *, const void *, const void *,
                   void *, float *) override {
    return add(stream, "attention");
  }
  Status attentionGrad(int32_t stream, const heddle_rt_attention_desc &,
                       const heddle_rt_attention_offsets &, const int64_t *,
                       const void *, const void *, const void *, const void *,
                       const void *, const float *, const void *, void *,
                       void *, void *) override {
    return add(stream, "attention_grad");
  }
  Status embeddingGrad(int32_t stream, const int32_t *, int64_t numIds,
                       const void *, int32_t, int64_t, int64_t, int64_t, bool,
                       float *) override {
    return add(stream, "embedding_grad of ", numIds);
  }
  Status rotaryTable(int32_t stream, const double *, int64_t, int64_t,
                     int64_t rows, float *, float *) override {
    return add(stream, "rotary_table of ", rows);
  }
  Status copy(int32_t stream, const void *, int64_t, void *, int64_t,
              int64_t blocks, int64_t bytes) override {
    return add(stream, "copy of ", blocks, " x ", bytes);
  }
  Status fillZero(int32_t stream, void *, int64_t bytes) override {
    return add(stream, "fill_zero of ", bytes);
  }
  Status collective(int32_t stream, const Collective &call) override {
    return add(stream, name(call.kind), " of ", call.count, " ",
               name(call.type), " in group ", call.group);
  }
  Status recordEvent(int32_t stream, int32_t event) override {
    return add(stream, "record ", event);
  }
  Status waitEvent(int32_t stream, int32_t event) override {
    return add(stream, "wait ", event);
  }
  Status synchronize() override {
    calls.push_back("synchronize");
    return error();
  }

private:
  class HostRegion final : public Region {
  public:
    explicit HostRegion(size_t bytes) : memory(bytes / 64 + 1) {
      this->base = memory.front().bytes;
    }
    Status clear() override {
      std::memset(base, 0, memory.size() * sizeof(Line));
      return Status::success();
    }

  private:
    struct alignas(64) Line {
      uint8_t bytes[64];
    };
    std::vector<Line> memory;
  };

  template <typename... Parts>
  Status add(int32_t stream, const Parts &...parts) {
    calls.push_back(concat("stream ", stream, ": ", parts...));
    return Status::success();
  }

  std::vector<std::string> &calls;
};

class RecordingBackend final : public Backend {
public:
  Status checkTarget(const CodeInfo &) const override {
    return Status::success();
  }
  Status checkDevices(int64_t) const override { return Status::success(); }
  Status checkMemory(int64_t, std::span<const MemoryPart>) const override {
    return Status::success();
  }
  int defaultCores(int64_t) const override { return 1; }

  Expected<std::vector<std::unique_ptr<heddle_rt_device>>>
  makeDevices(const DeviceOptions &options) const override {
    calls.assign(options.ranks.size(), {});
    std::vector<std::unique_ptr<heddle_rt_device>> devices;
    for (size_t i = 0; i < calls.size(); ++i)
      devices.push_back(
          std::make_unique<RecordingDevice>(options.ranks[i], calls[i]));
    return devices;
  }

  /// The calls of each device of the last session.
  mutable std::vector<std::vector<std::string>> calls;
};

} // namespace heddle::runtime

#endif // HEDDLE_TEST_SUPPORT_RECORDINGBACKEND_H
