//===- Artifact.cpp - Writes an artifact as a whole -----------------------===//

#include "heddle/Lower/Artifact.h"
#include "WriteFile.h"
#include "heddle/Lower/Passes.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace mlir;
using namespace heddle;
namespace fs = llvm::sys::fs;

static constexpr StringLiteral manifestName = "manifest.json";

static std::string inFolder(StringRef folder, StringRef file) {
  SmallString<256> path(folder);
  llvm::sys::path::append(path, file);
  return path.str().str();
}

static bool isEmptyDirectory(StringRef path) {
  std::error_code error;
  fs::directory_iterator entry(path, error);
  return !error && entry == fs::directory_iterator();
}

LogicalResult heddle::checkArtifactPath(Location loc, StringRef path) {
  if (!fs::exists(path))
    return success();
  if (fs::is_directory(path) &&
      (isEmptyDirectory(path) || fs::exists(inFolder(path, manifestName))))
    return success();
  return emitError(loc) << "'" << path
                        << "' exists and is not an artifact: it is not "
                           "overwritten; name another folder, or remove it";
}

/// Renames `from` to `to`. An existing `to` is moved aside first, and moved
/// back if the renaming fails.
static LogicalResult replaceDirectory(Location loc, StringRef from,
                                      StringRef to) {
  SmallString<256> aside;
  bool exists = fs::exists(to);
  if (exists) {
    fs::createUniquePath(Twine(to) + ".old-%%%%%%%%", aside, false);
    if (std::error_code error = fs::rename(to, aside))
      return emitError(loc)
             << "cannot move '" << to << "' aside: " << error.message();
  }
  if (std::error_code error = fs::rename(from, to)) {
    if (exists)
      (void)fs::rename(aside, to);
    return emitError(loc) << "cannot rename '" << from << "' to '" << to
                          << "': " << error.message();
  }
  if (exists)
    (void)fs::remove_directories(aside);
  return success();
}

FailureOr<Sanitizer> heddle::parseSanitizer(Location loc, StringRef text) {
  if (text.empty())
    return Sanitizer::None;
  if (text == "address")
    return Sanitizer::Address;
  if (text == "thread")
    return Sanitizer::Thread;
  return emitError(loc) << "sanitize: expected 'address' or 'thread', got '"
                        << text << "'";
}

/// Returns "x" for "x/", so that the temporary folder, whose name is derived
/// from this path, lies beside the folder and not in it.
static StringRef withoutSlashes(StringRef path) {
  while (path.size() > 1 && path.ends_with("/"))
    path = path.drop_back();
  return path;
}

/// Returns the name of a new folder beside `path`.
static std::string getTemporaryName(StringRef path) {
  SmallString<256> folder;
  fs::createUniquePath(path + ".new-%%%%%%%%", folder, false);
  return folder.str().str();
}

ArtifactWriter::ArtifactWriter(StringRef path)
    : path(withoutSlashes(path)), folder(getTemporaryName(this->path)),
      linker(inFolder(folder, "program.so")) {}

LogicalResult ArtifactWriter::write(ModuleOp module,
                                    const ArtifactOptions &options) {
  Location loc = module.getLoc();
  if (failed(checkArtifactPath(loc, path)))
    return failure();
  // The host program of a GPU only calls the runtime, on any x86 CPU.
  bool isNative = options.targetCpu == "native";
  FailureOr<NativeTarget> target = NativeTarget::parse(
      loc, isForGpu(module) && isNative ? "x86-64" : options.targetCpu);
  if (failed(target))
    return failure();
  FailureOr<std::string> manifest = getManifest(module, *target, options);
  if (failed(manifest))
    return failure();
  FailureOr<std::vector<std::string>> objects =
      emitObjects(module, *target, options);
  if (failed(objects))
    return failure();

  std::string ptx;
  if (isForGpu(module)) {
    FailureOr<std::string> code = emitPtx(module);
    if (failed(code))
      return failure();
    ptx = std::move(*code);
  }

  if (std::error_code error = fs::create_directories(folder, true, fs::all_all))
    return emitError(loc) << "cannot make the folder '" << folder
                          << "': " << error.message();
  auto removeFolder =
      llvm::make_scope_exit([&] { (void)fs::remove_directories(folder); });
  if (failed(linker.link(loc, *objects)))
    return failure();
  if (!ptx.empty() &&
      failed(writeFile(loc, inFolder(folder, "program.ptx"), ptx)))
    return failure();
  if (!options.planJson.empty() &&
      failed(writeFile(loc, inFolder(folder, "plan.json"), options.planJson)))
    return failure();
  if (failed(writeFile(loc, inFolder(folder, manifestName), *manifest)) ||
      failed(replaceDirectory(loc, folder, path)))
    return failure();
  removeFolder.release();
  return success();
}

LogicalResult heddle::writeArtifact(ModuleOp module, StringRef path,
                                    const ArtifactOptions &options) {
  return ArtifactWriter(path).write(module, options);
}

namespace heddle {
#define GEN_PASS_DEF_WRITEARTIFACTPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

namespace {
struct WriteArtifact : heddle::impl::WriteArtifactPassBase<WriteArtifact> {
  using WriteArtifactPassBase::WriteArtifactPassBase;

  void runOnOperation() override {
    ArtifactOptions options;
    options.targetCpu = targetCpu;
    FailureOr<Sanitizer> checked =
        parseSanitizer(getOperation().getLoc(), sanitize);
    if (failed(checked))
      return signalPassFailure();
    options.sanitizer = *checked;
    options.threads = threads;
    options.seed = seed;
    if (failed(writeArtifact(getOperation(), path, options)))
      signalPassFailure();
  }
};
} // namespace
