//===- Launch.cpp - Starting the processes of a job -----------------------===//

#include "Launch.h"

#include "JobErrors.h"

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <sstream>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace fs = std::filesystem;
using namespace heddle;
using namespace heddle::tools;
using Clock = std::chrono::steady_clock;

/// Time for the other processes to stop after one has failed, and then after
/// SIGTERM.
static constexpr std::chrono::seconds stopTime{10}, terminateTime{5};

//===----------------------------------------------------------------------===//
// The environment of a process
//===----------------------------------------------------------------------===//

/// Returns 32 random hexadecimal digits.
static std::string makeKey() {
  unsigned char bytes[16] = {};
  if (::getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
    std::abort();
  std::string key;
  for (unsigned char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", byte);
    key += digits;
  }
  return key;
}

using Variables = std::vector<std::pair<std::string, std::string>>;

static Variables variablesOf(int process, int processes, int localProcess,
                             const std::string &address, int port,
                             const std::string &key) {
  return {{"RANK", std::to_string(process)},
          {"WORLD_SIZE", std::to_string(processes)},
          {"LOCAL_RANK", std::to_string(localProcess)},
          {"MASTER_ADDR", address},
          {"MASTER_PORT", std::to_string(port)},
          {"HEDDLE_JOB_KEY", key}};
}

/// Returns the file for the output of a process other than the first.
static std::string logOf(const LaunchFlags &flags, int process) {
  return flags.logs / ("process-" + std::to_string(process) + ".log");
}

/// Quotes a word for a shell, if need be.
static std::string quoteWord(const std::string &word) {
  if (!word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTU"
                             "VWXYZ0123456789-_=+./:,@%") == std::string::npos)
    return word;
  std::string text = "'";
  for (char letter : word)
    text += letter == '\'' ? "'\\''" : std::string(1, letter);
  return text + "'";
}

/// Prints the commands that start the processes on the hosts, for bash. With
/// retries they are the body of a loop.
static int printLines(const LaunchFlags &flags) {
  std::string key = makeKey();
  int all = flags.processes * static_cast<int>(flags.hosts.size());
  bool hasLogs = !flags.logs.empty(), isLoop = flags.retries > 0;
  if (hasLogs)
    std::printf("mkdir -p %s\n", quoteWord(flags.logs).c_str());
  if (isLoop)
    std::printf("for attempt in {0..%d}; do\nrunning=()\n", flags.retries);
  for (int i = 0; i < all; ++i) {
    const std::string &host = flags.hosts[size_t(i / flags.processes)];
    std::string line;
    for (const auto &[name, value] : variablesOf(
             i, all, i % flags.processes, flags.hosts.front(), flags.port, key))
      line += name + "=" + quoteWord(value) + " ";
    for (const std::string &word : flags.command)
      line += quoteWord(word) + " ";
    line.pop_back();
    std::string log;
    if (hasLogs && i > 0)
      log = " >" + quoteWord(logOf(flags, i)) + " 2>&1";
    std::printf("ssh %s %s%s%s &%s\n", quoteWord(host).c_str(),
                isLoop ? "HEDDLE_JOB_ATTEMPT=$attempt\\ " : "",
                quoteWord(line).c_str(), log.c_str(),
                isLoop ? " running+=($!)" : "");
  }
  if (!isLoop)
    std::printf("wait\n");
  else
    // wait -n of bash 5.2 loses processes that end at the same time.
    std::printf(R"sh(code=0
while [ ${#running[@]} -gt 0 ] && [ $code = 0 ]; do
  sleep 1
  for i in ${!running[@]}; do
    kill -0 ${running[i]} 2>/dev/null && continue
    wait ${running[i]} || [ $code != 0 ] || code=$?
    unset 'running[i]'
  done
done
case $code in %d | %d | %d) exit $code ;; esac
echo "a process ended with exit code $code, attempt $attempt" >&2
# The others stop by themselves, unless they hang.
for second in {1..%d}; do [ -z "$(jobs -pr)" ] || sleep 1; done
kill $(jobs -pr) 2>/dev/null
wait
done
exit $code
)sh",
                exitSuccess, exitUsage, exitInterrupted,
                static_cast<int>((stopTime + terminateTime).count()));
  return exitSuccess;
}

//===----------------------------------------------------------------------===//
// Processes
//===----------------------------------------------------------------------===//

namespace {

struct Child {
  pid_t pid = -1;
  bool running = false;
  int status = 0; ///< as waitpid returns it
};

} // namespace

// A signal handler can only use variables with static lifetime.
static constexpr size_t mostProcesses = 1024;
static volatile pid_t childrenToSignal[mostProcesses];
static volatile std::sig_atomic_t wasSignalled = 0;

