//===- PlanReport.cpp - What heddle plan prints ---------------------------===//

#include "PlanReport.h"

#include "../../common/Mebibytes.h"

#include "heddle/Simulate/Report.h"
#include "heddle/Support/Units.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/JSON.h"

#include <map>

using namespace heddle;
using namespace heddle::tools;
namespace json = llvm::json;

//===----------------------------------------------------------------------===//
// Text
//===----------------------------------------------------------------------===//

/// Returns a lower bound of the memory of any plan, as the end of a message
/// that no plan fits. Empty if the search already proved that the plan with the
/// least memory was found.
static std::string showMemoryBound(const PlanReport &report) {
  int64_t found = report.figures.getNeededMemory();
  if (report.memoryBound == 0 || report.memoryBound >= found)
    return "";
  return ", and no plan needs less than " +
         showBytes(found, report.memoryBound).second;
}

static void printBytes(const char *name, int64_t bytes) {
  if (bytes > 0)
    llvm::outs() << llvm::format("  %-21s %12.1f MiB\n", name, inMiB(bytes));
}

static void printMemory(const DeviceMemoryPlan &memory) {
  for (const MemoryPart &part : getMemoryParts(memory))
    printBytes(part.name.data(), part.bytes);
  printBytes("in all", memory.total());
}

/// Prints how many blocks of each kind have which strategy.
static void printBlocks(const std::vector<BlockChoice> &blocks) {
  std::map<std::string, std::map<std::string, int64_t>> counts;
  for (const BlockChoice &choice : blocks)
    ++counts[generalizeNames(choice.block)][choice.strategy];
  for (const auto &[kind, strategies] : counts) {
    llvm::outs() << kind << ":";
    const char *comma = " ";
    for (const auto &[strategy, count] : strategies) {
      llvm::outs() << comma << count << " x " << strategy;
      comma = ", ";
    }
    llvm::outs() << "\n";
  }
}

static void printBatches(const std::vector<BatchPoint> &batches) {
  llvm::outs() << "rows of a step    rows a second    by the best plan of few "
                  "layers\n";
  for (const BatchPoint &point : batches) {
    auto rows = static_cast<long long>(point.rows);
    if (point.seconds > 0)
      llvm::outs() << llvm::format("%14lld %16.6g    ", rows,
                                   point.getThroughput())
                   << point.candidate.getName() << "\n";
    else
      llvm::outs() << llvm::format("%14lld     ", rows) << point.why << "\n";
  }
}

/// Returns the kinds of device in the order of the plan's stages, if this order
/// differs from the cluster's.
static std::vector<std::string> getKinds(const PlanSearch &search) {
  std::vector<std::string> names;
  for (int64_t kind : search.report.winner.kinds)
    names.push_back(search.request.cluster.groups[kind].device.kind);
  return names;
}

/// Prints that devices repeat work, if they do so for much of a step. Standard
/// plans divide all large work. Decided operators may avoid slow links so.
static void printRepeats(const PlanSearch &search) {
  constexpr double kMuch = 1.5;
  const PlanReport &report = search.report;
  double computing = report.figures.getComputing();
  if (!report.winner.decidesOperators ||
      !search.request.cluster.groups.empty() ||
      computing <= kMuch * report.divided)
    return;
  llvm::outs() << "devices repeat work instead of exchanging values: each "
                  "computes for "
               << formatSeconds(computing, kStepDigits) << ", which could be "
               << formatSeconds(report.divided, kStepDigits)
               << " if all work were divided; fewer devices may be as fast "
                  "(--devices, --front)\n";
}

/// Returns the line about the time of other plans. If the bound rests on
/// predictions, or is that of standard plans although a part of the plan is
/// stated, the line promises nothing.
static std::string showBound(const PlanSearch &search) {
  const PlanReport &report = search.report;
  std::string text;
  llvm::raw_string_ostream out(text);
  bool isProven = report.boundPredictions == 0 && !search.request.stated;
  out << (isProven ? "no other plan takes less than "
                   : "no other plan is expected to take less than ")
      << formatSeconds(report.bound, kStepDigits)
      << llvm::format(", gap %.1f %%", 100 * report.plan->prediction->gap);
  if (report.boundPredictions > 0)
    out << " (" << report.boundPredictions
        << (report.boundPredictions == 1 ? " candidate counts"
                                         : " candidates count")
        << " by programs of few layers)";
  out << "\n";
  return text;
}

