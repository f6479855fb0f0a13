//===- Replay.cpp - Schedules of Oases' published profile -----------------===//
//
// heddle-oases-replay profile_3090.json published_throughput.json [tries]
//                     [--search SECONDS [HIDDEN]]
//
// Prints two tables as Markdown. The first has the time per layer of each
// schedule for each profiled cell whose half batch is profiled too. The second
// has the throughput of each schedule over that of Megatron's, beside the
// published figures.
//
// With --search, prints another table instead: the cells (of one hidden size)
// in which the scheduler's order exceeds its lower bound by over 1 %, beside
// the best order that a search of another kind finds in so many seconds of CPU
// for each number of parts (OrderSearch.h).
//
// Assumptions:
// - A step is 24 layers, without embedding, head, optimizer and gradients over
//   data parallel groups, none of which the profile has.
// - The profile's all-reduce spans all 32 devices whatever the degree, as
//   Oases' profiler ignores the group. It is taken as recorded. Degree 1 is
//   left out, since it needs no all-reduce.
// - The backward pass of a half-layer is one unit: the profile does not tell
//   the gradients of weights from those of inputs.
// - An all-reduce does not slow computation down.
// - Oases' own order recomputes the first half's MLP twice a layer. Here it is
//   recomputed once.
//
//===----------------------------------------------------------------------===//

#include "LayerGraph.h"
#include "OrderSearch.h"
#include "heddle/Solver/ProblemIO.h"
#include "llvm/Support/JSON.h"

#include <cstdio>
#include <cstdlib>

using namespace heddle;
using namespace heddle::bench;
using Row = solver::OasesProfileRow;

namespace {

constexpr int kLayers = 24;
constexpr double kNear = 1.01; ///< times with at most this ratio count as equal

/// A schedule of one step, in seconds per layer.
struct Result {
  double seconds = 0;
  double bound = 0; ///< lower bound for any order of the same units
  int parts = 1;
};

class Profile {
public:
  explicit Profile(std::vector<Row> rows) : rows(std::move(rows)) {}

