//===- ReportCommunication.cpp - What a device sends ----------------------===//

#include "ReshardSequence.h"
#include "dialects/Comm/Comm.h"
#include "heddle/Shard/Passes.h"
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
  CollectiveCost getCost(Operation *op, AxisMask axes) const;

  MeshRef mesh;
  const MeshTopology &topology;
  /// By function, op and axes, in this order.
  std::map<std::tuple<std::string, std::string, std::string>, Row> rows;
};

} // namespace

CollectiveCost Reporter::getCost(Operation *op, AxisMask axes) const {
  int64_t in = getBytes(op->getOperand(0).getType());
  int64_t out = getBytes(op->getResult(0).getType());
  return llvm::TypeSwitch<Operation *, CollectiveCost>(op)
      .Case([&](comm::AllReduceOp) { return topology.allReduce(axes, in); })
      .Case([&](comm::AllGatherOp) { return topology.allGather(axes, in); })
      .Case([&](comm::ReduceScatterOp) {
        return topology.reduceScatter(axes, out);
      })
      .Case([&](comm::AllToAllOp exchange) {
        // A block has the rows of a part in both dimensions.
        int64_t split = exchange.getSplitDim();
        return topology.allToAll(
            axes, in /
                      std::max<int64_t>(
                          1, exchange.getInput().getType().getDimSize(split)) *
                      exchange.getType().getDimSize(split));
      })
      .Case([&](comm::BroadcastOp) { return topology.broadcast(axes, in); })
      .Case([&](comm::PermuteOp permute) {
        // All devices of the mesh, group by group.
        std::vector<int64_t> sources(topology.getNumDevices(), -1);
        ArrayRef<StringAttr> list = permute.getAxes().getAxes();
        std::map<std::vector<int64_t>, std::vector<int64_t>> groups;
        for (int64_t device = 0; device < topology.getNumDevices(); ++device) {
          std::vector<int64_t> rest;
          int64_t member = 0;
          for (auto [i, axis] : llvm::enumerate(mesh.mesh.getAxes()))
            if (!(axes >> i & 1))
              rest.push_back(topology.getCoordinate(device, i));
          for (StringAttr name : list)
            for (auto [i, axis] : llvm::enumerate(mesh.mesh.getAxes()))
              if (axis.getName() == name)
                member =
                    member * axis.getSize() + topology.getCoordinate(device, i);
          auto &group = groups[rest];
          group.resize(permute.getSources().size());
          group[member] = device;
        }
        for (auto &[rest, group] : groups)
          for (auto [member, source] : llvm::enumerate(permute.getSources()))
            if (source >= 0)
              sources[group[member]] = group[source];
        return topology.permute(sources, in);
      })
      .Default([](Operation *) { return CollectiveCost(); });
}

void Reporter::add(func::FuncOp function) {
  function.walk([&](Operation *op) {
    auto axes = op->getAttrOfType<AxisListAttr>("axes");
    if (!axes ||
        !isa<comm::AllReduceOp, comm::AllGatherOp, comm::ReduceScatterOp,
             comm::AllToAllOp, comm::BroadcastOp, comm::PermuteOp>(op))
      return;
    std::string names;
    for (MeshAxisAttr axis : mesh.mesh.getAxes())
      if (llvm::is_contained(axes.getAxes(), axis.getName()))
        names += (names.empty() ? "\"" : ", \"") + axis.getName().str() + "\"";
    Row &row = rows[{function.getName().str(),
                     op->getName().stripDialect().str(), names}];
    ++row.ops;
    row.cost += getCost(op, getAxisMask(mesh.mesh, axes.getAxes()));
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
