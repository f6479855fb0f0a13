//===- Attention.h - Attention of a rank on a GPU ---------------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_ATTENTION_H
#define HEDDLE_RT_BACKENDS_CUDA_ATTENTION_H

#include "backends/cuda/attention/AttentionGraph.h"
#include "backends/cuda/driver/RankStreams.h"

#include <map>
#include <optional>
#include <string_view>

namespace heddle::runtime::cuda {

/// Who computes attention: CodeInfo::attention.
enum class AttentionChoice {
  Auto,  ///< cuDNN where it can, else our kernels
  Cudnn, ///< cuDNN alone: anything else is an error
  Kernel ///< our kernels alone
};
AttentionChoice parseAttentionChoice(std::string_view text);

/// The attentions of one rank that cuDNN computes. Its kernels and ours agree
/// on the meaning of all operands, so one pass may be computed by either.
class AttentionLibrary {
public:
  explicit AttentionLibrary(RankStreams &device) : device(device) {}
  ~AttentionLibrary();

  AttentionChoice choice = AttentionChoice::Auto;

  /// Makes the plans of a program's attentions, a list that ends with a null
  /// descriptor. Fails only if cuDNN alone is chosen.
  Status prepare(const heddle_rt_attention_call *calls);
  /// The bytes that the prepared plans need on one stream.
  size_t workspaceBytes() const { return mostBytes; }

  /// Issues a pass and returns true. Returns false if our kernels must do it.
  Expected<bool> run(int32_t stream, AttentionPass pass,
                     const heddle_rt_attention_desc &desc,
                     const heddle_rt_attention_offsets &offsets,
                     const AttentionOperands &operands);

private:
  /// Returns the plan of a pass; null if cuDNN has none.
  Expected<const AttentionPlan *> plan(const heddle_rt_attention_desc &desc,
                                       AttentionPass pass);
  Expected<AttentionPlan> makePlan(const heddle_rt_attention_desc &desc,
                                   AttentionPass pass);
  Expected<void *> workspaceOf(int32_t stream, size_t bytes);

  RankStreams &device;
  const dnn::Cudnn *library = nullptr;
  dnn::Handle handle = nullptr;
  std::map<std::pair<const heddle_rt_attention_desc *, AttentionPass>,
           std::optional<AttentionPlan>>
      plans;
  size_t mostBytes = 0;
  std::map<int32_t, std::pair<void *, size_t>> workspaces; ///< by stream
};

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_ATTENTION_H
