//===- LayerGraph.cpp - Layers of a transformer as units ------------------===//

#include "LayerGraph.h"

#include "llvm/ADT/STLExtras.h"

#include <array>
#include <map>

using namespace heddle;
using namespace heddle::bench;

namespace {
/// Adds the units of a step in the order of their numbers.
class Builder {
public:
  Builder(const solver::OasesProfileRow &times, const Step &step)
      : times(times), step(step),
        reduced(step.parts, -1), // the last all-reduce of each part
        inputs(step.parts, std::vector<int32_t>(2 * step.layers, -1)) {
    graph.queues = 2;
  }

  UnitGraph build() {
    for (int half = 0; half < 2 * step.layers; ++half)
      for (int part = 0; part < step.parts; ++part)
        addForward(half, part);
    for (int layer = step.layers; layer-- > 0;)
      addBackward(layer);
    return std::move(graph);
  }

private:
  /// Adds a unit that runs after others; -1 stands for none.
  int32_t add(int32_t queue, double milliseconds,
              std::initializer_list<int32_t> after) {
    Unit unit;
    unit.queue = queue;
    unit.seconds = milliseconds / 1e3;
    auto number = static_cast<int32_t>(graph.units.size());
    auto wait = [&](int32_t earlier) {
      if (earlier >= 0 && !llvm::is_contained(unit.after, earlier))
        unit.after.push_back(earlier);
    };
    for (int32_t earlier : after)
      wait(earlier);
    if (step.keepsOrder)
      wait(last[queue]);
    last[queue] = number;
    graph.units.push_back(std::move(unit));
    return number;
  }

  double forward(int half) const {
    return half % 2 == 0 ? times.attentionForward : times.mlpForward;
  }
  double backward(int half) const {
    return half % 2 == 0 ? times.attentionBackward : times.mlpBackward;
  }

  void addForward(int half, int part) {
    inputs[part][half] = reduced[part];
    int32_t computed = add(0, forward(half), {reduced[part]});
    reduced[part] = add(1, times.allReduce, {computed});
  }

  void addBackward(int layer) {
    std::vector<std::array<int32_t, 2>> again(step.parts, {-1, -1});
    if (step.recompute == Recompute::Layer)
      for (int half = 0; half < 2; ++half)
        for (int part = 0; part < step.parts; ++part) {
          int32_t input = half == 0 ? inputs[part][2 * layer] : again[part][0];
          int32_t computed = add(0, forward(half), {input, gradientOf(part)});
          again[part][half] = add(1, times.allReduce, {computed});
        }
    for (int half = 1; half >= 0; --half)
      for (int part = step.parts; part-- > 0;) {
        int32_t recomputed = again[part][half];
        // The half-layer is computed again not before the all-reduce of the
        // gradient that enters it, so that its values live briefly. The two
        // may run at the same time.
        if (step.recompute == Recompute::Communication)
          recomputed = add(0, forward(half),
                           {inputs[part][2 * layer + half], gradientOf(part)});
        int32_t computed = add(0, backward(half), {reduced[part], recomputed});
        gradients[part] = computed;
        reduced[part] = add(1, times.allReduce, {computed});
      }
  }

  /// Returns the computation that made the part's last gradient. The gradient's
  /// all-reduce may still run. Before the first gradient, returns the last
  /// all-reduce of the part's forward pass.
  int32_t gradientOf(int part) const {
    auto found = gradients.find(part);
    return found == gradients.end() ? reduced[part] : found->second;
  }

  const solver::OasesProfileRow &times;
  const Step &step;
  UnitGraph graph;
  std::vector<int32_t> reduced;
  std::vector<std::vector<int32_t>> inputs; // by part and half-layer
  std::map<int, int32_t> gradients;         // by part
  std::array<int32_t, 2> last = {-1, -1};   // by queue
};
} // namespace

UnitGraph heddle::bench::makeGraph(const solver::OasesProfileRow &part,
                                   const Step &step) {
  return Builder(part, step).build();
}