  const Row *find(int64_t hidden, int64_t degree, int64_t batch) const {
    for (const Row &row : rows)
      if (row.hidden == hidden && row.degree == degree && row.batch == batch)
        return &row;
    return nullptr;
  }
  /// Returns the cells of degrees from 2 whose half batch is profiled.
  std::vector<const Row *> getCells() const {
    std::vector<const Row *> cells;
    for (const Row &row : rows)
      if (row.degree > 1 && getPart(row, 2))
        cells.push_back(&row);
    return cells;
  }
  /// Returns the times of one of `parts` parts of the cell's batch, or null.
  const Row *getPart(const Row &cell, int parts) const {
    return cell.batch % parts == 0
               ? find(cell.hidden, cell.degree, cell.batch / parts)
               : nullptr;
  }

private:
  std::vector<Row> rows;
};

double getBound(const UnitGraph &graph) {
  return getBounds(graph).get() / kLayers;
}

/// Runs all units one after the other.
Result runInSequence(const Row &cell, Recompute recompute) {
  UnitGraph graph = makeGraph(cell, {kLayers, 1, recompute});
  return {scheduleInSequence(graph).seconds / kLayers, getBound(graph)};
}

/// Runs two halves of the batch in Oases' order.
Result runHalves(const Row &half, Recompute recompute) {
  UnitGraph graph = makeGraph(half, {kLayers, 2, recompute, true});
  std::vector<double> rank(graph.units.size());
  return {scheduleByRank(graph, rank).seconds / kLayers, getBound(graph), 2};
}

/// Runs the best number of parts in the best order that the scheduler finds.
Result runBest(const Profile &profile, const Row &cell, Recompute recompute,
               int64_t tries) {
  Result best;
  best.seconds = std::numeric_limits<double>::infinity();
  for (int parts : {1, 2, 4}) {
    const Row *part = profile.getPart(cell, parts);
    if (!part)
      continue;
    UnitGraph graph = makeGraph(*part, {kLayers, parts, recompute});
    ScheduleOptions options;
    options.tries = tries;
    options.tolerance = 0;
    double seconds = findSchedule(graph, options).seconds / kLayers;
    if (seconds < best.seconds)
      best = {seconds, getBound(graph), parts};
  }
  return best;
}

/// Returns the seconds per layer of the best order that a long search finds, of
/// any number of parts that could be 1 % shorter than `best`. Without such
/// parts, returns the seconds of `best`.
double searchCell(const Profile &profile, const Row &cell, Recompute recompute,
                  const Result &best, double time) {
  double least = best.seconds;
  for (int parts : {1, 2, 4}) {
    const Row *part = profile.getPart(cell, parts);
    if (!part)
      continue;
    UnitGraph graph = makeGraph(*part, {kLayers, parts, recompute});
    if (getBound(graph) * kNear > best.seconds)
      continue;
    ScheduleOptions options;
    options.tolerance = 0;
    std::vector<double> turns = getTurns(graph);
    least = std::min(least, searchOrders(graph,
                                         {findSchedule(graph, options),
                                          scheduleByRank(graph, turns)},
                                         time) /
                                kLayers);
  }
  return least;
}

/// All schedules of one cell.
struct Cell {
  Result none, fineGrained, defaultOrder, crossPass;
  Result oases, oasesKept; ///< with and without recomputation
  Result best, bestKept;   ///< the scheduler's, also with and without it
};

Cell run(const Profile &profile, const Row &cell, int64_t tries) {
  const Row &half = *profile.getPart(cell, 2);
  return {runInSequence(cell, Recompute::None),
          runInSequence(cell, Recompute::Communication),
          runInSequence(cell, Recompute::Layer),
          runHalves(half, Recompute::Layer),
          runHalves(half, Recompute::Communication),
          runHalves(half, Recompute::None),
          runBest(profile, cell, Recompute::Communication, tries),
          runBest(profile, cell, Recompute::None, tries)};
}

void printCells(const Profile &profile, int64_t tries) {
  std::printf(
      "Milliseconds per layer. \"messages\": the time of two all-reduces "
      "of half a batch over one of the whole batch.\n\n"
      "| hidden, degree, batch | none | auto (parts) | bound | default | "
      "fine-grained | cross-pass | oases | auto (parts) | bound | "
      "default/auto | oases/auto | messages |\n"
      "|---|---|---|---|---|---|---|---|---|---|---|---|---|\n");
  double least = std::numeric_limits<double>::infinity();
  for (const Row *row : profile.getCells()) {
    Cell cell = run(profile, *row, tries);
    auto ms = [](const Result &result) { return result.seconds * 1e3; };
    std::printf(
        "| %lld, %lld, %lld | %.2f | %.2f (%d) | %.2f | %.2f | %.2f | "
        "%.2f | %.2f | %.2f (%d) | %.2f | %.2f | %.3f | %.2f |\n",
        static_cast<long long>(row->hidden),
        static_cast<long long>(row->degree), static_cast<long long>(row->batch),
        ms(cell.none), ms(cell.bestKept), cell.bestKept.parts,
        cell.bestKept.bound * 1e3, ms(cell.defaultOrder), ms(cell.fineGrained),
        ms(cell.crossPass), ms(cell.oases), ms(cell.best), cell.best.parts,
        cell.best.bound * 1e3, ms(cell.defaultOrder) / ms(cell.best),
        ms(cell.oases) / ms(cell.best),
        2 * profile.getPart(*row, 2)->allReduce / row->allReduce);
    least = std::min({least, ms(cell.oases) / ms(cell.best),
                      ms(cell.oasesKept) / ms(cell.bestKept)});
  }
  std::printf("\nLeast oases/auto, recomputing or not: %.4f\n\n", least);
}

void printSearch(const Profile &profile, int64_t tries, double time,
                 int64_t hidden) {
  std::printf("Milliseconds per layer where auto exceeds its bound by over "
              "%.0f %%, beside a search of %g s.\n\n"
              "| hidden, degree, batch | recomputes | auto (parts) | bound | "
              "search | auto/search |\n|---|---|---|---|---|---|\n",
              (kNear - 1) * 100, time);
  double most = 0;
  int exceeding = 0, cells = 0;
  for (const Row *row : profile.getCells())
    for (Recompute recompute : {Recompute::None, Recompute::Communication}) {
      if (hidden != 0 && row->hidden != hidden)
        continue;
      ++cells;
      Result best = runBest(profile, *row, recompute, tries);
      if (best.seconds <= best.bound * kNear)
        continue;
      ++exceeding;
      double found = searchCell(profile, *row, recompute, best, time);
      std::printf(
          "| %lld, %lld, %lld | %s | %.3f (%d) | %.3f | %.3f | %.4f |\n",
          static_cast<long long>(row->hidden),
          static_cast<long long>(row->degree),
          static_cast<long long>(row->batch),
          recompute == Recompute::None ? "no" : "yes", best.seconds * 1e3,
          best.parts, best.bound * 1e3, found * 1e3, best.seconds / found);
      std::fflush(stdout);
      most = std::max(most, best.seconds / found);
    }
  std::printf("\n%d of %d exceed their bound so; greatest auto/search: %.4f\n",
              exceeding, cells, most);
}

/// Returns the most samples per second of 32 devices that a schedule reaches in
/// the cells of a hidden size, for one layer.
template <typename Run>
double getThroughput(const Profile &profile, int64_t hidden, Run seconds) {
  double most = 0;
  for (const Row *row : profile.getCells())
    if (row->hidden == hidden)
      most =
          std::max(most, static_cast<double>(row->batch) * 32 /
                             static_cast<double>(row->degree) / seconds(*row));
  return most;
}

/// Returns the numbers of a cluster's column, or an empty list.
std::vector<double> getColumn(const llvm::json::Object &published,
                              llvm::StringRef cluster, llvm::StringRef system) {
  std::vector<double> numbers;
  if (const auto *columns = published.getObject(cluster))
    if (const auto *column = columns->getArray(system))
      for (const llvm::json::Value &value : *column)
        numbers.push_back(value.getAsNumber().value_or(0));
  return numbers;
}

void printModels(const Profile &profile, const llvm::json::Object &published,
                 int64_t tries) {
  std::printf(
      "Throughput over Megatron's schedule. Each schedule takes its best "
      "profiled cell. Published: Oases with and without NVLink.\n\n"
      "| hidden, layers | fine-grained | cross-pass | oases | auto | "
      "published, NVLink | published, PCIe |\n"
      "|---|---|---|---|---|---|---|\n");
  std::vector<double> nvlink = getColumn(published, "nvlink_3090", "oases"),
                      pcie = getColumn(published, "pcie_3090", "oases");
  const llvm::json::Array *models = published.getArray("models");
  for (size_t i = 0; models && i < models->size(); ++i) {
    const llvm::json::Object *model = (*models)[i].getAsObject();
    if (!model || i >= nvlink.size() || i >= pcie.size())
      continue;
    int64_t hidden = model->getInteger("hidden").value_or(0);
    auto best = [&](auto run) {
      return getThroughput(profile, hidden,
                           [&](const Row &row) { return run(row).seconds; });
    };
    double megatron = best(
        [](const Row &row) { return runInSequence(row, Recompute::Layer); });
    std::printf(
        "| %lld, %lld | ", static_cast<long long>(hidden),
        static_cast<long long>(model->getInteger("layers").value_or(0)));
    if (megatron == 0) {
      std::printf("not profiled | | | | %.2f | %.2f |\n", nvlink[i], pcie[i]);
      continue;
    }
    std::printf("%.2f | %.2f | %.2f | %.2f | %.2f | %.2f |\n",
                best([](const Row &row) {
                  return runInSequence(row, Recompute::Communication);
                }) / megatron,
                best([&](const Row &row) {
                  return runHalves(*profile.getPart(row, 2), Recompute::Layer);
                }) / megatron,
                best([&](const Row &row) {
                  return runHalves(*profile.getPart(row, 2),
                                   Recompute::Communication);
                }) / megatron,
                best([&](const Row &row) {
                  return runBest(profile, row, Recompute::Communication, tries);
                }) / megatron,
                nvlink[i], pcie[i]);
  }
}

int fail(llvm::Error error) {
  std::fprintf(stderr, "error: %s\n", llvm::toString(std::move(error)).c_str());
  return 2;
}

} // namespace

