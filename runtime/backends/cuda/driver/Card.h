//===- Card.h - One GPU, shared by the ranks on it --------------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_CARD_H
#define HEDDLE_RT_BACKENDS_CUDA_CARD_H

#include "backends/cuda/driver/CublasLt.h"
#include "backends/cuda/driver/Cudnn.h"
#include "backends/cuda/driver/Driver.h"
#include "heddle_rt/manifest.h"

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace heddle::runtime::cuda {

/// The libraries of a machine with a GPU.
struct Libraries {
  Driver driver;
  /// Loads the library of products that fits the driver's version, when the
  /// first product needs it.
  Expected<blas::CublasLt> (*loadProducts)(int) = &blas::loadCublasLt;
  /// Loads the library of attention that fits the driver's version, when the
  /// first attention asks for it.
  Expected<dnn::Cudnn> (*loadAttention)(int) = &dnn::loadCudnn;
};

/// A kernel of the artifact and its record in the manifest.
struct LoadedKernel {
  Function function = nullptr;
  const KernelInfo *info = nullptr;
};

/// The first GPU that the driver shows (CUDA_VISIBLE_DEVICES chooses it), with
/// its primary context. Any thread may call it.
class Card {
public:
  /// Errors: no driver, one too old, no GPU.
  static Expected<std::shared_ptr<Card>> open(const Libraries &libraries);
  /// Returns the name and compute capability of the GPU without opening it.
  /// Errors: those of `open`, or the GPU is older than all chips that programs
  /// are compiled for.
  static Expected<std::string> describe(const Driver &driver);
  ~Card();
  Card(const Card &) = delete;

  const Driver &driver() const { return libraries.driver; }
  /// The compute capability: 80 for sm_80.
  int capability() const { return computeCapability; }
  const std::string &name() const { return cardName; }

  /// Makes the context current on the calling thread. Every thread calls this
  /// before it calls the driver.
  Status use() const;

  struct Memory {
    size_t free = 0, total = 0;
  };
  Expected<Memory> memory() const;

  /// Compiles the PTX of an artifact for this GPU and finds its kernels.
  /// `origin` names the file in errors.
  Expected<std::vector<LoadedKernel>>
  load(const std::string &ptx, const std::string &origin, const CodeInfo &code);
  /// Returns a kernel of the library: see kernels/.
  Expected<Function> libraryKernel(const char *name);

  /// cuBLASLt and its handle, loaded by the first call.
  struct Products {
    blas::CublasLt functions;
    blas::Handle handle = nullptr;
  };
  Expected<const Products *> products();
  /// cuDNN, sought by the first call.
  Expected<const dnn::Cudnn *> attention();
  /// Tells once, on stderr, why attention does without cuDNN.
  void remarkOnAttention(std::string_view why);

private:
  explicit Card(const Libraries &libraries) : libraries(libraries) {}
  /// Sets the members that describe the GPU.
  Status find();
  Expected<Module> loadModule(const std::string &ptx,
                              const std::string &origin);

  const Libraries libraries;
  DeviceNumber device = 0;
  int driverVersion = 0; ///< 13010: CUDA 13.1
  Context context = nullptr;
  int computeCapability = 0;
  std::string cardName;

  std::mutex mutex; ///< guards the members below
  std::vector<Module> modules;
  Module library = nullptr;
  std::map<std::string, Function> libraryKernels;
  std::unique_ptr<Products> loadedProducts;
  std::unique_ptr<const Expected<dnn::Cudnn>> soughtAttention;
  bool hasRemarked = false;
};

/// Returns an error if the GPU is older than the chip that code was made for,
/// such as sm_80.
Status checkChip(const Card &card, const std::string &chip);

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_CARD_H
