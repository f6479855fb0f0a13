//===- Oases.cpp - Oases' planner as an instance --------------------------===//

#include "heddle/Solver/Oases.h"
#include "Convert/ProfileRows.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace heddle::solver {

namespace {

constexpr double NanosecondsPerMillisecond = 1e6;
constexpr double BytesPerMebibyte = 1024.0 * 1024.0;
constexpr double SequenceLength = 1024;
constexpr double UsableShare = 0.95;

/// The profile at one degree and at half of that degree's batch, because
/// schedules work on two halves.
struct Choice {
  OasesProfileRow Half;
  double Batch; ///< Of both halves.

  // Node i is attention if even, MLP if odd.
  double forward(int64_t Node) const {
    return Node % 2 ? Half.MlpForward : Half.AttentionForward;
  }
  /// With the recomputation of the forward pass.
  double backward(int64_t Node) const {
    return forward(Node) +
           (Node % 2 ? Half.MlpBackward : Half.AttentionBackward);
  }
  double gradient(int64_t Node) const {
    return Node % 2 ? Half.MlpBackward : Half.AttentionBackward;
  }
};

/// The time of a node, forward and backward: each of its collectives runs
/// under its own or the next node's computation on the other half. The first
/// node's are not counted and the last node's stays exposed, as released.
double nodeMilliseconds(const Choice &C, int64_t Node, int64_t Nodes) {
  double Comm = C.Half.AllReduce;
  if (Node == 0)
    return C.forward(0) + C.gradient(0);
  if (Node + 1 == Nodes)
    return std::max(C.forward(Node), Comm) + std::max(C.backward(Node), Comm) +
           2 * Comm;
  return std::max(C.forward(Node), Comm) + std::max(C.forward(Node + 1), Comm) +
         std::max(C.backward(Node), Comm) +
         std::max(C.backward(Node + 1), Comm);
}

/// The time to bring activations from one degree to the next node's.
double reshardMilliseconds(const Choice &From, const Choice &To, int64_t Node) {
  auto J = static_cast<double>(From.Half.Degree);
  auto K = static_cast<double>(To.Half.Degree);
  if (J == K)
    return 0;
  double Comm = From.Half.AllReduce;
  if (K > J)
    return K / J * Comm + std::min(Comm, To.forward(Node + 1));
  return J / K * To.Half.AllReduce + std::min(Comm, To.gradient(Node + 1));
}

/// Activations that are kept, parameters with gradients and optimizer state,
/// and, at the last node, what the layer needs while it runs.
double nodeBytes(const Choice &C, int64_t Node, int64_t Nodes) {
  auto H = static_cast<double>(C.Half.Hidden);
  auto T = static_cast<double>(C.Half.Degree);
  double Parameters =
      Node % 2 ? 4 * (8 * H * H / T + 7 * H) : 4 * (4 * H * H / T + 6 * H);
  double Bytes = 12 * C.Batch * SequenceLength * H + 5 * Parameters;
  if (Node + 1 == Nodes)
    Bytes += C.Half.RuntimeMebibytes * BytesPerMebibyte;
  return Bytes;
}

Cost nanoseconds(double Milliseconds) {
  return std::llround(Milliseconds * NanosecondsPerMillisecond);
}

/// By ascending degree.
std::vector<Choice> choicesOf(const std::vector<OasesProfileRow> &Profile,
                              const OasesOptions &O) {
  std::map<int64_t, Choice> ByDegree;
  for (const OasesProfileRow &R : Profile) {
    bool Matches = R.Hidden == O.Hidden && R.Degree > 0 &&
                   R.Degree <= O.Devices &&
                   2 * R.Batch * O.Devices == O.GlobalBatch * R.Degree;
    bool Complete = R.AttentionForward > 0 && R.AttentionBackward > 0 &&
                    R.MlpForward > 0 && R.MlpBackward > 0 && R.AllReduce > 0;
    if (Matches && Complete)
      ByDegree[R.Degree] = {R, 2.0 * static_cast<double>(R.Batch)};
  }
  std::vector<Choice> Choices;
  Choices.reserve(ByDegree.size());
  for (const auto &[Degree, C] : ByDegree)
    Choices.push_back(C);
  return Choices;
}

Error noChoice(const std::vector<OasesProfileRow> &Profile,
               const OasesOptions &O) {
  std::set<int64_t> Fitting;
  for (const OasesProfileRow &R : Profile)
    if (R.Hidden == O.Hidden && R.Degree > 0 && R.Degree <= O.Devices &&
        2 * R.Batch * O.Devices % R.Degree == 0)
      Fitting.insert(2 * R.Batch * O.Devices / R.Degree);
  std::string List;
  for (int64_t Batch : Fitting)
    List += (List.empty() ? "" : ", ") + std::to_string(Batch);
  return {"global batch: expected one of which half a replica's share is "
          "measured for hidden " +
          std::to_string(O.Hidden) + " on " + std::to_string(O.Devices) +
          " devices (" + (List.empty() ? "there is none" : List) + "), got " +
          std::to_string(O.GlobalBatch)};
}

} // namespace

