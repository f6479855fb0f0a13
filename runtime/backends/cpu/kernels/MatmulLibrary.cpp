//===- MatmulLibrary.cpp - Opens the library of products ------------------===//

#include "backends/cpu/kernels/MatmulLibrary.h"

namespace heddle::runtime {

namespace {

/// Stands for a library that could not be opened.
class MissingLibrary final : public MatmulLibrary {
public:
  explicit MissingLibrary(Status why) : why(std::move(why)) {}
  Status run(const heddle_rt_matmul_desc &, const void *, const void *, void *,
             const void *) override {
    return why;
  }
  size_t scratchBytes() const override { return 0; }

private:
  const Status why;
};

} // namespace

MatmulLibrary::~MatmulLibrary() = default;

std::unique_ptr<MatmulLibrary> makeMatmulLibrary(ThreadPool &pool) {
  Expected<const PartVersion *> part = openPart(
      {"libheddle_onednn.so", "heddle_onednn_table", OneDnnTable::current,
       "computes matrix products on CPUs",
       "take a package with oneDNN (tools/package without --without-onednn), "
       "or compile for a GPU (heddle compile --target-gpu sm_80)"});
  if (!part.ok())
    return std::make_unique<MissingLibrary>(part.status());
  return static_cast<const OneDnnTable *>(*part)->makeMatmulLibrary(pool);
}

} // namespace heddle::runtime
