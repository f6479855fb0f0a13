//===- RunSession.cpp - Sessions from the command line --------------------===//

#include "RunSession.h"

#include "CheckOutput.h"

#include <nlohmann/json.hpp>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <string>

namespace fs = std::filesystem;
using namespace heddle;
using namespace heddle::tools;

CLI::Option *tools::addEmulateFlags(CLI::App &app, EmulateFlags &flags) {
  CLI::Option *cluster =
      app.add_option("--emulate", flags.cluster,
                     "Communicate no faster than the links of this cluster "
                     "would: a JSON file");
  cluster->check(notEmpty("a cluster"));
  return app
      .add_flag("--emulate-compute", flags.compute,
                "Compute nothing, but sleep for as long as the devices of that "
                "cluster would compute; all results are meaningless")
      ->needs(cluster);
}

CLI::Option *tools::addSessionFlags(CLI::App &app, SessionFlags &flags) {
  app.add_option("--cores", flags.cores,
                 "Cores of each device (default: all cores, shared equally)")
      ->check(between(0, 4096));
  app.add_flag("--times", flags.times,
               "Print where the time went, by kind of work: of all training "
               "steps together, or of the evaluation");
  CLI::Option *trace =
      app.add_option("--trace", flags.trace,
                     "Write every call of the last steps as a trace for "
                     "Perfetto and chrome://tracing");
  trace->check(notEmpty("a file to write"));
  app.add_option("--trace-steps", flags.traceSteps,
                 "Steps in the trace, the last ones")
      ->capture_default_str()
      ->check(between(1, 1000))
      ->needs(trace);
  app.add_option("--hang-timeout", flags.hangTimeout,
                 "Among several processes: seconds without a sign of life "
                 "after which one is taken to hang")
      ->capture_default_str()
      ->check(between(0.1, 86400));
  CLI::Option *emulateCompute = addEmulateFlags(app, flags.emulate);
  CLI::Option *weights = app.add_option(
      "--weights", flags.weights,
      "Load these weights (safetensors file or folder, Hugging Face names) "
      "instead of the model's own");
  weights->check(notEmpty("a file or folder"));
  app.add_flag("--no-weights", flags.noWeights,
               "Initialize at random although the model has weights")
      ->excludes(weights);
  return emulateCompute;
}

/// Returns the path of the model's weights that the artifact records; empty if
/// it records none.
static std::string recordedWeights(const runtime::Manifest &manifest) {
  nlohmann::json notes = nlohmann::json::parse(manifest.model, nullptr, false);
  if (!notes.is_object())
    return "";
  auto found = notes.find("weights");
  return found != notes.end() && found->is_string() ? found->get<std::string>()
                                                    : "";
}

runtime::Status EmulateFlags::apply(runtime::SessionOptions &options) const {
  if (cluster.empty())
    return runtime::Status::success();
  auto network = readNetwork(cluster);
  if (network.ok())
    options.network = std::move(*network);
  options.emulateCompute = compute;
  return network.status();
}

runtime::Status tools::joinJob(double hangTimeout,
                               runtime::SessionOptions &options) {
  auto described = runtime::jobFromEnvironment();
  HEDDLE_RT_RETURN_IF_ERROR(described.status());
  if (!*described)
    return runtime::Status::success();
  (*described)->hangTimeout =
      std::chrono::milliseconds(static_cast<int64_t>(hangTimeout * 1000));
  auto job = runtime::Job::join(**described);
  HEDDLE_RT_RETURN_IF_ERROR(job.status());
  options.job = std::move(*job);
  // Processes that hang are found by their signs of life. A process may be slow
  // for a good reason, such as an export.
  options.collectiveTimeout = std::chrono::minutes(30);
  return runtime::Status::success();
}

int tools::reportError(runtime::Job *job, std::string_view message) {
  if (!job)
    return reportError(message);
  (void)job->fail(runtime::error(std::string(message)));
  return reportError("process " + std::to_string(job->process()) + ": " +
                     std::string(message));
}

runtime::Expected<std::unique_ptr<runtime::Session>>
tools::openSession(const fs::path &artifact, const SessionFlags &flags,
                   bool initialize, runtime::SessionOptions options) {
  options.coresPerDevice = flags.cores;
  options.initializeVariables = initialize;
  HEDDLE_RT_RETURN_IF_ERROR(flags.emulate.apply(options));
  if (!flags.trace.empty())
    if (std::string problem = checkOutput("--trace", flags.trace);
        !problem.empty())
      return runtime::error(problem);
  auto session = runtime::Session::load(artifact, options);
  // Emulating a cluster needs no GPU.
  if (session.ok() && !options.network &&
      (!options.job || options.job->process() == 0))
    if (std::string gpu = (*session)->unusedGpu(); !gpu.empty())
      std::fprintf(stderr,
                   "%s: this machine has %s, which the model does not use: "
                   "compile it with --target-gpu sm_80 to train on it\n",
                   program_invocation_short_name, gpu.c_str());
  if (session.ok() && !flags.trace.empty())
    (*session)->startTrace(size_t(flags.traceSteps));
  return session;
}

fs::path tools::weightsFor(const runtime::Session &session,
                           const SessionFlags &flags) {
  if (flags.emulate.compute) // nobody would read them
    return "";
  if (flags.noWeights || !flags.weights.empty())
    return flags.weights;
  return recordedWeights(session.manifest());
}

runtime::Status
tools::finishSession(runtime::Session &session, const SessionFlags &flags,
                     const std::string &timed,
                     const std::vector<runtime::DeviceTimes> &times) {
  if (flags.times) {
    std::fprintf(stderr, "times of %s\n", timed.c_str());
    std::fprintf(stderr, "%-12s", "seconds");
    for (size_t device = 0; device < times.size(); ++device)
      std::fprintf(stderr, "  device %-3zu", device);
    std::fprintf(stderr, "\n");
    for (size_t kind = 0; kind < runtime::numWorkKinds; ++kind) {
      std::string_view kindName =
          runtime::name(static_cast<runtime::WorkKind>(kind));
      std::fprintf(stderr, "%-12.*s", static_cast<int>(kindName.size()),
                   kindName.data());
      for (const runtime::DeviceTimes &device : times)
        std::fprintf(stderr, "  %10.3f", device.seconds[kind]);
      std::fprintf(stderr, "\n");
    }
    std::fprintf(stderr, "%-12s", "total");
    for (const runtime::DeviceTimes &device : times)
      std::fprintf(stderr, "  %10.3f", device.total);
    std::fprintf(stderr, "\n");
  }
  return flags.trace.empty() ? runtime::Status::success()
                             : session.writeTrace(flags.trace);
}
