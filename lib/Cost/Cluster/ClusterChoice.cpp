//===- ClusterChoice.cpp - A cluster by its name, read once ---------------===//

#include "heddle/Cost/ClusterChoice.h"
#include <optional>

using namespace heddle;

struct ClusterChoice::State {
  std::string name;
  std::optional<Cluster> cluster;
};

ClusterChoice::ClusterChoice(std::string name)
    : state(std::make_shared<State>(State{std::move(name), std::nullopt})) {}

ClusterChoice::ClusterChoice(Cluster cluster)
    : state(std::make_shared<State>()) {
  state->name = cluster.name.empty() ? "cluster" : cluster.name;
  state->cluster = std::move(cluster);
}

llvm::StringRef ClusterChoice::getName() const {
  return state ? llvm::StringRef(state->name) : "";
}

llvm::Expected<const Cluster &> ClusterChoice::load() const {
  assert(!isNone() && "no cluster was chosen");
  if (!state->cluster) {
    llvm::Expected<Cluster> loaded = loadCluster(state->name);
    if (!loaded)
      return loaded.takeError();
    state->cluster = std::move(*loaded);
  }
  return *state->cluster;
}

llvm::raw_ostream &heddle::operator<<(llvm::raw_ostream &stream,
                                      const ClusterChoice &choice) {
  return stream << choice.getName();
}
