//===- Environment.cpp - The job that the environment describes -----------===//

#include "heddle_rt/job.h"
#include "support/Message.h"

#include <charconv>
#include <cstdlib>
#include <cstring>

namespace heddle::runtime {

static Expected<int32_t> integer(const char *name, const char *text,
                                 int32_t least) {
  int32_t value = 0;
  const char *end = text + std::strlen(text);
  auto [rest, problem] = std::from_chars(text, end, value);
  if (problem != std::errc() || rest != end || value < least)
    return errorOf("environment variable ", name,
                   ": expected a whole number of at least ", least, ", got '",
                   text, "'");
  return value;
}

static constexpr int32_t mostPort = 65535;

/// The variables in which a launcher numbers the processes.
struct Launcher {
  const char *process, *processes;
};
static constexpr Launcher launchers[] = {
    {"RANK", "WORLD_SIZE"},
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
};

/// Returns an error if only one of torchrun's two variables is set: without
/// this check, each process would train all ranks. Not for Slurm, which sets
/// one of its variables outside of jobs, too.
static Status checkBothOrNone(const Launcher &launcher) {
  const char *process = std::getenv(launcher.process);
  const char *processes = std::getenv(launcher.processes);
  if (bool(process) == bool(processes))
    return Status::success();
  return errorOf(
      "environment variable ", process ? launcher.process : launcher.processes,
      " is set: expected ", process ? launcher.processes : launcher.process,
      ", too, or neither");
}

Expected<std::optional<JobOptions>> jobFromEnvironment() {
  HEDDLE_RT_RETURN_IF_ERROR(checkBothOrNone(launchers[0]));
  JobOptions options;
  const char *process = nullptr, *processes = nullptr;
  for (const Launcher &launcher : launchers) {
    process = std::getenv(launcher.process);
    processes = std::getenv(launcher.processes);
    if (!process || !processes)
      continue;
    Expected<int32_t> number = integer(launcher.process, process, 0);
    HEDDLE_RT_RETURN_IF_ERROR(number.status());
    Expected<int32_t> count = integer(launcher.processes, processes, 1);
    HEDDLE_RT_RETURN_IF_ERROR(count.status());
    if (*number >= *count)
      return errorOf("environment variable ", launcher.process,
                     ": expected a number below ", launcher.processes, ", ",
                     *count, ", got ", *number);
    options.process = *number;
    options.processes = *count;
    break;
  }
  if (options.processes == 1)
    return std::optional<JobOptions>();

  if (const char *key = std::getenv("HEDDLE_JOB_KEY"))
    options.key = key;
  const char *address = std::getenv("MASTER_ADDR");
  if (address)
    options.address = address;
  if (const char *file = std::getenv("HEDDLE_JOB_FILE")) {
    options.file = file;
  } else {
    const char *port = std::getenv("MASTER_PORT");
    if (!address || !port)
      return errorOf("the environment describes a job of ", options.processes,
                     " processes: expected the address of process 0 in "
                     "MASTER_ADDR and MASTER_PORT, or a file that all of them "
                     "see in HEDDLE_JOB_FILE");
    Expected<int32_t> number = integer("MASTER_PORT", port, 1);
    HEDDLE_RT_RETURN_IF_ERROR(number.status());
    // The port itself belongs to torchrun's own store.
    const char *agent = std::getenv("TORCHELASTIC_USE_AGENT_STORE");
    int32_t next = agent && std::strcmp(agent, "True") == 0;
    if (*number > mostPort - next)
      return errorOf("environment variable MASTER_PORT: expected a port of at "
                     "most ",
                     mostPort - next, ", got ", *number);
    options.port = *number + next;
  }
  if (const char *listener = std::getenv("HEDDLE_JOB_LISTENER");
      listener && options.process == 0) {
    Expected<int32_t> number = integer("HEDDLE_JOB_LISTENER", listener, 3);
    HEDDLE_RT_RETURN_IF_ERROR(number.status());
    options.listener = *number;
  }
  return std::optional(options);
}

} // namespace heddle::runtime
