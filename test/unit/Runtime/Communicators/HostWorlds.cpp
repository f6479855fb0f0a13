//===- HostWorlds.cpp - Conformance suite of ranks on a CPU ---------------===//

#include "World.h"

using namespace heddle::runtime;

std::vector<WorldKind> heddle::runtime::communicatorBackends() {
  auto threads = [](const WorldOptions &options) -> std::unique_ptr<World> {
    return std::make_unique<ThreadWorld>(options);
  };
  // Pairs of ranks in a slower network.
  auto emulated = [](const WorldOptions &options) -> std::unique_ptr<World> {
    NetworkInfo info{"pairs",
                     {{"pair", 2, 1e-5, 4e9}, {"network", 8, 2e-5, 1e9}}};
    WorldOptions copy = options;
    copy.network = *Network::create(info, 4);
    return std::make_unique<ThreadWorld>(copy);
  };
  std::vector<WorldKind> kinds{{"threads", threads},
                               {"emulated_threads", emulated}};
  if (checkGloo().ok()) {
    kinds.push_back({"four_processes", [](const WorldOptions &options) {
                       return std::unique_ptr<World>(
                           std::make_unique<ProcessWorld>(options, 4));
                     }});
    kinds.push_back({"two_processes", [](const WorldOptions &options) {
                       return std::unique_ptr<World>(
                           std::make_unique<ProcessWorld>(options, 2));
                     }});
  }
  return kinds;
}
