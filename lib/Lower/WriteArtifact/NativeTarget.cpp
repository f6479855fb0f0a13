//===- NativeTarget.cpp - The CPU that code is made for -------------------===//

#include "NativeTarget.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/MC/MCSubtargetInfo.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/TargetParser/Host.h"
#include "llvm/TargetParser/Triple.h"

using namespace mlir;
using namespace heddle;

/// The features that generated code can use. Other features of the compiling
/// CPU (protection keys, virtualization, ...) are left out, because the
/// artifact must also run on CPUs that lack them.
static constexpr llvm::StringLiteral x86Features[] = {
    "64bit",        "cmov",
    "cx8",          "fxsr",
    "mmx",          "sse",
    "sse2",         "sse3",
    "ssse3",        "sse4.1",
    "sse4.2",       "popcnt",
    "avx",          "avx2",
    "f16c",         "fma",
    "bmi",          "bmi2",
    "lzcnt",        "movbe",
    "avx512f",      "evex512",
    "avx512cd",     "avx512dq",
    "avx512bw",     "avx512vl",
    "avx512vbmi",   "avx512vbmi2",
    "avx512ifma",   "avx512vnni",
    "avx512bf16",   "avx512fp16",
    "avx512bitalg", "avx512vpopcntdq",
    "avxvnni",      "gfni",
    "cx16",         "sahf",
    "crc32"};

static bool isInstructionSet(const llvm::Triple &triple, StringRef feature) {
  return !triple.isX86() || llvm::is_contained(x86Features, feature);
}

static std::vector<std::string> hostFeatures(const llvm::Triple &triple) {
  std::vector<std::string> names;
  for (const auto &feature : llvm::sys::getHostCPUFeatures())
    if (feature.second && isInstructionSet(triple, feature.first()))
      names.push_back(feature.first().str());
  llvm::sort(names);
  return names;
}

static FailureOr<const llvm::Target *> findTarget(Location loc,
                                                  const std::string &triple) {
  std::string error;
  const llvm::Target *found = llvm::TargetRegistry::lookupTarget(triple, error);
  if (!found)
    return emitError(loc) << "no code generator for " << triple << ": "
                          << error;
  return found;
}

FailureOr<std::unique_ptr<llvm::TargetMachine>>
heddle::createTargetMachine(Location loc, const NativeTarget &target,
                            llvm::CodeGenOptLevel level) {
  FailureOr<const llvm::Target *> found = findTarget(loc, target.triple);
  if (failed(found))
    return failure();
  std::unique_ptr<llvm::TargetMachine> machine((*found)->createTargetMachine(
      target.triple, target.cpu, target.features, llvm::TargetOptions(),
      llvm::Reloc::PIC_, std::nullopt, level));
  if (!machine)
    return emitError(loc) << "cannot make a code generator for "
                          << target.triple;
  return machine;
}

/// Returns the features of the CPU and the requested features. Leaves out
/// features that add no instructions for generated code.
static std::vector<std::string>
getRequiredFeatures(const llvm::Triple &triple,
                    const llvm::MCSubtargetInfo &info) {
  std::vector<std::string> names;
  for (const llvm::SubtargetFeatureKV &feature : info.getAllProcessorFeatures())
    if (info.getFeatureBits().test(feature.Value) &&
        isInstructionSet(triple, feature.Key))
      names.push_back(feature.Key);
  llvm::sort(names);
  return names;
}

FailureOr<NativeTarget> NativeTarget::parse(Location loc, StringRef text) {
  llvm::InitializeNativeTarget();
  llvm::InitializeNativeTargetAsmPrinter();
  NativeTarget target;
  target.triple = llvm::sys::getProcessTriple();
  llvm::Triple triple(target.triple);

  SmallVector<StringRef> parts;
  text.split(parts, ',', -1, /*KeepEmpty=*/false);
  StringRef cpu = parts.empty() ? "native" : parts.front();
  SmallVector<std::string> features;
  if (cpu == "native") {
    // Chooses the target by its features, not by the CPU's name: a virtual
    // machine may hide features that the CPU of that name has.
    target.cpu = triple.isX86() ? "x86-64" : "generic";
    for (const std::string &feature : hostFeatures(triple))
      features.push_back("+" + feature);
  } else {
    target.cpu = cpu.str();
  }
  for (StringRef feature :
       ArrayRef<StringRef>(parts).drop_front(std::min<size_t>(1, parts.size())))
    features.push_back(feature.str());
  target.features = llvm::join(features, ",");

  FailureOr<const llvm::Target *> found = findTarget(loc, target.triple);
  if (failed(found))
    return failure();
  // Checks CPU and features against a CPU that every target has, because LLVM
  // would print to stderr about an unknown CPU.
  std::unique_ptr<llvm::MCSubtargetInfo> base(
      (*found)->createMCSubtargetInfo(target.triple, "", ""));
  if (!base)
    return emitError(loc) << "no description of the CPUs of " << target.triple;
  if (!base->isCPUStringValid(target.cpu))
    return emitError(loc) << "target-cpu: expected 'native' or a CPU of "
                          << target.triple
                          << " (x86-64-v3, x86-64-v4, ...), got '" << target.cpu
                          << "'";
  for (StringRef feature : features) {
    StringRef name = feature;
    if (!(name.consume_front("+") || name.consume_front("-")) ||
        llvm::none_of(base->getAllProcessorFeatures(),
                      [&](const llvm::SubtargetFeatureKV &known) {
                        return name == known.Key;
                      }))
      return emitError(loc) << "target-cpu: expected +feature or -feature of "
                            << target.triple << ", got '" << feature << "'";
  }
  std::unique_ptr<llvm::MCSubtargetInfo> info((*found)->createMCSubtargetInfo(
      target.triple, target.cpu, target.features));
  if (!info)
    return emitError(loc) << "no description of the CPU '" << target.cpu << "'";
  target.requiredFeatures = getRequiredFeatures(triple, *info);
  return target;
}
