//===- CallTable.cpp - The names of a program's calls ---------------------===//

#include "CallTable.h"
#include "../Batches/Batches.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace heddle;
namespace json = llvm::json;

/// Returns the number of members of a group over some axes of a mesh.
static int64_t getGroupSize(ModuleOp module, Operation *collective,
                            AxisListAttr axes) {
  auto mesh = SymbolTable::lookupNearestSymbolFrom<MeshOp>(
      module, collective->getAttrOfType<FlatSymbolRefAttr>("mesh"));
  int64_t members = 1;
  if (mesh)
    for (MeshAxisAttr axis : mesh.getMesh().getAxes())
      if (llvm::is_contained(axes.getAxes(), axis.getName()))
        members *= axis.getSize();
  return members;
}

/// Returns the bytes that a device sends in a collective by a ring algorithm
/// (include/heddle/Cost/CollectiveCost.h), or in a transfer.
static int64_t getBytesSent(Operation *call, int64_t members) {
  return llvm::TypeSwitch<Operation *, int64_t>(call)
      .Case([&](rt::AllReduceOp op) {
        return 2 * (members - 1) *
               llvm::divideCeil(op.getIn().getBytes(), members);
      })
      .Case([&](rt::AllGatherOp op) {
        return (members - 1) * op.getIn().getBytes();
      })
      .Case([&](rt::ReduceScatterOp op) {
        return (members - 1) * op.getOut().getBytes();
      })
      .Case([&](rt::AllToAllOp op) {
        int64_t whole = std::max(op.getIn().getBytes(), op.getOut().getBytes());
        return (members - 1) * llvm::divideCeil(whole, members);
      })
      .Case<rt::BroadcastOp, rt::PermuteOp>(
          [](auto op) { return op.getIn().getBytes(); })
      .Case<rt::SendOp, rt::RecvOp>(
          [](auto op) { return op.getBuffer().getBytes(); })
      .Default([](Operation *) { return 0; });
}

static void writeCall(json::OStream &out, ModuleOp module,
                      rt::DeviceCallOpInterface call) {
  auto launch = dyn_cast<rt::LaunchOp>(call.getOperation());
  out.attribute("call",
                launch ? launch.getKernel() : call->getName().stripDialect());
  out.attributeArray("operators", [&] {
    SmallVector<rt::LaunchOp> batch;
    if (launch)
      batch = getBatch(launch);
    llvm::SetVector<StringAttr> names(call.getServes().getNames().begin(),
                                      call.getServes().getNames().end());
    for (rt::LaunchOp other : batch)
      names.insert(other.getServes().getNames().begin(),
                   other.getServes().getNames().end());
    for (StringAttr name : names)
      out.value(name.getValue());
  });
  out.attribute("kind", stringifyDataKind(call.getServes().getKind()));
  auto axes = call->getAttrOfType<AxisListAttr>("axes");
  if (!axes)
    return;
  std::string names;
  for (StringAttr axis : axes.getAxes())
    names += (names.empty() ? "" : ", ") + axis.str();
  out.attribute("axes", names);
  out.attribute("bytes", getBytesSent(call, getGroupSize(module, call, axes)));
}

static void writeItems(json::OStream &out, ModuleOp module, Region &region) {
  for (Operation &op : region.getOps()) {
    // One call of the runtime makes all launches of a batch.
    if (auto launch = dyn_cast<rt::LaunchOp>(op);
        launch && getBatch(launch).front() != launch)
      continue;
    if (auto call = dyn_cast<rt::DeviceCallOpInterface>(op)) {
      out.object([&] { writeCall(out, module, call); });
    } else if (auto loop = dyn_cast<rt::WhileOp>(op)) {
      out.object([&] {
        out.attributeArray("before",
                           [&] { writeItems(out, module, loop.getBefore()); });
        out.attributeArray("after",
                           [&] { writeItems(out, module, loop.getAfter()); });
      });
    }
  }
}

std::string heddle::getCallTable(ModuleOp module) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  json::OStream out(stream);
  out.object([&] {
    for (auto program : module.getOps<rt::ProgramOp>())
      out.attributeArray(program.getSymName(),
                         [&] { writeItems(out, module, program.getBody()); });
  });
  return text;
}
