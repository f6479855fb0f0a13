//===- LinkLibrary.cpp - Links objects to a shared library ----------------===//

#include "WriteFile.h"
#include "heddle/Lower/Artifact.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace heddle;

namespace {
/// A linker, or a compiler driver that calls one.
struct Linker {
  std::string path;
  bool isDriver;
};
} // namespace

static std::optional<Linker> findLinker() {
  for (auto [name, isDriver] : {std::pair{"ld.lld-19", false},
                                {"ld.lld", false},
                                {"cc", true},
                                {"clang-19", true}})
    if (llvm::ErrorOr<std::string> path = llvm::sys::findProgramByName(name))
      return Linker{*path, isDriver};
  return std::nullopt;
}

/// Returns the path of libm, for a linker that is called without a compiler
/// driver. If it is empty, the loading process must provide libm's functions.
static std::string findMathLibrary() {
  for (const char *folder :
       {"/lib/x86_64-linux-gnu", "/lib/aarch64-linux-gnu", "/lib64",
        "/usr/lib64", "/usr/lib/x86_64-linux-gnu", "/usr/lib", "/lib"}) {
    std::string path = std::string(folder) + "/libm.so.6";
    if (llvm::sys::fs::exists(path))
      return path;
  }
  return "";
}

LogicalResult heddle::linkSharedLibrary(Location loc,
                                        ArrayRef<std::string> objects,
                                        StringRef output) {
  std::optional<Linker> linker = findLinker();
  if (!linker)
    return emitError(loc) << "expected a linker in PATH: ld.lld-19, ld.lld, cc "
                             "or clang-19; install one (Debian: apt-get "
                             "install lld-19)";
  SmallVector<std::string> files;
  auto removeFiles = llvm::make_scope_exit([&] {
    for (const std::string &file : files)
      (void)llvm::sys::fs::remove(file);
  });
  for (auto [i, object] : llvm::enumerate(objects)) {
    files.push_back((output + "." + Twine(i) + ".o").str());
    if (failed(writeFile(loc, files.back(), object)))
      return failure();
  }
  std::string messages = (output + ".log").str();
  files.push_back(messages);

  SmallVector<std::string> arguments{linker->path, "-shared", "-o",
                                     output.str()};
  StringRef prefix = linker->isDriver ? "-Wl," : "";
  for (StringRef flag : {"--hash-style=gnu", "--gc-sections", "--build-id"})
    arguments.push_back((prefix + flag).str());
  arguments.push_back(
      (prefix + Twine("-z") + (linker->isDriver ? "," : "")).str());
  if (linker->isDriver)
    arguments.back() += "now";
  else
    arguments.push_back("now");
  for (size_t i = 0; i < objects.size(); ++i)
    arguments.push_back(files[i]);
  // Keeps libm even if no object uses it.
  arguments.push_back((prefix + "--no-as-needed").str());
  if (linker->isDriver)
    arguments.push_back("-lm");
  else if (std::string math = findMathLibrary(); !math.empty())
    arguments.push_back(math);

  SmallVector<StringRef> argv(arguments.begin(), arguments.end());
  std::optional<StringRef> redirects[] = {StringRef(""), StringRef(messages),
                                          StringRef(messages)};
  std::string error;
  int status = llvm::sys::ExecuteAndWait(linker->path, argv, std::nullopt,
                                         redirects, 0, 0, &error);
  if (status == 0)
    return success();
  if (auto text = llvm::MemoryBuffer::getFile(messages))
    error += (*text)->getBuffer().trim();
  return emitError(loc) << linker->path << " failed with status " << status
                        << ": " << error;
}
