#include "kernels/AttentionLibrary.h"
namespace heddle::rt {
struct AttentionLibrary::Impl {};
AttentionLibrary::AttentionLibrary(ThreadPool &) {}
AttentionLibrary::~AttentionLibrary() = default;
Status AttentionLibrary::forward(const heddle_rt_attention_desc &,
                                 const heddle_rt_attention_offsets &,
                                 const int64_t *, const void *, const void *,
                                 const void *, void *, float *) {
  return error("attention is not implemented yet");
}
Status AttentionLibrary::backward(const heddle_rt_attention_desc &,
                                  const heddle_rt_attention_offsets &,
                                  const int64_t *, const void *, const void *,
                                  const void *, const void *, const float *,
                                  const void *, void *, void *, void *) {
  return error("attention is not implemented yet");
}
size_t AttentionLibrary::scratchBytes() const { return 0; }
} // namespace heddle::rt