void tools::printPlanReport(const PlanSearch &search,
                            const std::string &command) {
  const PlanReport &report = search.report;
  const PlanRequest &request = search.request;
  const PlanFigures &figures = report.figures;
  if (!search.batches.empty())
    printBatches(search.batches);
  if (report.plan) {
    if (!search.batches.empty())
      llvm::outs() << "rows: " << request.program.rows << "\n";
    llvm::outs() << "plan: " << report.winner.getName() << "\n"
                 << "step: " << formatSeconds(figures.seconds, kStepDigits);
    // A profile of blocks does not say how long a step waits.
    if (!request.blocks)
      llvm::outs() << ", of which "
                   << formatSeconds(figures.exposed, kStepDigits)
                   << " wait for communication"
                   << (report.isExtrapolated ? " (extrapolated from few layers)"
                                             : "");
    llvm::outs() << "\n"
                 << showBound(search)
                 << llvm::format("memory of each device (%.1f MiB may be used",
                                 inMiB(request.memory + figures.extraMemory))
                 << (report.isExtrapolated
                         ? "; extrapolated from few layers, so it may be "
                           "exceeded)\n"
                         : ")\n");
    if (report.blocks.empty())
      printMemory(figures.memory);
    else
      printBytes("by the profile", figures.memory.total());
    printBlocks(report.blocks);
    if (const auto &exposure = figures.exposure)
      llvm::outs() << "operators were decided " << exposure->rounds
                   << " times for a program of few layers, which waits "
                   << formatSeconds(exposure->simulated, kStepDigits)
                   << llvm::format(" for communication: %.1f %%",
                                   100 * std::abs(exposure->getError()))
                   << " of its step "
                   << (exposure->getError() > 0 ? "less" : "more")
                   << " than expected"
                   << (exposure->isFixed
                           ? ""
                           : "; further rounds might decide otherwise")
                   << "\n";
    printRepeats(search);
    if (!report.winner.kinds.empty())
      llvm::outs() << "kinds of device along the pipeline: "
                   << llvm::join(getKinds(search), ", ")
                   << "; the cluster has another order: number the devices so, "
                      "by the order of the hosts, and use the plan with a "
                      "cluster of that order\n";
    for (const std::string &kinds : figures.mixed)
      llvm::outs() << "devices that do the same are of several kinds (" << kinds
                   << "): they take the time of the weakest\n";
  } else {
    auto [limit, least] = showBytes(request.memory, figures.getNeededMemory());
    llvm::outs() << (report.isInterrupted
                         ? "nothing that fits into " + limit +
                               " was found yet; the least is " + least
                         : "nothing fits into " + limit +
                               "; the least found is " + least +
                               showMemoryBound(report))
                 << ":\n  " << report.winner.getName() << "\n"
                 << "largest parts:\n";
    for (const auto &[name, bytes] : report.consumers)
      llvm::outs() << llvm::format("  %-27s %12.1f MiB\n", name.c_str(),
                                   inMiB(bytes));
  }
  llvm::outs() << "candidates: " << report.candidates << ", judged "
               << report.judged.size() << ", compiled " << report.compiled
               << "\n";
  if (!report.plan && report.memoryBound > request.memory)
    llvm::outs() << "no candidate can fit: the lower bound of the memory "
                    "exceeds the limit, however large --work is\n";
  else if (!report.plan && report.isWorkUsedUp)
    llvm::outs() << "--work " << request.mostCompiled
                 << " is used up: a candidate that was not compiled may fit\n";
  else if (report.plan && report.isWorkUsedUp && report.untried > 0)
    llvm::outs() << "--work " << request.mostCompiled
                 << " is used up: a candidate that was not compiled may be "
                    "faster; --work "
                 << 2 * request.mostCompiled << " compiles more of them\n";
  if (int64_t count = report.infeasiblePredictions; !report.plan && count > 0)
    llvm::outs() << count
                 << (count == 1
                         ? " candidate counts by programs of few layers: "
                           "it may fit\n"
                         : " candidates count by programs of few "
                           "layers: one of them may fit\n");
  auto printSkipped = [&](bool areCandidates, const char *heading) {
    for (const SkippedCandidates &skipped : report.skipped)
      if (skipped.isCandidate == areCandidates) {
        llvm::outs() << heading << "  left out " << skipped.count << ": "
                     << skipped.reason << "\n";
        heading = "";
      }
  };
  printSkipped(true, "");
  printSkipped(false, "meshes and batches without candidates\n");
  int64_t devices = request.cluster.getNumDevices();
  if (report.plan && request.devices < devices)
    llvm::outs() << "devices: the first " << request.devices
                 << " of the cluster's " << devices << "\n";
  if (report.plan)
    llvm::outs() << "to compile it: " << command << "\n";
  if (report.isInterrupted)
    llvm::outs() << (report.plan ? "interrupted: this is the best plan so far\n"
                                 : "interrupted\n");
}

