//===- PlanFront.cpp - heddle plan --front --------------------------------===//

#include "PlanFront.h"

#include "../../common/CheckOutput.h"
#include "../../common/Mebibytes.h"
#include "../../common/Run.h"

#include "heddle/Report/Report.h"
#include "heddle/Simulate/Report.h"
#include "heddle_rt/atomic_file.h"

#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

using namespace heddle;
using namespace heddle::tools;
namespace fs = std::filesystem;
namespace json = llvm::json;

static void printFront(const FrontSearch &search) {
  const PlanFront &front = search.front;
  llvm::outs() << "plans for a step of " << search.request.program.rows
               << " rows on '" << search.request.cluster.name
               << "', of which none is better in all\n"
               << "  no.  devices   memory MiB      step ms     waits ms  "
                  "device-hours of 1000 steps\n";
  for (auto [i, point] : llvm::enumerate(front.points))
    llvm::outs() << llvm::format("%5zu %8lld %12.1f %12.6g %12.6g %12.6g  ",
                                 i + 1, static_cast<long long>(point.devices),
                                 inMiB(point.figures.memory.total()),
                                 1e3 * point.figures.seconds,
                                 1e3 * point.figures.exposed,
                                 1000 * point.getDeviceHours())
                 << point.candidate.getName()
                 << (point.isExtrapolated ? " (extrapolated)" : "") << "\n";
  for (const auto &[devices, why] : front.without)
    llvm::outs() << "no plan for " << devices
                 << (devices == 1 ? " device: " : " devices: ") << why << "\n";
  llvm::outs() << "judged " << front.judged << ", compiled " << front.compiled
               << "\n";
  if (front.isInterrupted)
    llvm::outs() << "interrupted: these are the plans so far\n";
}

static void writeFront(llvm::raw_ostream &stream, const FrontSearch &search) {
  const PlanFront &front = search.front;
  json::OStream out(stream, /*IndentSize=*/1);
  out.object([&] {
    out.attribute("cluster", search.request.cluster.name);
    out.attribute("rows", search.request.program.rows);
    out.attribute("limit", search.request.memory);
    out.attribute("interrupted", front.isInterrupted);
    out.attribute("judged", front.judged);
    out.attribute("compiled", front.compiled);
    out.attributeArray("plans", [&] {
      for (const FrontPoint &point : front.points)
        out.object([&] {
          out.attribute("devices", point.devices);
          out.attribute("options", point.candidate.getName());
          out.attribute("micro_batches", point.candidate.microBatches);
          out.attribute("seconds", point.figures.seconds);
          out.attribute("exposed", point.figures.exposed);
          out.attribute("device_hours", point.getDeviceHours());
          out.attribute("extrapolated", point.isExtrapolated);
          out.attributeObject(
              "memory", [&] { writeMemoryParts(out, point.figures.memory); });
        });
    });
    out.attributeArray("without", [&] {
      for (const auto &[devices, why] : front.without)
        out.object([&] {
          out.attribute("devices", devices);
          out.attribute("why", why);
        });
    });
  });
  stream << "\n";
}

static runtime::Status writePlans(const PlanFront &front,
                                  const std::string &folder) {
  for (auto [i, point] : llvm::enumerate(front.points)) {
    fs::path file = fs::path(folder) / (std::to_string(i + 1) + ".json");
    HEDDLE_RT_RETURN_IF_ERROR(
        runtime::writeFileAtomically(file.string(), writePlan(point.plan)));
  }
  return runtime::Status::success();
}

/// Makes the folder of the plans. Returns an error text if that is not possible
/// or it has plans of another front, or an empty text.
static std::string makeFolder(const std::string &path) {
  std::error_code failure;
  fs::create_directories(path, failure);
  if (failure)
    return "-o: cannot make the folder '" + path +
           "' of the plans: " + failure.message();
  if (fs::exists(fs::path(path) / "1.json", failure))
    return "-o: expected a folder without plans, but '" + path +
           "' has a 1.json, perhaps of another front; remove its plans";
  return "";
}

int tools::runPlanFront(CompileFlags &flags, const PlannerFlags &planner,
                        const FrontFlags &front, const std::string &output,
                        bool asJson) {
  if (!front.page.empty())
    if (std::string problem = checkOutput("--html", front.page);
        !problem.empty())
      return reportError(problem);
  if (!output.empty())
    if (std::string problem = makeFolder(output); !problem.empty())
      return reportError(problem);
  FrontSearch search;
  if (int code = planFront(flags, planner, search); code != exitSuccess)
    return code;
  std::string text;
  llvm::raw_string_ostream stream(text);
  writeFront(stream, search);
  stream.flush();
  if (asJson)
    llvm::outs() << text;
  else
    printFront(search);
  llvm::outs().flush();
  if (!output.empty())
    if (runtime::Status status = writePlans(search.front, output); !status.ok())
      return reportError(status.message());
  if (!front.page.empty()) {
    std::string title =
        flags.model.isParametric() ? "parametric model" : flags.model.path;
    runtime::Status status = runtime::writeFileAtomically(
        front.page, makeFrontPage(text, "Choices for " + title));
    if (!status.ok())
      return reportError(status.message());
  }
  return search.front.isInterrupted ? exitInterrupted : exitSuccess;
}
