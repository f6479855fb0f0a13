//===- ResolveMesh.cpp - The mesh of a plan, and uses of its axes ---------===//

#include "PlanResolver.h"

using namespace mlir;
using namespace heddle;

/// Returns the axis that a refined axis is a part of ("tp" for "tp.0"), or "".
static StringRef getWholeAxis(StringRef name) {
  auto [whole, part] = name.rsplit('.');
  return !part.empty() && llvm::all_of(part, llvm::isDigit) ? whole : "";
}

bool PlanResolver::resolveMesh() {
  PlanPosition at = plan.getPosition("mesh");
  // A plan in memory has not been through the file's reader, so its sizes are
  // checked again.
  std::string owner;
  int64_t most = kMaxPlanDevices;
  if (setting.cluster && setting.cluster->getNumDevices() < most) {
    most = setting.cluster->getNumDevices();
    owner = ", which the cluster '" + setting.cluster->name + "' has";
  }
  if (setting.devices > 0 && setting.devices < most) {
    most = setting.devices;
    owner.clear();
  }
  std::string expected =
      "expected a mesh of at most " + std::to_string(most) + " devices" + owner;
  int64_t product = 1;
  SmallVector<MeshAxisAttr> axes;
  for (const PlanAxis &axis : plan.mesh) {
    if (axis.size < 1) {
      report(PlanRule::AxisSize, at, "$.mesh." + axis.name,
             "expected a positive number of devices, got " + Twine(axis.size));
      return false;
    }
    if (axis.size > kMaxPlanDevices / product) {
      report(PlanRule::Devices, at, "$.mesh", expected + ", got more");
      return false;
    }
    product *= axis.size;
    if (StringRef whole = getWholeAxis(axis.name); plan.getAxisSize(whole))
      report(PlanRule::AxisName, at, "$.mesh." + axis.name,
             "expected no axis with the name of a part of \"" + whole +
                 "\": parts may be made of it for key/value heads; rename one");
    axes.push_back(MeshAxisAttr::get(
        context, StringAttr::get(context, axis.name), axis.size));
  }
  if (product > most)
    report(PlanRule::Devices, at, "$.mesh",
           expected + ", got " + Twine(product));
  result.mesh = MeshAttr::get(context, axes);
  return true;
}

/// Checks that the axes of all entries are axes of the mesh, and that none is
/// the axis of the stages.
template <typename KeyT>
void PlanResolver::checkAxesOf(StringRef section,
                               ArrayRef<PlanEntry<KeyT>> entries) {
  bool hasStages = plan.numStages > 0 && plan.getAxisSize(kPipelineAxis) > 1;
  for (const PlanEntry<KeyT> &entry : entries)
    for (const PlanAssignment<KeyT> &assignment : entry.assignments)
      for (const std::string &axis : assignment.axes) {
        std::string path = getPlanPath(section, entry.glob, assignment.key);
        if (plan.getAxisSize(axis) == 0) {
          std::string known;
          for (const PlanAxis &other : plan.mesh)
            known += (known.empty() ? "\"" : ", \"") + other.name + "\"";
          report(PlanRule::Axis, assignment.position, path,
                 "expected an axis of the mesh (" +
                     (known.empty() ? "it has none" : known) + "), got \"" +
                     axis + "\"",
                 "", axis);
        } else if (hasStages && axis == kPipelineAxis) {
          report(PlanRule::PipelineAxis, assignment.position, path,
                 "expected no use of \"" + axis +
                     "\", over whose devices the stages of the pipeline lie: "
                     "take another axis, or leave out \"pipeline\" and "
                     "\"stages\"");
        }
      }
}

void PlanResolver::checkAxes() {
  checkAxesOf<std::string>("operators", plan.operators);
  checkAxesOf<unsigned>("storage", plan.storage);
  checkAxesOf<std::string>("pins", plan.pins);
}
