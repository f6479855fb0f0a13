//===- Context.cpp - The estimated exchanges of a split sequence ----------===//

#include "Bounds.h"
#include "MeshAxes.h"

using namespace heddle;

/// Estimates the exchanges of attentions in a step, one after the other. Each
/// attention has two operands of keys, the keys and the values, and as many
/// tensors of queries, the queries and the output.
double BoundModel::estimateContext(const Candidate &candidate,
                                   const MeshTopology &topology,
                                   const ProgramCounts &one) const {
  MeshAxes axes(candidate.mesh);
  int64_t context = topology.getSize(axes.context);
  if (context == 1 || one.numKeys == 0)
    return 0;
  double share = 1 / double(topology.getSize(axes.data) * context *
                            topology.getSize(axes.tensor));
  auto keys = int64_t(one.keyBytes / one.numKeys * share);
  auto queries = int64_t(one.queryBytes / one.numKeys * share);
  double times = double(candidate.microBatches) * one.numKeys;
  switch (candidate.mesh.attention) {
  case ContextParallelism::Gather:
    return times * (topology.allGather(axes.context, keys).seconds +
                    topology.reduceScatter(axes.context, keys).seconds);
  case ContextParallelism::Heads:
    return times * 2 *
           (topology.allToAll(axes.context, keys / context).seconds +
            topology.allToAll(axes.context, queries / context).seconds);
  case ContextParallelism::Ring:
    break;
  }
  // Keys go round in both passes, in two chunks. Their gradients go round in
  // f32, and one step more. All of them, and the queries, are redistributed
  // before, and brought back afterwards.
  std::vector<int64_t> sources;
  for (int64_t device = 0; device < context; ++device)
    sources.push_back((device + 1) % context);
  std::vector<unsigned> list = topology.listAxes(axes.context);
  auto pass = [&](int64_t bytes) {
    return topology.permuteMembers(list, sources, bytes).seconds;
  };
  double wide = request.training.bf16 ? 2 : 1;
  double steps = double(context - 1);
  return times * 2 *
         ((2 * steps + 2) * pass(keys / 2) +
          (steps + 1) * pass(int64_t(double(keys) * wide / 2)) +
          2 * pass(queries / 2));
}

/// Estimates the computation that a split sequence adds to the attentions of a
/// step.
double BoundModel::estimateContextWork(const Candidate &candidate,
                                       const MeshTopology &topology,
                                       const ProgramCounts &one) const {
  MeshAxes axes(candidate.mesh);
  auto context = double(topology.getSize(axes.context));
  if (context == 1)
    return 0;
  auto micro = double(candidate.microBatches);
  double stage = double(topology.getNumDevices() / candidate.mesh.pipeline);
  switch (candidate.mesh.attention) {
  case ContextParallelism::Gather:
    // The last queries see all keys, and all devices wait for them.
    return micro * one.causalAttention / stage;
  case ContextParallelism::Heads:
    return 0;
  case ContextParallelism::Ring:
    break;
  }
  // In each step, both passes compute four pairs of chunks, and add each result
  // to those of the steps before. The sums are in f32.
  double launches = one.numKeys / 2 * 4 * (context - 1) * 4 *
                    double(candidate.subBatches) * device.launch;
  double bytes = 6 * context * (one.queryBytes + one.keyBytes) / stage *
                 (request.training.bf16 ? 2 : 1);
  return micro * (launches + bytes / device.getMemoryRate());
}