static void passOn(int number) {
  wasSignalled = 1;
  for (volatile pid_t &pid : childrenToSignal)
    if (pid > 0)
      ::kill(pid, number);
}

static void signalAll(const std::vector<Child> &children, int number) {
  for (const Child &child : children)
    if (child.running)
      ::kill(child.pid, number);
}

/// Returns a socket that listens at a free port of the loopback interface, and
/// the port. The first process inherits the socket, so no other program can
/// take the port.
static int listenLocally(int &port) {
  int descriptor = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (descriptor < 0 ||
      ::bind(descriptor, reinterpret_cast<sockaddr *>(&address), size) != 0 ||
      ::listen(descriptor, SOMAXCONN) != 0 ||
      ::getsockname(descriptor, reinterpret_cast<sockaddr *>(&address),
                    &size) != 0)
    return -1;
  port = ntohs(address.sin_port);
  return descriptor;
}

/// Replaces this process, a child, by a process of the job.
[[noreturn]] static void become(const LaunchFlags &flags, int process,
                                const Variables &variables, int listener,
                                const JobErrors &errors, pid_t parent) {
  ::setpgid(0, 0); // the launcher passes on signals of the terminal
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent)
    ::_exit(exitFailure);
  for (const auto &[name, value] : variables)
    ::setenv(name.c_str(), value.c_str(), 1);
  // A log has all errors of its process.
  errors.inherit(/*records=*/flags.logs.empty());
  ::unsetenv("HEDDLE_JOB_FILE");
  ::unsetenv("TORCHELASTIC_USE_AGENT_STORE");
  if (process == 0) {
    ::fcntl(listener, F_SETFD, 0); // is inherited
    ::setenv("HEDDLE_JOB_LISTENER", std::to_string(listener).c_str(), 1);
  } else {
    ::unsetenv("HEDDLE_JOB_LISTENER");
    std::string file = flags.logs.empty() ? "/dev/null" : logOf(flags, process);
    int output = ::open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (output >= 0) {
      ::dup2(output, STDOUT_FILENO);
      if (!flags.logs.empty())
        ::dup2(output, STDERR_FILENO);
      ::close(output);
    }
  }
  std::vector<char *> words;
  for (const std::string &word : flags.command)
    words.push_back(const_cast<char *>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  std::fprintf(stderr, "%s: error: cannot start '%s': %s\n",
               program_invocation_short_name, words[0], std::strerror(errno));
  ::_exit(exitFailure);
}

/// Describes how a process ended.
static std::string describe(int process, int status) {
  std::string text = "process " + std::to_string(process);
  if (WIFSIGNALED(status))
    return text + " was killed by signal " + std::to_string(WTERMSIG(status)) +
           " (" + ::strsignal(WTERMSIG(status)) + ")";
  return text + " ended with exit code " + std::to_string(WEXITSTATUS(status));
}

