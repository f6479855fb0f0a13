//===- WarnOfPadding.cpp - Devices with nothing but padding ---------------===//

#include "CommunicationRemarks.h"
#include "heddle/Shard/Passes.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/SetVector.h"

namespace heddle {
#define GEN_PASS_DEF_WARNOFPADDINGPASS
#include "heddle/Shard/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

namespace {

/// The variables, ops and arguments that have one size and are split over one
/// list of axes. The warning describes the first of them that a plan can name,
/// otherwise the first one.
struct Split {
  std::string what;
  Location location;
  llvm::SetVector<StringRef> names;
};

class PaddingWarner {
public:
  explicit PaddingWarner(MeshRef mesh) : mesh(mesh) {}

  /// Adds a loop or dimension. `name` is the name of its operator or variable;
  /// empty if a plan cannot name it.
  void add(int64_t size, ArrayRef<StringAttr> axes, StringRef name,
           Location location, llvm::function_ref<std::string()> describe);
  void emit() const;

private:
  /// Returns how many of the devices over the axes hold nothing but padding.
  int64_t countIdle(int64_t size, ArrayRef<StringAttr> axes) const {
    int64_t devices = mesh.getSize(axes);
    int64_t part = llvm::divideCeil(size, devices);
    return part == 0 ? 0 : devices - llvm::divideCeil(size, part);
  }

  MeshRef mesh;
  llvm::MapVector<std::pair<int64_t, AxisListAttr>, Split> splits;
};

} // namespace

void PaddingWarner::add(int64_t size, ArrayRef<StringAttr> axes, StringRef name,
                        Location location,
                        llvm::function_ref<std::string()> describe) {
  if (axes.empty() || 2 * countIdle(size, axes) < mesh.getSize(axes))
    return;
  auto list = AxisListAttr::get(location.getContext(), axes);
  auto known = splits.find({size, list});
  if (known == splits.end())
    known = splits.insert({{size, list}, {describe(), location, {}}}).first;
  else if (known->second.names.empty() && !name.empty())
    known->second = {describe(), location, {}};
  if (!name.empty())
    known->second.names.insert(name);
}

void PaddingWarner::emit() const {
  for (const auto &[key, split] : splits) {
    auto [size, axes] = key;
    auto warning = emitWarning(split.location)
                   << split.what << ", of size " << size
                   << ", is split over the " << mesh.getSize(axes.getAxes())
                   << " devices of " << describeAxes(axes.getAxes()) << ": "
                   << countIdle(size, axes.getAxes())
                   << " of them hold nothing but padding; split it over fewer";
    if (split.names.size() > 1)
      warning << ", here and in " << split.names.size() - 1 << " more";
  }
}

static void warnOfPadding(ModuleOp module, MeshRef mesh) {
  PaddingWarner warner(mesh);
  auto addTensor = [&](Type type, ShardingAttr sharding, StringRef name,
                       Location location, const std::string &what) {
    auto tensor = dyn_cast<RankedTensorType>(type);
    if (!tensor || !sharding)
      return;
    for (auto [i, dim] : llvm::enumerate(sharding.getDims()))
      warner.add(tensor.getDimSize(i), dim.getAxes(), name, location,
                 [&, i = i] {
                   return "dimension " + std::to_string(i) + " of " + what;
                 });
  };
  for (auto variable : module.getOps<VariableOp>())
    addTensor(variable.getTensorType(), variable.getStorageAttr(),
              variable.getSymName(), variable.getLoc(),
              "variable '" + variable.getSymName().str() + "'");
  module.walk([&](Operation *op) {
    if (!op->hasAttr(kFactorsAttrName))
      return;
    ShardingRule rule = getRule(op);
    FailureOr<FactorAxes> axes = readFactorAxes(op, rule, mesh.mesh);
    if (failed(axes))
      return;
    for (auto [i, list] : llvm::enumerate(*axes))
      warner.add(rule.factors[i].size, list, getOpName(op), op->getLoc(),
                 [&, i = i] {
                   return "factor \"" + getFactorKey(rule, i) + "\" of " +
                          describeOperator(op);
                 });
  });
  for (auto function : module.getOps<func::FuncOp>())
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      addTensor(
          type, function.getArgAttrOfType<ShardingAttr>(i, kShardingAttrName),
          "", function.getLoc(),
          "argument " + std::to_string(i) + " of @" + function.getName().str());
  warner.emit();
}

namespace {
struct WarnOfPaddingPass
    : heddle::impl::WarnOfPaddingPassBase<WarnOfPaddingPass> {
  void runOnOperation() override {
    if (MeshRef mesh = getMesh(getOperation()))
      warnOfPadding(getOperation(), mesh);
    markAllAnalysesPreserved();
  }
};
} // namespace