Expected<std::vector<OasesProfileRow>>
parseOasesProfile(std::string_view Json) {
  std::vector<OasesProfileRow> Rows;
  auto Failure = readProfileRows(Json, [&](ProfileRow &Row) {
    OasesProfileRow R;
    R.Hidden = Row.integer("hidden");
    R.Degree = Row.integer("tensor_parallel");
    R.Batch = Row.integer("batch");
    R.AttentionForward = Row.number("attn_forward_ms", 1e9);
    R.AttentionBackward = Row.number("attn_backward_ms", 1e9);
    R.MlpForward = Row.number("mlp_forward_ms", 1e9);
    R.MlpBackward = Row.number("mlp_backward_ms", 1e9);
    R.AllReduce = Row.number("all_reduce_ms", 1e9);
    R.RuntimeMebibytes = Row.number("runtime_memory_mib", 1e9);
    Rows.push_back(R);
  });
  if (Failure)
    return *Failure;
  return Rows;
}

Expected<OasesProblem> oasesProblem(const std::vector<OasesProfileRow> &Profile,
                                    const OasesOptions &O) {
  if (O.Layers < 1)
    return Error{"layers: expected at least 1, got " +
                 std::to_string(O.Layers)};
  std::vector<Choice> Choices = choicesOf(Profile, O);
  if (Choices.empty())
    return noChoice(Profile, O);
  OasesProblem Result;
  for (const Choice &C : Choices)
    Result.Degrees.push_back(C.Half.Degree);
  Problem &P = Result.Instance;
  P.Name = "oases-hidden" + std::to_string(O.Hidden) + "-batch" +
           std::to_string(O.GlobalBatch);
  int64_t Nodes = 2 * O.Layers;
  for (int64_t I = 0; I < Nodes; ++I) {
    Node N;
    N.Live = {0, 1};
    for (const Choice &C : Choices) {
      N.Costs.push_back(nanoseconds(nodeMilliseconds(C, I, Nodes)));
      N.Usages.push_back(static_cast<Usage>(std::ceil(nodeBytes(C, I, Nodes))));
    }
    P.Nodes.push_back(std::move(N));
    if (I == 0)
      continue;
    Edge E{{static_cast<uint32_t>(I - 1), static_cast<uint32_t>(I)}, {}};
    for (const Choice &From : Choices)
      for (const Choice &To : Choices)
        E.Costs.push_back(nanoseconds(reshardMilliseconds(From, To, I - 1)));
    P.Edges.push_back(std::move(E));
  }
  P.UsageLimit =
      static_cast<Usage>(UsableShare * O.DeviceMebibytes * BytesPerMebibyte);
  return Result;
}

Assignment collapseOasesPlan(const OasesProblem &P, const Assignment &Plan) {
  std::vector<size_t> Count(P.Degrees.size(), 0);
  for (int32_t S : Plan)
    ++Count[S];
  std::vector<int32_t> ByCount(Count.size());
  for (size_t S = 0; S < Count.size(); ++S)
    ByCount[S] = static_cast<int32_t>(S);
  std::ranges::sort(ByCount, [&](int32_t A, int32_t B) {
    return Count[A] != Count[B] ? Count[A] > Count[B] : A < B;
  });
  int32_t First = ByCount[0];
  int32_t Second =
      ByCount.size() > 1 && Count[ByCount[1]] > 0 ? ByCount[1] : First;
  int32_t Smaller = std::min(First, Second), Larger = std::max(First, Second);
  size_t Both = Smaller == Larger ? Count[First] : Count[First] + Count[Second];
  double Share =
      static_cast<double>(Count[Smaller]) / static_cast<double>(Both);
  size_t Layers = Plan.size() / 2;
  auto Cutpoint =
      static_cast<size_t>(std::lround(Share * static_cast<double>(Layers)));
  Assignment Collapsed;
  for (size_t I = 0; I < Plan.size(); ++I)
    Collapsed.push_back(I / 2 < Cutpoint ? Smaller : Larger);
  return Collapsed;
}

} // namespace heddle::solver