int main(int argc, char **argv) {
  llvm::SmallVector<llvm::StringRef> arguments(argv + 1, argv + argc), search;
  bool searches = false;
  if (auto *flag = llvm::find(arguments, "--search"); flag != arguments.end()) {
    search.append(flag + 1, arguments.end());
    arguments.erase(flag, arguments.end());
    searches = true;
  }
  double searchTime = 0;
  int64_t tries = 500, hidden = 0;
  bool isRight = arguments.size() >= 2 && arguments.size() <= 3 &&
                 search.size() <= 2 && (searches == !search.empty());
  if (arguments.size() == 3)
    isRight &= !arguments[2].getAsInteger(10, tries) && tries >= 1;
  if (!search.empty())
    isRight &= !search[0].getAsDouble(searchTime) && searchTime > 0;
  if (search.size() == 2)
    isRight &= !search[1].getAsInteger(10, hidden);
  if (!isRight) {
    std::fprintf(stderr,
                 "usage: %s profile.json published.json [tries] "
                 "[--search SECONDS [HIDDEN]]\n",
                 argv[0]);
    return 2;
  }
  auto text = solver::readFile(argv[1]);
  auto rows = text ? solver::parseOasesProfile(*text) : text.takeError();
  if (!rows)
    return fail(rows.takeError());
  auto publishedText = solver::readFile(argv[2]);
  if (!publishedText)
    return fail(publishedText.takeError());
  auto published = llvm::json::parse(*publishedText);
  if (!published)
    return fail(published.takeError());
  const llvm::json::Object *object = published->getAsObject();
  if (!object)
    return fail(
        llvm::createStringError("expected a JSON object in %s", argv[2]));
  Profile profile(std::move(*rows));
  if (searches) {
    printSearch(profile, tries, searchTime, hidden);
    return 0;
  }
  printCells(profile, tries);
  printModels(profile, *object, tries);
  return 0;
}
