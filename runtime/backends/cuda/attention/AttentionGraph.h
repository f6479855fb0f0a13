//===- AttentionGraph.h - Attention as a graph of cuDNN ---------*- C++ -*-===//
//
// cuDNN has no call for attention. It takes a graph of products, pointwise
// operations and reductions, and finds an engine that computes all of it in
// one kernel. Engines know the form of the graph, so its operations and their
// order are those that cuDNN's own front end writes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_ATTENTIONGRAPH_H
#define HEDDLE_RT_BACKENDS_CUDA_ATTENTIONGRAPH_H

#include "backends/cuda/driver/Cudnn.h"
#include "heddle_rt/abi.h"

#include <memory>
#include <string>

namespace heddle::runtime::cuda {

enum class AttentionPass { Forward, Backward };

/// Returns what keeps cuDNN from serving an attention that begins at these
/// offsets, or "" if it serves it.
std::string findObstacle(const heddle_rt_attention_desc &desc,
                         const heddle_rt_attention_offsets &offsets);

/// The operands of both passes. The forward pass uses those up to `lse`.
struct AttentionOperands {
  const void *q, *k, *v;
  void *o;    ///< read by the backward pass
  float *lse; ///< read by the backward pass
  const void *d_o = nullptr;
  void *dq = nullptr, *dk = nullptr, *dv = nullptr;
};

/// A pass of an attention, compiled for a GPU. The backward pass keeps the
/// gradients of the scores in the workspace, so that no sum depends on the
/// order of blocks. The versions of cuDNN that were tried propose no other
/// engine for its graph.
class AttentionPlan {
public:
  /// The GPU of a plan: the GPU of `handle`, or a GPU that `properties`
  /// describes. A plan for a described GPU cannot run.
  struct Target {
    dnn::Handle handle = nullptr;
    dnn::Descriptor properties = nullptr;
  };

  /// Error: no engine of the library computes the graph on this GPU.
  static Expected<AttentionPlan> make(const dnn::Cudnn &library, Target target,
                                      const heddle_rt_attention_desc &desc,
                                      AttentionPass pass);
  AttentionPlan(AttentionPlan &&) noexcept;
  ~AttentionPlan();

  size_t workspaceBytes() const;
  /// Runs on the handle's stream. All addresses are multiples of 16.
  Status run(dnn::Handle handle, const AttentionOperands &operands,
             void *workspace) const;

private:
  struct Impl;
  explicit AttentionPlan(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl;
};

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_ATTENTIONGRAPH_H