//===----------------------------------------------------------------------===//
// JSON
//===----------------------------------------------------------------------===//

static void writeFigures(json::OStream &out, const PlanFigures &figures) {
  out.attribute("seconds", figures.seconds);
  out.attribute("exposed", figures.exposed);
  if (!figures.mixed.empty())
    out.attributeArray("mixed_devices", [&] {
      for (const std::string &kinds : figures.mixed)
        out.value(kinds);
    });
  out.attributeObject("memory", [&] { writeMemoryParts(out, figures.memory); });
  if (const auto &exposure = figures.exposure)
    out.attributeObject("exposure", [&] {
      out.attribute("predicted", exposure->predicted);
      out.attribute("simulated", exposure->simulated);
      out.attribute("error", exposure->getError());
      out.attribute("rounds", exposure->rounds);
      out.attribute("settled", exposure->isFixed);
    });
}

void tools::writePlanReport(const PlanSearch &search,
                            const std::string &command) {
  const PlanReport &report = search.report;
  const PlanRequest &request = search.request;
  json::OStream out(llvm::outs(), /*IndentSize=*/1);
  out.object([&] {
    out.attribute("feasible", report.plan.has_value());
    out.attribute("interrupted", report.isInterrupted);
    out.attribute("extrapolated", report.isExtrapolated);
    out.attribute("cluster", request.cluster.name);
    out.attribute("devices", request.devices);
    out.attribute("rows", request.program.rows);
    if (!search.batches.empty())
      out.attributeArray("batches", [&] {
        for (const BatchPoint &point : search.batches)
          out.object([&] {
            out.attribute("rows", point.rows);
            out.attribute("fits", point.seconds > 0);
            if (point.seconds <= 0) {
              out.attribute("why", point.why);
              return;
            }
            out.attribute("options", point.candidate.getName());
            out.attribute("seconds", point.seconds);
            out.attribute("rows_per_second", point.getThroughput());
          });
      });
    out.attribute("limit", request.memory);
    out.attribute("options", report.winner.getName());
    out.attribute("micro_batches", report.winner.microBatches);
    if (report.plan && !request.blocks)
      out.attribute("divided", report.divided);
    if (request.blocks) {
      // A profile of blocks says neither how long a step waits nor what the
      // bytes hold.
      out.attribute("seconds", report.figures.seconds);
      out.attributeObject("memory", [&] {
        out.attribute("total", report.figures.memory.total());
      });
    } else {
      writeFigures(out, report.figures);
    }
    if (!report.winner.kinds.empty())
      out.attributeArray("kinds", [&] {
        for (const std::string &kind : getKinds(search))
          out.value(kind);
      });
    if (report.plan) {
      out.attribute("bound", report.bound);
      out.attribute("bound_predictions", report.boundPredictions);
      out.attribute("gap", report.plan->prediction->gap);
      out.attribute("command", command);
    } else {
      if (report.memoryBound > 0)
        out.attribute("memory_bound", report.memoryBound);
      out.attribute("infeasible_predictions", report.infeasiblePredictions);
      out.attributeArray("consumers", [&] {
        for (const auto &[name, bytes] : report.consumers)
          out.object([&] {
            out.attribute("name", name);
            out.attribute("bytes", bytes);
          });
      });
    }
    if (!report.blocks.empty())
      out.attributeArray("blocks", [&] {
        for (const BlockChoice &choice : report.blocks)
          out.object([&] {
            out.attribute("name", choice.block);
            out.attribute("strategy", choice.strategy);
            out.attribute("seconds", choice.seconds);
            out.attribute("bytes", choice.bytes);
          });
      });
    out.attribute("candidates", report.candidates);
    out.attribute("compiled", report.compiled);
    out.attributeArray("judged", [&] {
      for (const JudgedCandidate &judged : report.judged)
        out.object([&] {
          out.attribute("options", judged.candidate.getName());
          out.attribute("bound", judged.bound);
          if (!judged.error.empty()) {
            out.attribute("error", judged.error);
            return;
          }
          out.attribute("fits", judged.fits);
          writeFigures(out, judged.figures);
        });
    });
    out.attributeArray("left_out", [&] {
      for (const SkippedCandidates &skipped : report.skipped)
        out.object([&] {
          out.attribute("reason", skipped.reason);
          out.attribute("count", skipped.count);
          out.attribute("candidates", skipped.isCandidate);
        });
    });
  });
  llvm::outs() << "\n";
}
