//===- LinkLibrary.cpp - Links objects to a shared library ----------------===//

#include "WriteFile.h"
#include "heddle/Lower/Artifact.h"
#include "llvm/ADT/ScopeExit.h"
#include "llvm/Object/ArchiveWriter.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Program.h"
#include "llvm/Support/raw_ostream.h"
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

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

/// Returns the arguments that link `inputs` to the shared library `output`.
static std::vector<std::string> getArguments(const Linker &linker,
                                             StringRef output,
                                             ArrayRef<std::string> inputs) {
  std::vector<std::string> arguments{linker.path, "-shared", "-o",
                                     output.str()};
  StringRef prefix = linker.isDriver ? "-Wl," : "";
  for (StringRef flag : {"--hash-style=gnu", "--gc-sections", "--build-id"})
    arguments.push_back((prefix + flag).str());
  if (linker.isDriver)
    arguments.insert(arguments.end(), {"-Wl,-z,now"});
  else
    arguments.insert(arguments.end(), {"-z", "now"});
  arguments.insert(arguments.end(), inputs.begin(), inputs.end());
  // Keeps libm even if no object uses it.
  arguments.push_back((prefix + "--no-as-needed").str());
  if (linker.isDriver)
    arguments.push_back("-lm");
  else if (std::string math = findMathLibrary(); !math.empty())
    arguments.push_back(math);
  return arguments;
}

//===----------------------------------------------------------------------===//
// A linker that waits for its input
//===----------------------------------------------------------------------===//

/// A process of lld that reads the objects, as one archive, from a pipe.
struct LibraryLinker::Process {
  std::string path;
  pid_t id;
  int input; ///< the end of the pipe to write to; -1: closed
  std::FILE *messages;

  /// Returns null if the process cannot be started.
  static std::unique_ptr<Process> start(const Linker &linker, StringRef output);

  Process(StringRef path, pid_t id, int input, std::FILE *messages)
      : path(path), id(id), input(input), messages(messages) {}
  ~Process();

  LogicalResult link(Location loc, ArrayRef<std::string> objects);

private:
  int wait();
};

std::unique_ptr<LibraryLinker::Process>
LibraryLinker::Process::start(const Linker &linker, StringRef output) {
  std::vector<std::string> arguments = getArguments(
      linker, output,
      {"--whole-archive", "/proc/self/fd/0", "--no-whole-archive"});
  std::vector<char *> argv;
  for (std::string &argument : arguments)
    argv.push_back(argument.data());
  argv.push_back(nullptr);
  std::FILE *messages = std::tmpfile();
  if (!messages)
    return nullptr;
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    std::fclose(messages);
    return nullptr;
  }
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
  for (int stream : {STDOUT_FILENO, STDERR_FILENO})
    ::posix_spawn_file_actions_adddup2(&actions, ::fileno(messages), stream);
  pid_t id;
  int problem =
      ::posix_spawn(&id, argv[0], &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[0]);
  if (problem != 0) {
    ::close(ends[1]);
    std::fclose(messages);
    return nullptr;
  }
  return std::make_unique<Process>(linker.path, id, ends[1], messages);
}

LibraryLinker::Process::~Process() {
  if (input >= 0) {
    ::kill(id, SIGKILL);
    wait();
  }
  std::fclose(messages);
}

/// Closes the input, and returns the status with which the process ends.
int LibraryLinker::Process::wait() {
  ::close(input);
  input = -1;
  int status = -1;
  while (::waitpid(id, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/// Writes to a pipe. If nobody reads, returns without the signal that would end
/// this process.
static void writeToPipe(int pipe, StringRef bytes) {
  sigset_t broken, before;
  ::sigemptyset(&broken);
  ::sigaddset(&broken, SIGPIPE);
  ::pthread_sigmask(SIG_BLOCK, &broken, &before);
  while (!bytes.empty()) {
    ssize_t written = ::write(pipe, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR)
      continue;
    if (written < 0)
      break;
    bytes = bytes.drop_front(written);
  }
  if (!bytes.empty() && errno == EPIPE) {
    timespec now = {};
    ::sigtimedwait(&broken, nullptr, &now);
  }
  ::pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

LogicalResult LibraryLinker::Process::link(Location loc,
                                           ArrayRef<std::string> objects) {
  std::vector<llvm::NewArchiveMember> members;
  std::vector<std::string> names;
  for (size_t i = 0; i < objects.size(); ++i)
    names.push_back(std::to_string(i) + ".o");
  for (auto [name, object] : llvm::zip_equal(names, objects))
    members.emplace_back(llvm::MemoryBufferRef(object, name));
  llvm::Expected<std::unique_ptr<llvm::MemoryBuffer>> archive =
      llvm::writeArchiveToBuffer(members, llvm::SymtabWritingMode::NoSymtab,
                                 llvm::object::Archive::K_GNU,
                                 /*Deterministic=*/true, /*Thin=*/false);
  if (!archive)
    return emitError(loc) << "cannot pack the objects: "
                          << llvm::toString(archive.takeError());
  writeToPipe(input, (*archive)->getBuffer());
  int status = wait();
  if (status == 0)
    return success();
  std::string text;
  std::rewind(messages);
  for (int c; (c = std::fgetc(messages)) != EOF;)
    text.push_back(static_cast<char>(c));
  return emitError(loc) << path << " failed with status " << status << ": "
                        << StringRef(text).trim();
}

//===----------------------------------------------------------------------===//
// The linker
//===----------------------------------------------------------------------===//

LibraryLinker::LibraryLinker(std::string output) : output(std::move(output)) {
  std::optional<Linker> linker = findLinker();
  if (linker && !linker->isDriver && llvm::sys::fs::exists("/proc/self/fd"))
    process = Process::start(*linker, this->output);
}

LibraryLinker::~LibraryLinker() = default;

LogicalResult LibraryLinker::link(Location loc, ArrayRef<std::string> objects) {
  if (process)
    return process->link(loc, objects);
  std::optional<Linker> linker = findLinker();
  if (!linker)
    return emitError(loc) << "expected a linker in PATH: ld.lld-19, ld.lld, cc "
                             "or clang-19; install one (Debian: apt-get "
                             "install lld-19)";
  std::vector<std::string> files;
  auto removeFiles = llvm::make_scope_exit([&] {
    for (const std::string &file : files)
      (void)llvm::sys::fs::remove(file);
  });
  for (auto [i, object] : llvm::enumerate(objects)) {
    files.push_back(output + "." + std::to_string(i) + ".o");
    if (failed(writeFile(loc, files.back(), object)))
      return failure();
  }
  std::vector<std::string> arguments = getArguments(*linker, output, files);
  std::string messages = output + ".log";
  files.push_back(messages);
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
