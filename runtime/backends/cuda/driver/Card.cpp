//===- Card.cpp - One GPU, shared by the ranks on it ----------------------===//

#include "backends/cuda/driver/Card.h"
#include "support/Message.h"

#include <array>
#include <charconv>
#include <cstdio>

namespace heddle::runtime::cuda {

/// The PTX of kernels/Library.c.
static constexpr char kLibraryPtx[] =
#include "CudaLibrary.ptx.inc"
    ;

Expected<std::shared_ptr<Card>> Card::open(const Libraries &libraries) {
  std::shared_ptr<Card> card(new Card(libraries));
  HEDDLE_RT_RETURN_IF_ERROR(card->find());
  HEDDLE_RT_RETURN_IF_ERROR(card->driver().check(
      card->driver().primaryCtxRetain(&card->context, card->device),
      "cuDevicePrimaryCtxRetain"));
  return card;
}

Expected<std::string> Card::describe(const Driver &driver) {
  Card card(Libraries{driver});
  HEDDLE_RT_RETURN_IF_ERROR(card.find());
  HEDDLE_RT_RETURN_IF_ERROR(checkChip(card, "sm_80"));
  return concat(card.name(), " (sm_", card.capability(), ")");
}

Status Card::find() {
  const Driver &d = driver();
  const Status noGpu =
      error("expected an NVIDIA GPU, the driver finds none: check "
            "CUDA_VISIBLE_DEVICES, train on another machine, or compile "
            "the model without --target-gpu");
  Result result = d.init(0);
  if (result == kNoDevice)
    return noGpu;
  HEDDLE_RT_RETURN_IF_ERROR(d.check(result, "cuInit"));
  int count = 0;
  HEDDLE_RT_RETURN_IF_ERROR(
      d.check(d.driverGetVersion(&driverVersion), "cuDriverGetVersion"));
  if (driverVersion < kLeastDriver)
    return errorOf("expected an NVIDIA driver for CUDA ", kLeastDriver / 1000,
                   ".0 or newer, got one for CUDA ", driverVersion / 1000, ".",
                   driverVersion % 1000 / 10, ": install a newer driver");
  HEDDLE_RT_RETURN_IF_ERROR(
      d.check(d.deviceGetCount(&count), "cuDeviceGetCount"));
  if (count == 0)
    return noGpu;
  HEDDLE_RT_RETURN_IF_ERROR(d.check(d.deviceGet(&device, 0), "cuDeviceGet"));
  std::array<char, 256> text{};
  HEDDLE_RT_RETURN_IF_ERROR(
      d.check(d.deviceGetName(text.data(), int(text.size()) - 1, device),
              "cuDeviceGetName"));
  cardName = text.data();
  int major = 0, minor = 0;
  HEDDLE_RT_RETURN_IF_ERROR(
      d.check(d.deviceGetAttribute(&major, kAttributeMajor, device),
              "cuDeviceGetAttribute"));
  HEDDLE_RT_RETURN_IF_ERROR(
      d.check(d.deviceGetAttribute(&minor, kAttributeMinor, device),
              "cuDeviceGetAttribute"));
  computeCapability = major * 10 + minor;
  return Status::success();
}

Card::~Card() {
  if (!context)
    return;
  const Driver &d = driver();
  d.ctxSetCurrent(context);
  if (loadedProducts && loadedProducts->handle)
    loadedProducts->functions.destroy(loadedProducts->handle);
  for (Module module : modules)
    d.moduleUnload(module);
  d.primaryCtxRelease(device);
}

Status Card::use() const {
  return driver().check(driver().ctxSetCurrent(context), "cuCtxSetCurrent");
}

Expected<Card::Memory> Card::memory() const {
  HEDDLE_RT_RETURN_IF_ERROR(use());
  Memory memory;
  HEDDLE_RT_RETURN_IF_ERROR(driver().check(
      driver().memGetInfo(&memory.free, &memory.total), "cuMemGetInfo"));
  return memory;
}

Expected<Module> Card::loadModule(const std::string &ptx,
                                  const std::string &origin) {
  HEDDLE_RT_RETURN_IF_ERROR(use());
  std::array<char, 4096> log{};
  std::array<int, 2> options{kJitErrorLog, kJitErrorLogBytes};
  std::array<void *, 2> values{log.data(),
                               reinterpret_cast<void *>(log.size() - 1)};
  Module module = nullptr;
  Result result =
      driver().moduleLoadDataEx(&module, ptx.c_str(), unsigned(options.size()),
                                options.data(), values.data());
  if (result != kSuccess)
    return errorOf(origin, ": the driver cannot compile the kernels for ",
                   cardName, " (sm_", computeCapability, "): ",
                   driver().check(result, "cuModuleLoadDataEx").message(),
                   log[0] ? ": " : "", log.data());
  modules.push_back(module);
  return module;
}

Expected<std::vector<LoadedKernel>> Card::load(const std::string &ptx,
                                               const std::string &origin,
                                               const CodeInfo &code) {
  std::lock_guard lock(mutex);
  Expected<Module> module = loadModule(ptx, origin);
  HEDDLE_RT_RETURN_IF_ERROR(module.status());
  std::vector<LoadedKernel> kernels;
  for (const KernelInfo &info : code.kernels) {
    LoadedKernel &kernel = kernels.emplace_back();
    kernel.info = &info;
    HEDDLE_RT_RETURN_IF_ERROR(
        driver()
            .check(driver().moduleGetFunction(&kernel.function, *module,
                                              info.symbol.c_str()),
                   "cuModuleGetFunction")
            .in(concat(origin, ": kernel ", info.symbol)));
  }
  return kernels;
}

Expected<Function> Card::libraryKernel(const char *name) {
  std::lock_guard lock(mutex);
  Function &function = libraryKernels[name];
  if (function)
    return function;
  if (!library) {
    Expected<Module> module = loadModule(kLibraryPtx, "the library's kernels");
    HEDDLE_RT_RETURN_IF_ERROR(module.status());
    library = *module;
  }
  HEDDLE_RT_RETURN_IF_ERROR(
      driver()
          .check(driver().moduleGetFunction(&function, library, name),
                 "cuModuleGetFunction")
          .in(name));
  return function;
}

Expected<const Card::Products *> Card::products() {
  std::lock_guard lock(mutex);
  if (loadedProducts)
    return loadedProducts.get();
  Expected<blas::CublasLt> functions = libraries.loadProducts(driverVersion);
  HEDDLE_RT_RETURN_IF_ERROR(functions.status());
  auto made = std::make_unique<Products>();
  made->functions = *functions;
  HEDDLE_RT_RETURN_IF_ERROR(blas::CublasLt::check(
      made->functions.create(&made->handle), "cublasLtCreate"));
  loadedProducts = std::move(made);
  return loadedProducts.get();
}

Expected<const dnn::Cudnn *> Card::attention() {
  std::lock_guard lock(mutex);
  if (!soughtAttention)
    soughtAttention = std::make_unique<const Expected<dnn::Cudnn>>(
        libraries.loadAttention(driverVersion));
  HEDDLE_RT_RETURN_IF_ERROR(soughtAttention->status());
  return &**soughtAttention;
}

void Card::remarkOnAttention(std::string_view why) {
  std::lock_guard lock(mutex);
  if (!std::exchange(hasRemarked, true))
    std::fprintf(stderr,
                 "heddle: attention runs on plain kernels, which are slow: "
                 "%.*s\n",
                 int(why.size()), why.data());
}

Status checkChip(const Card &card, const std::string &chip) {
  constexpr std::string_view prefix = "sm_";
  int wanted = 0;
  bool isOnly = chip.ends_with("a"); // sm_90a runs on no other chip
  const char *end = chip.data() + chip.size() - (isOnly ? 1 : 0);
  auto isNumber = [&] {
    auto [read, problem] =
        std::from_chars(chip.data() + prefix.size(), end, wanted);
    return problem == std::errc() && read == end;
  };
  if (!chip.starts_with(prefix) || chip.size() <= prefix.size() || !isNumber())
    return errorOf("expected a chip such as sm_80 in the manifest, got ", chip);
  int got = card.capability();
  if (isOnly ? got == wanted : got >= wanted)
    return Status::success();
  return errorOf("the model was compiled for ", chip,
                 isOnly ? "" : " and newer GPUs", ", this machine has ",
                 card.name(), " (sm_", got,
                 "): compile it with a --target-gpu that this GPU runs",
                 got < 80 ? ", which begin with sm_80" : "");
}

} // namespace heddle::runtime::cuda
