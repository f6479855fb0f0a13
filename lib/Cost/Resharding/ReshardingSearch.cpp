//===- ReshardingSearch.cpp - Shortest paths from one layout --------------===//

#include "ReshardingSearch.h"
#include "llvm/ADT/STLExtras.h"

using namespace heddle;

ReshardingSearch::ReshardingSearch(ReshardingGraph &graph, unsigned start)
    : graph(graph), start(start) {
  reach({start, false}, {{0, 0, 0}});
}

ReshardingSearch::Reached &ReshardingSearch::getReached(State state) {
  if (reached.size() <= state.node)
    reached.resize(state.node + 1);
  return reached[state.node][state.isPermuted];
}

void ReshardingSearch::reach(State state, const Reached &how) {
  Reached &known = getReached(state);
  if (known.isDone || known.length <= how.length)
    return;
  known = how;
  queue.push({how.length, found++, state});
}

void ReshardingSearch::advance() {
  auto [length, order, state] = queue.top();
  queue.pop();
  if (getReached(state).isDone)
    return;
  getReached(state).isDone = true;
  // A path without a permute can be continued in every way. So a path with a
  // permute is useless if it is not shorter.
  if (state.isPermuted && getReached({state.node, false}).isDone)
    return;
  for (auto [number, edge] : llvm::enumerate(graph.getEdges(state.node))) {
    bool isPermute = edge.kind == ReshardingStep::Permute;
    if (isPermute && state.isPermuted)
      continue;
    reach({edge.target, state.isPermuted || isPermute},
          {{length.picoseconds + edge.picoseconds, length.steps + 1,
            length.permutes + isPermute},
           state,
           unsigned(number)});
  }
}

Resharding ReshardingSearch::find(unsigned goal) {
  State states[] = {{goal, false}, {goal, true}};
  while (!queue.empty() && !llvm::any_of(states, [&](State state) {
    return getReached(state).isDone;
  }))
    advance();
  State state = getReached(states[0]).length <= getReached(states[1]).length
                    ? states[0]
                    : states[1];
  Resharding result;
  while (state.node != start || state.isPermuted) {
    const Reached &how = getReached(state);
    result.steps.push_back(graph.makeStep(
        how.previous.node, graph.getEdges(how.previous.node)[how.edge]));
    state = how.previous;
  }
  std::reverse(result.steps.begin(), result.steps.end());
  for (const ReshardingStep &step : result.steps)
    result.cost += step.cost;
  return result;
}
