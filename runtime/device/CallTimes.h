//===- CallTimes.h - Times of calls on an emulated device -------*- C++ -*-===//
//
// A roofline: a call takes the launch time of the device, and then the longer
// of its operations at the peak rate and its bytes at the memory's bandwidth.
// Operations and bytes are those of the compiler's WorkOpInterface. Here they
// follow from the arguments of the call. Only a kernel's work is not known from
// its arguments: the artifact lists it.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_DEVICE_CALLTIMES_H
#define HEDDLE_RT_DEVICE_CALLTIMES_H

#include "heddle_rt/abi.h"
#include "heddle_rt/manifest.h"
#include "heddle_rt/network.h"

#include <optional>
#include <unordered_map>

namespace heddle::runtime {

/// The least work of a call.
struct CallWork {
  double flops = 0, bytes = 0;
};

CallWork workOf(const heddle_rt_matmul_desc &desc);
CallWork workOfAttention(const heddle_rt_attention_desc &desc);
CallWork workOfAttentionGrad(const heddle_rt_attention_desc &desc);
CallWork workOfEmbeddingGrad(int64_t numIds, DType type, int64_t width,
                             int64_t tableRows, bool accumulate);
CallWork workOfRotaryTable(int64_t half, int64_t rows);

class CallTimes {
public:
  /// `kernels` is the table that abi.h describes; null: no kernels are known.
  CallTimes(DeviceSpeed device, const heddle_rt_kernel_work *kernels);

  /// Returns the seconds of a call that computes on elements of `type`.
  double seconds(const CallWork &work, DType type = HEDDLE_RT_F32) const;
  /// Returns the seconds of a kernel's launch; nullopt if the table lacks it.
  /// Kernels compute in f32.
  std::optional<double> secondsOf(heddle_rt_kernel_fn kernel) const;
  /// Returns the part of each call's time that does not depend on its work.
  double launch() const { return device.launch; }

private:
  const DeviceSpeed device;
  std::unordered_map<heddle_rt_kernel_fn, CallWork> kernels;
};

} // namespace heddle::runtime

#endif // HEDDLE_RT_DEVICE_CALLTIMES_H
