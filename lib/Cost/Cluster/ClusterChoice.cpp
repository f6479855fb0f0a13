//===- ClusterChoice.cpp - A cluster by its name, read once ---------------===//

#include "heddle/Cost/ClusterChoice.h"
#include "llvm/ADT/STLExtras.h"
#include <algorithm>
#include <optional>

using namespace heddle;

/// The most meshes whose reshardings are kept. The meshes of one program differ
/// in the axes that are closed or cut in two.
static constexpr size_t kMostMeshes = 4;

namespace {
struct ReshardingsOfMesh {
  std::vector<int64_t> axisSizes;
  AxisMask closed;
  std::shared_ptr<KnownReshardings> reshardings;
};
} // namespace

struct ClusterChoice::State {
  std::string name;
  std::optional<Cluster> cluster;
  /// The latest one first.
  std::vector<ReshardingsOfMesh> meshes;
};

ClusterChoice::ClusterChoice(std::string name)
    : state(std::make_shared<State>()) {
  state->name = std::move(name);
}

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

void ClusterChoice::keepFirst(int64_t used) {
  const Cluster &cluster = llvm::cantFail(load());
  if (cluster.groups.empty())
    return; // all devices are equal
  auto kept = std::make_shared<State>();
  kept->name = state->name;
  kept->cluster = cluster.getFirst(used);
  state = std::move(kept);
}

llvm::Expected<std::shared_ptr<KnownReshardings>>
ClusterChoice::getReshardings(llvm::ArrayRef<int64_t> axisSizes,
                              AxisMask closed) const {
  llvm::Expected<const Cluster &> cluster = load();
  if (!cluster)
    return cluster.takeError();
  std::vector<ReshardingsOfMesh> &meshes = state->meshes;
  auto known = llvm::find_if(meshes, [&](const ReshardingsOfMesh &mesh) {
    return axisSizes.equals(mesh.axisSizes) && mesh.closed == closed;
  });
  if (known != meshes.end()) {
    std::rotate(meshes.begin(), known, known + 1);
    return meshes.front().reshardings;
  }
  llvm::Expected<MeshTopology> topology =
      MeshTopology::create(*cluster, axisSizes);
  if (!topology)
    return topology.takeError();
  auto made = std::make_shared<KnownReshardings>(std::move(*topology), closed);
  meshes.insert(meshes.begin(), {axisSizes.vec(), closed, made});
  meshes.resize(std::min(meshes.size(), kMostMeshes));
  return made;
}

llvm::raw_ostream &heddle::operator<<(llvm::raw_ostream &stream,
                                      const ClusterChoice &choice) {
  return stream << choice.getName();
}
