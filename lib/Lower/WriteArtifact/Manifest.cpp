//===- Manifest.cpp - The description in an artifact ----------------------===//

#include "../ConvertRtToLLVM/RuntimeCalls.h"
#include "heddle/Lower/Artifact.h"
#include "heddle_rt/abi.h"
#include "heddle_rt/roles.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace heddle;
namespace json = llvm::json;

static std::string toString(Type element) {
  std::string text;
  llvm::raw_string_ostream(text) << element;
  return text;
}

static void writeAxes(json::OStream &out, ArrayRef<StringAttr> axes) {
  out.array([&] {
    for (StringAttr axis : axes)
      out.value(axis.getValue());
  });
}

static void writeShape(json::OStream &out, StringRef key,
                       ArrayRef<int64_t> shape) {
  out.attributeArray(key, [&] {
    for (int64_t size : shape)
      out.value(size);
  });
}

static void writeTensor(json::OStream &out, StringRef name,
                        RankedTensorType type, StringRef shardingKey,
                        ShardingAttr sharding) {
  out.attribute("name", name);
  out.attribute("type", toString(type.getElementType()));
  writeShape(out, "shape", type.getShape());
  out.attributeArray(shardingKey, [&] {
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      writeAxes(out, sharding ? sharding.getDims()[dim].getAxes()
                              : ArrayRef<StringAttr>());
  });
}

/// Returns the manifest's name of a role. The dialect's enum has the runtime's
/// values.
static StringRef getRoleName(VariableRole role) {
  using Known = runtime::VariableRole;
  static_assert(
      getMaxEnumValForVariableRole() + 1 == runtime::variableRoles.size() &&
      uint32_t(VariableRole::Parameter) == uint32_t(Known::Parameter) &&
      uint32_t(VariableRole::OptimizerState) ==
          uint32_t(Known::OptimizerState) &&
      uint32_t(VariableRole::Gradient) == uint32_t(Known::Gradient) &&
      uint32_t(VariableRole::Counter) == uint32_t(Known::Counter) &&
      uint32_t(VariableRole::Loss) == uint32_t(Known::Loss));
  return runtime::name(static_cast<Known>(role));
}

static StringRef getRoleName(PortRole role) {
  using Known = runtime::PortRole;
  static_assert(
      getMaxEnumValForPortRole() + 1 == runtime::portRoles.size() &&
      uint32_t(PortRole::Features) == uint32_t(Known::Features) &&
      uint32_t(PortRole::Labels) == uint32_t(Known::Labels) &&
      uint32_t(PortRole::MicroBatch) == uint32_t(Known::MicroBatch) &&
      uint32_t(PortRole::LossSum) == uint32_t(Known::LossSum) &&
      uint32_t(PortRole::LabelCount) == uint32_t(Known::LabelCount) &&
      uint32_t(PortRole::Loss) == uint32_t(Known::Loss) &&
      uint32_t(PortRole::GradientNorm) == uint32_t(Known::GradientNorm) &&
      uint32_t(PortRole::LearningRate) == uint32_t(Known::LearningRate) &&
      uint32_t(PortRole::Output) == uint32_t(Known::Output) &&
      uint32_t(PortRole::Gradient) == uint32_t(Known::Gradient));
  return runtime::name(static_cast<Known>(role));
}

static void writeInit(json::OStream &out, InitAttr init) {
  out.attributeObject("init", [&] {
    out.attribute("kind", stringifyInitKind(init.getKind()));
    double value = init.getValue() ? init.getValue().getValueAsDouble() : 0;
    if (init.getKind() == InitKind::Constant)
      out.attribute("value", value);
    if (init.getKind() == InitKind::Normal) {
      out.attribute("mean", 0.0);
      out.attribute("std", value);
    }
  });
}

static void writePorts(json::OStream &out, StringRef key, ArrayAttr ports) {
  out.attributeArray(key, [&] {
    for (auto port : ports.getAsRange<rt::PortAttr>())
      out.object([&] {
        writeTensor(out, port.getName(), port.getType(), "sharding",
                    port.getSharding());
        if (PortRoleAttr role = port.getRole()) {
          out.attribute("role", getRoleName(role.getRole()));
          if (role.getOf())
            out.attribute("parameter", role.getOf().getValue());
        }
      });
  });
}

/// Returns the module's mesh, or null if it has none (one device).
static FailureOr<MeshOp> getMesh(ModuleOp module) {
  MeshOp mesh;
  for (auto op : module.getOps<MeshOp>()) {
    if (mesh) {
      auto diagnostic = op.emitOpError()
                        << "expected one mesh in a module that becomes an "
                           "artifact";
      diagnostic.attachNote(mesh.getLoc()) << "the other is here";
      return failure();
    }
    mesh = op;
  }
  return mesh;
}

/// Parses the plan's text as JSON. Empty text gives an empty object.
static FailureOr<json::Value> parsePlan(Location loc, StringRef text) {
  if (text.empty())
    return json::Value(json::Object());
  llvm::Expected<json::Value> value = json::parse(text);
  if (!value)
    return emitError(loc) << "expected the plan to be JSON: "
                          << toString(value.takeError());
  return std::move(*value);
}

