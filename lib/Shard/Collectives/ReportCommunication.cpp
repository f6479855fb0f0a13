//===- ReportCommunication.cpp - heddle-report-communication --------------===//

#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/CollectiveCosts.h"
#include "heddle/Sharding/ReshardSequence.h"
#include "llvm/Support/Format.h"

namespace heddle {
#define GEN_PASS_DEF_REPORTCOMMUNICATIONPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

struct Row {
  int64_t ops = 0;
  CollectiveCost cost;
};

class Reporter {
public:
  Reporter(MeshRef mesh, const MeshTopology &topology)
      : mesh(mesh), topology(topology) {}

  void add(func::FuncOp function);
  void print(llvm::raw_ostream &stream) const;

private:
  MeshRef mesh;
  const MeshTopology &topology;
  /// Keyed by function, op and axes, and printed in this order.
  std::map<std::tuple<std::string, std::string, std::string>, Row> rows;
};

} // namespace

void Reporter::add(func::FuncOp function) {
  function.walk([&](Operation *op) {
    AxisListAttr axes = getCollectiveAxes(op);
    if (!axes)
      return;
    std::string names;
    for (MeshAxisAttr axis : mesh.mesh.getAxes())
      if (llvm::is_contained(axes.getAxes(), axis.getName()))
        names += (names.empty() ? "\"" : ", \"") + axis.getName().str() + "\"";
    Row &row = rows[{function.getName().str(),
                     op->getName().stripDialect().str(), names}];
    ++row.ops;
    row.cost += getCollectiveCost(op, mesh.mesh, topology);
  });
}

void Reporter::print(llvm::raw_ostream &stream) const {
  std::map<std::string, CollectiveCost> sums;
  for (const auto &[key, row] : rows) {
    const auto &[function, op, axes] = key;
    stream << "@" << function << " " << op << " {" << axes << "}: " << row.ops
           << " ops, " << row.cost.bytes << " bytes, "
           << llvm::format("%.4g", row.cost.seconds * 1e3) << " ms\n";
    sums[function] += row.cost;
  }
  for (const auto &[function, cost] : sums)
    stream << "@" << function << " in all: " << cost.bytes << " bytes, "
           << llvm::format("%.4g", cost.seconds * 1e3) << " ms on '"
           << topology.getCluster().name << "'\n";
}

namespace {
struct ReportCommunicationPass
    : heddle::impl::ReportCommunicationPassBase<ReportCommunicationPass> {
  using Base::Base;

  void runOnOperation() override {
    markAllAnalysesPreserved();
    MeshRef mesh = getMesh(getOperation());
    if (!mesh)
      return;
    auto sequences = ReshardSequences::create(getOperation(), mesh, cluster);
    if (failed(sequences))
      return signalPassFailure();
    Reporter reporter(mesh, sequences->getTopology());
    for (auto function : getOperation().getOps<func::FuncOp>())
      reporter.add(function);
    reporter.print(llvm::errs());
  }
};
} // namespace
