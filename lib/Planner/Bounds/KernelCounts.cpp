//===- KernelCounts.cpp - Counts of compiled kernels ----------------------===//

#include "KernelCounts.h"
#include "llvm/ADT/STLExtras.h"
#include <numeric>

using namespace heddle;

void heddle::setComputing(ProgramCounts (&counts)[2][2],
                          const KernelSeconds (&kernels)[2][2], double launch) {
  for (int layers = 0; layers < 2; ++layers) {
    const KernelSeconds &few = kernels[0][layers], &many = kernels[1][layers];
    int64_t growing = 0;
    if (few.size() == many.size())
      for (auto [fewer, more] : llvm::zip(few, many))
        growing += fewer != more;
    for (int rows = 0; rows < 2; ++rows) {
      ProgramCounts &next = counts[rows][layers];
      const KernelSeconds &own = kernels[rows][layers];
      next.computing = std::accumulate(own.begin(), own.end(), 0.0);
      next.launches = double(std::min(few.size(), many.size())) * launch;
      next.growingLaunches = double(growing) * launch;
    }
  }
}