/// Returns the manifest's `model`: notes on the imported model for tools. The
/// runtime does not read them.
static json::Object getModelNotes(ModuleOp module) {
  json::Object notes;
  auto addText = [&](StringRef key, StringRef attribute) {
    if (auto text = module->getAttrOfType<StringAttr>(attribute))
      notes[key] = text.getValue();
  };
  addText("family", kModelAttrName);
  addText("weights", kWeightsAttrName);
  addText("config", kConfigAttrName);
  if (auto count = module->getAttrOfType<IntegerAttr>(kMicroBatchesAttrName))
    notes["micro_batches"] = count.getInt();
  return notes;
}

FailureOr<std::string> heddle::getManifest(ModuleOp module,
                                           const NativeTarget &target,
                                           const ArtifactOptions &options) {
  FailureOr<MeshOp> mesh = getMesh(module);
  if (failed(mesh))
    return failure();
  FailureOr<json::Value> plan = parsePlan(module.getLoc(), options.planJson);
  if (failed(plan))
    return failure();

  std::string text;
  llvm::raw_string_ostream stream(text);
  json::OStream out(stream, /*IndentSize=*/1);
  out.object([&] {
    out.attribute("version", 1);
    out.attribute("abi", HEDDLE_RT_ABI_VERSION);
    out.attributeObject("target", [&] {
      out.attribute("triple", target.triple);
      out.attributeArray("features", [&] {
        for (const std::string &feature : target.requiredFeatures)
          out.value(feature);
      });
      if (options.sanitizer != Sanitizer::None)
        out.attribute("sanitizer", options.sanitizer == Sanitizer::Thread
                                       ? "thread"
                                       : "address");
    });
    out.attribute("library", "program.so");
    out.attributeArray("mesh", [&] {
      if (*mesh)
        for (MeshAxisAttr axis : mesh->getMesh().getAxes())
          out.object([&] {
            out.attribute("name", axis.getName().getValue());
            out.attribute("size", axis.getSize());
          });
    });
    out.attributeArray("groups", [&] {
      if (auto groups = module->getAttrOfType<ArrayAttr>(kGroupsAttrName))
        for (auto axes : groups.getAsRange<AxisListAttr>())
          writeAxes(out, axes.getAxes());
    });
    out.attributeArray("variables", [&] {
      for (auto variable : module.getOps<VariableOp>())
        out.object([&] {
          writeTensor(out, variable.getSymName(), variable.getTensorType(),
                      "storage", variable.getStorageAttr());
          out.attribute("role", getRoleName(variable.getRole()));
          writeInit(out, variable.getInit());
          if (CheckpointAttr checkpoint = variable.getCheckpointAttr())
            out.attributeObject("checkpoint", [&] {
              out.attribute("name", checkpoint.getName().getValue());
              writeShape(out, "shape", checkpoint.getShape());
            });
          if (SliceAttr slice = variable.getSliceAttr())
            out.attributeObject("slice", [&] {
              out.attribute("of", slice.getOf().getValue());
              out.attribute("dim", slice.getDim());
              out.attribute("offset", slice.getOffset());
              out.attribute("size", slice.getSize());
            });
        });
    });
    out.attributeArray("programs", [&] {
      for (auto program : module.getOps<rt::ExportOp>())
        out.object([&] {
          out.attribute("name", program.getSymName());
          out.attribute("symbol", program.getFunction());
          out.attribute("arena_bytes", program.getArena());
          if (program.getStreams() != 1)
            out.attribute("streams", program.getStreams());
          writePorts(out, "arguments", program.getInputs());
          writePorts(out, "results", program.getOutputs());
        });
    });
    out.attribute("seed", options.seed);
    out.attribute("model", getModelNotes(module));
    out.attribute("plan", *plan);
  });
  stream << '\n';
  return text;
}

/// Returns the bytes that the runtime allocates for a tensor. Every buffer
/// starts on a cache line.
static int64_t getAllocatedBytes(RankedTensorType type) {
  return llvm::alignTo(rt::getByteSize(type), 64);
}

DeviceMemoryPlan heddle::getDeviceMemoryPlan(ModuleOp module) {
  DeviceMemoryPlan memory;
  for (auto variable : module.getOps<VariableOp>()) {
    int64_t bytes = getAllocatedBytes(rt::getLocalType(variable));
    switch (variable.getRole()) {
    case VariableRole::Parameter:
      memory.parameters += bytes;
      break;
    case VariableRole::OptimizerState:
      memory.optimizerState += bytes;
      break;
    case VariableRole::Gradient:
    case VariableRole::Loss:
      memory.gradients += bytes;
      break;
    case VariableRole::Counter:
      memory.counters += bytes;
      break;
    }
  }
  auto add = [&](Operation *op, int64_t arena, ArrayAttr inputs,
                 ArrayAttr outputs) {
    memory.arena = std::max(memory.arena, arena);
    for (ArrayAttr ports : {inputs, outputs})
      for (auto port : ports.getAsRange<rt::PortAttr>())
        memory.argumentsAndResults +=
            getAllocatedBytes(rt::getLocalType(op, port));
  };
  for (Operation &op : *module.getBody()) {
    if (auto program = dyn_cast<rt::ProgramOp>(op))
      add(&op, program.getArena(), program.getInputs(), program.getOutputs());
    else if (auto program = dyn_cast<rt::ExportOp>(op))
      add(&op, program.getArena(), program.getInputs(), program.getOutputs());
  }
  return memory;
}