static int exitCodeOf(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

/// Waits until all children have ended. Returns the one that failed first, or
/// -1.
static int waitForAll(std::vector<Child> &children) {
  int failed = -1;
  Clock::time_point failedAt;
  size_t running = children.size();
  int sent = 0; // the last signal
  while (running > 0) {
    int status = 0;
    pid_t pid = ::waitpid(-1, &status, WNOHANG);
    if (pid <= 0) {
      ::usleep(10'000);
      auto since = Clock::now() - failedAt;
      if (failed >= 0 && !sent && since > stopTime)
        signalAll(children, sent = SIGTERM);
      if (failed >= 0 && sent == SIGTERM && since > stopTime + terminateTime)
        signalAll(children, sent = SIGKILL); // also ends a stopped process
      continue;
    }
    for (size_t i = 0; i < children.size(); ++i) {
      Child &child = children[i];
      if (child.pid != pid)
        continue;
      childrenToSignal[i] = 0;
      child.running = false;
      child.status = status;
      --running;
      // Survivors report a death a moment after it: a process that was killed
      // is the cause.
      bool isCause = failed >= 0 && WIFSIGNALED(status) && !sent &&
                     !WIFSIGNALED(children[size_t(failed)].status);
      if (exitCodeOf(status) != 0 && (failed < 0 || isCause)) {
        if (failed < 0)
          failedAt = Clock::now();
        failed = static_cast<int>(i);
      }
    }
  }
  return failed;
}

/// Runs the job once. Returns the exit code; `problem` says what failed.
static int runOnce(const LaunchFlags &flags, int attempt,
                   std::string &problem) {
  int port = 0;
  int listener = listenLocally(port);
  if (listener < 0) {
    problem = std::string("cannot listen: ") + std::strerror(errno);
    return exitFailure;
  }
  std::string key = makeKey();
  JobErrors errors;
  std::vector<Child> children{size_t(flags.processes)};
  pid_t self = ::getpid();
  std::fflush(nullptr);
  for (int i = 0; i < flags.processes; ++i) {
    Variables variables =
        variablesOf(i, flags.processes, i, "127.0.0.1", port, key);
    variables.emplace_back("HEDDLE_JOB_ATTEMPT", std::to_string(attempt));
    pid_t pid = ::fork();
    if (pid == 0)
      become(flags, i, variables, listener, errors, self);
    if (pid < 0) {
      problem = std::string("cannot start a process: ") + std::strerror(errno);
      signalAll(children, SIGKILL);
      break;
    }
    children[size_t(i)] = {pid, true, 0};
    childrenToSignal[i] = pid;
  }
  ::close(listener);
  if (!problem.empty())
    return exitFailure;
  int failed = waitForAll(children);
  int first = children.front().status;
  for (const std::string &error :
       errors.takeOthers(WIFEXITED(first) && WEXITSTATUS(first) != 0))
    reportError(error);
  if (failed < 0)
    return exitSuccess;
  problem = describe(failed, children[size_t(failed)].status);
  return exitCodeOf(children[size_t(failed)].status);
}

int tools::launch(const LaunchFlags &flags) {
  if (!flags.hosts.empty())
    return printLines(flags);
  std::error_code failure;
  if (fs::is_directory(flags.command.front(), failure))
    return reportUsage(
        "expected a command after --, such as heddle-run train " +
        flags.command.front() + " ..., got the folder '" +
        flags.command.front() + "'");
  if (!flags.logs.empty()) {
    fs::create_directories(flags.logs, failure);
    if (failure)
      return reportError("cannot make the folder '" + flags.logs.string() +
                         "': " + failure.message());
  }
  struct sigaction action {};
  action.sa_handler = passOn;
  action.sa_flags = SA_RESTART;
  for (int number : {SIGINT, SIGTERM, SIGHUP})
    ::sigaction(number, &action, nullptr);
  for (int attempt = 0;; ++attempt) {
    std::string problem;
    int code = runOnce(flags, attempt, problem);
    bool isFinal = code == exitSuccess || code == exitUsage || wasSignalled ||
                   attempt == flags.retries;
    if (!problem.empty() && code != exitInterrupted)
      std::fprintf(stderr, "%s: %s%s\n", program_invocation_short_name,
                   problem.c_str(),
                   isFinal ? ""
                           : ("; starting all processes again, retry " +
                              std::to_string(attempt + 1) + " of " +
                              std::to_string(flags.retries))
                                 .c_str());
    if (isFinal)
      return code;
  }
}

std::vector<std::string> tools::ownCommand() {
  std::ifstream stream("/proc/self/cmdline", std::ios::binary);
  std::vector<std::string> words;
  for (std::string word; std::getline(stream, word, '\0');)
    words.push_back(word);
  std::error_code failure;
  fs::path program = fs::read_symlink("/proc/self/exe", failure);
  if (!failure && !words.empty())
    words[0] = program;
  return words;
}

void tools::addLaunchCommand(CLI::App &app, int &result) {
  auto flags = std::make_shared<LaunchFlags>();
  CLI::App *command = addCommand(
      app, "launch", "Run a command in several processes that train together",
      [](const std::string &, const std::string &) {
        return std::string("; put the command that it runs behind --: launch "
                           "-n 2 -- heddle-run train MODEL.heddle --data FILE");
      });
  command
      ->add_option("-n,--processes", flags->processes,
                   "Processes on this machine, or on each of --hosts")
      ->required()
      ->check(between(1, mostProcesses));
  command
      ->add_option("--retries", flags->retries,
                   "After a failure, start all again at most so many times; "
                   "a training resumes from its newest checkpoint")
      ->capture_default_str()
      ->check(between(0, 1000));
  command->add_option("--logs", flags->logs,
                      "Write what processes other than the first print to "
                      "this folder (default: their standard output is "
                      "dropped)");
  CLI::Option *hosts =
      command
          ->add_option("--hosts", flags->hosts,
                       "Start nothing, but print the commands for bash that "
                       "start the processes on these hosts, separated by "
                       "commas")
          ->delimiter(',')
          ->allow_extra_args(false); // "--hosts a,b -- COMMAND"
  command
      ->add_option("--port", flags->port,
                   "Port of the first of --hosts on which it waits for the "
                   "others")
      ->capture_default_str()
      ->check(between(1, 65535))
      ->needs(hosts);
  command
      ->add_option("COMMAND", flags->command,
                   "After --: the command to run, such as heddle-run train "
                   "MODEL.heddle ...")
      ->required();
  command->callback([flags, &result] { result = launch(*flags); });
}
