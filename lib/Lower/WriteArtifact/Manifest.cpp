//===- Manifest.cpp - The description in an artifact ----------------------===//

#include "../Batches/Batches.h"
#include "../ConvertRtToLLVM/RuntimeCalls.h"
#include "heddle/Lower/Artifact.h"
#include "heddle/Lower/Tables.h"
#include "heddle/Support/LlvmJson.h"
#include "heddle_rt/abi.h"
#include "heddle_rt/roles.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace heddle;
namespace json = llvm::json;

static std::string toString(Type element) {
  std::string text;
  llvm::raw_string_ostream(text) << element;
  return text;
}

static void writeAxisNames(json::OStream &out, ArrayRef<StringAttr> axes) {
  for (StringAttr axis : axes)
    out.value(axis.getValue());
}

static void writeNumbers(json::OStream &out, StringRef key,
                         ArrayRef<int64_t> numbers) {
  out.attributeArray(key, [&] {
    for (int64_t number : numbers)
      out.value(number);
  });
}

static void writeTensor(json::OStream &out, StringRef name,
                        RankedTensorType type, StringRef shardingKey,
                        ShardingAttr sharding) {
  out.attribute("name", name);
  out.attribute("type", toString(type.getElementType()));
  writeNumbers(out, "shape", type.getShape());
  out.attributeArray(shardingKey, [&] {
    for (int64_t dim = 0; dim < type.getRank(); ++dim)
      out.array([&] {
        if (sharding)
          writeAxisNames(out, sharding.getDims()[dim].getAxes());
      });
  });
}

/// Returns the manifest's name of a role. The enums of the dialect and of the
/// runtime have equal values.
static StringRef getRoleName(VariableRole role) {
  using Known = runtime::VariableRole;
  static_assert(
      getMaxEnumValForVariableRole() + 1 == runtime::variableRoles.size() &&
      uint32_t(VariableRole::Parameter) == uint32_t(Known::Parameter) &&
      uint32_t(VariableRole::OptimizerState) ==
          uint32_t(Known::OptimizerState) &&
      uint32_t(VariableRole::Gradient) == uint32_t(Known::Gradient) &&
      uint32_t(VariableRole::Counter) == uint32_t(Known::Counter) &&
      uint32_t(VariableRole::Loss) == uint32_t(Known::Loss) &&
      uint32_t(VariableRole::Buffer) == uint32_t(Known::Buffer) &&
      uint32_t(VariableRole::Setting) == uint32_t(Known::Setting));
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

/// Returns the role of a table, or nullopt if trainers do not run it.
static std::optional<runtime::TableRole> getTableRole(const EntryTable &table) {
  if (table.role == ProgramRole::Step)
    return runtime::TableRole::Step;
  if (table.role == ProgramRole::Evaluate)
    return runtime::TableRole::Evaluate;
  if (table.role == ProgramRole::Gradients)
    return runtime::TableRole::Gradients;
  return std::nullopt;
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

namespace {
/// The sets of ranks in a manifest. The first set is that of all ranks.
class RankSets {
public:
  RankSets(ModuleOp module, ArrayRef<EntryTable> tables) {
    auto addPorts = [&](ArrayAttr ports) {
      for (auto port : ports.getAsRange<rt::PortAttr>())
        add(port.getRanks());
    };
    for (Operation &op : *module.getBody()) {
      add(op.getAttrOfType<RanksAttr>(kRanksAttrName));
      if (auto program = dyn_cast<rt::ExportOp>(op)) {
        addPorts(program.getInputs());
        addPorts(program.getOutputs());
      }
    }
    for (const EntryTable &table : tables) {
      for (rt::PortAttr port : table.inputs)
        add(port.getRanks());
      for (rt::PortAttr port : table.outputs)
        add(port.getRanks());
    }
  }

  void write(json::OStream &out) const {
    out.attributeArray("rank_sets", [&] {
      out.object([&] { out.attributeObject("where", [] {}); });
      for (RanksAttr ranks : sets)
        out.object([&] {
          out.attributeObject("where", [&] {
            for (CoordinatesAttr condition : ranks.getWhere())
              writeNumbers(out, condition.getAxis().getValue(),
                           condition.getValues());
          });
        });
    });
  }

  /// Writes the member `ranks` of an object, unless it has all ranks.
  void writeIndex(json::OStream &out, RanksAttr ranks) const {
    if (ranks)
      out.attribute("ranks",
                    int64_t(llvm::find(sets, ranks) - sets.begin()) + 1);
  }

private:
  void add(RanksAttr ranks) {
    if (ranks)
      sets.insert(ranks);
  }

  llvm::SetVector<RanksAttr> sets;
};
} // namespace

static void writePort(json::OStream &out, rt::PortAttr port,
                      const RankSets &sets) {
  writeTensor(out, port.getName(), port.getType(), "sharding",
              port.getSharding());
  sets.writeIndex(out, port.getRanks());
  if (PortRoleAttr role = port.getRole()) {
    out.attribute("role", getRoleName(role.getRole()));
    if (role.getOf())
      out.attribute("parameter", role.getOf().getValue());
  }
}

static void writeArguments(json::OStream &out, rt::ExportOp program,
                           const RankSets &sets) {
  out.attributeArray("arguments", [&] {
    for (auto port : program.getInputs().getAsRange<rt::PortAttr>())
      out.object([&] { writePort(out, port, sets); });
  });
}

static void writeResults(json::OStream &out, rt::ExportOp program,
                         const RankSets &sets) {
  auto inPlace = program->getAttrOfType<ArrayAttr>(kInplaceAttrName);
  out.attributeArray("results", [&] {
    for (auto [i, port] : llvm::enumerate(program.getOutputs()))
      out.object([&, i = i, port = port] {
        writePort(out, cast<rt::PortAttr>(port), sets);
        if (auto arguments = inPlace ? cast<DenseI64ArrayAttr>(inPlace[i])
                                     : DenseI64ArrayAttr();
            arguments && !arguments.empty())
          writeNumbers(out, "in_place", arguments);
      });
  });
}

static void writePlaces(json::OStream &out, StringRef key,
                        ArrayRef<TablePlace> places) {
  out.attributeArray(key, [&] {
    for (TablePlace place : places) {
      if (place.kind == TablePlace::Kind::MicroBatch) {
        out.value("micro_batch");
        continue;
      }
      StringRef kind = place.kind == TablePlace::Kind::Input    ? "input"
                       : place.kind == TablePlace::Kind::Output ? "output"
                                                                : "slot";
      out.object([&] { out.attribute(kind, place.index); });
    }
  });
}

/// Writes an entry. `group` is the group of all transfers.
static void writeEntry(json::OStream &out, const TableEntry &entry,
                       int64_t group) {
  if (entry.kind == TableEntry::Kind::Call) {
    out.attribute("call", entry.program);
    out.attribute("micro_batch", entry.microBatch);
    writePlaces(out, "arguments", entry.arguments);
    writePlaces(out, "results", entry.results);
  } else {
    out.attributeObject(entry.kind == TableEntry::Kind::Send ? "send"
                                                             : "receive",
                        [&] { out.attribute("slot", entry.slot); });
    out.attribute("group", group);
    out.attribute("peer", entry.peer);
    out.attribute("stream", entry.stream);
  }
  out.attributeArray("after", [&] {
    for (unsigned other : entry.after)
      out.value(other);
  });
}

static void writeTable(json::OStream &out, const EntryTable &table,
                       const RankSets &sets, int64_t group) {
  out.attribute("name", table.name);
  if (std::optional<runtime::TableRole> role = getTableRole(table))
    out.attribute("role", StringRef(runtime::name(*role)));
  out.attribute("micro_batches", table.microBatches);
  if (!table.hasBarrier)
    out.attribute("barrier", "none");
  out.attributeArray("inputs", [&] {
    for (rt::PortAttr port : table.inputs)
      out.object([&] { writePort(out, port, sets); });
  });
  out.attributeArray("outputs", [&] {
    for (rt::PortAttr port : table.outputs)
      out.object([&] {
        writePort(out, port, sets);
        out.attribute("of", "step");
      });
  });
  out.attributeArray("slots", [&] {
    for (const TableSlot &slot : table.slots)
      out.object([&] { out.attribute("bytes", slot.bytes); });
  });
  out.attributeArray("lists", [&] {
    for (const TableList &list : table.lists)
      out.object([&] {
        sets.writeIndex(out, list.ranks);
        out.attributeArray("entries", [&] {
          for (const TableEntry &entry : list.entries)
            out.object([&] { writeEntry(out, entry, group); });
        });
      });
  });
}

/// Writes the members of the code for a GPU: its PTX and its kernels.
static void writeGpuCode(json::OStream &out, ModuleOp module) {
  out.attribute("chip", getTargetGpu(module));
  out.attribute("ptx", "program.ptx");
  if (auto attention = module->getAttrOfType<StringAttr>(kGpuAttentionAttrName))
    out.attribute("attention", attention.getValue());
  out.attributeArray("kernels", [&] {
    for (LLVM::LLVMFuncOp kernel : getGpuKernels(module))
      out.object([&] {
        out.attribute("symbol", kernel.getName());
        out.attribute(
            "grid",
            kernel->getAttrOfType<IntegerAttr>(kBlocksAttrName).getInt());
        out.attribute("block", kernel
                                   ->getAttrOfType<DenseI32ArrayAttr>(
                                       NVVM::NVVMDialect::getReqntidAttrName())
                                   .asArrayRef()
                                   .front());
        auto shared = module.lookupSymbol<LLVM::GlobalOp>(
            (kernel.getName() + "_shared").str());
        out.attribute(
            "shared_bytes",
            shared
                ? cast<LLVM::LLVMArrayType>(shared.getType()).getNumElements()
                : 0);
        if (auto work = kernel->getAttrOfType<rt::WorkAttr>(rt::kWorkAttrName))
          out.attribute("work_bytes", work.getBytes());
        if (kernel->hasAttr(kTableAttrName))
          out.attribute("table", true);
        out.attributeArray("parameters", [&] {
          for (int64_t bytes : getParameterBytes(kernel))
            if (bytes >= 0)
              out.object([&] { out.attribute("buffer", bytes); });
            else
              out.value("number");
        });
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
  llvm::Expected<json::Value> value = parseLlvmJson(text);
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

  std::vector<EntryTable> tables = getTables(module);
  RankSets sets(module, tables);
  // Transfers of all tables are between the members of one group.
  SmallVector<AxisListAttr> groups;
  if (auto known = module->getAttrOfType<ArrayAttr>(kGroupsAttrName))
    groups.append(known.getAsRange<AxisListAttr>().begin(),
                  known.getAsRange<AxisListAttr>().end());
  int64_t transfers = 0;
  for (const EntryTable &table : tables)
    if (table.axis) {
      auto axes = AxisListAttr::get(module.getContext(), {table.axis});
      transfers = llvm::find(groups, axes) - groups.begin();
      if (transfers == int64_t(groups.size()))
        groups.push_back(axes);
    }
  std::string text;
  llvm::raw_string_ostream stream(text);
  json::OStream out(stream, /*IndentSize=*/1);
  out.object([&] {
    out.attribute("version", 2);
    out.attribute("abi", HEDDLE_RT_ABI_VERSION);
    out.attributeArray("code", [&] {
      out.object([&] {
        out.attribute("kind", isForGpu(module) ? "cuda" : "cpu");
        out.attribute("library", "program.so");
        out.attribute("triple", target.triple);
        out.attributeArray("features", [&] {
          for (const std::string &feature : target.requiredFeatures)
            out.value(feature);
        });
        if (options.sanitizer != Sanitizer::None)
          out.attribute("sanitizer", options.sanitizer == Sanitizer::Thread
                                         ? "thread"
                                         : "address");
        if (isForGpu(module))
          writeGpuCode(out, module);
      });
    });
    out.attributeArray("mesh", [&] {
      if (*mesh)
        for (MeshAxisAttr axis : mesh->getMesh().getAxes())
          out.object([&] {
            out.attribute("name", axis.getName().getValue());
            out.attribute("size", axis.getSize());
          });
    });
    sets.write(out);
    out.attributeArray("groups", [&] {
      for (AxisListAttr axes : groups)
        out.object([&] {
          out.attributeArray("axes",
                             [&] { writeAxisNames(out, axes.getAxes()); });
        });
    });
    out.attributeArray("variables", [&] {
      for (auto variable : module.getOps<VariableOp>())
        out.object([&] {
          writeTensor(out, variable.getSymName(), variable.getTensorType(),
                      "storage", variable.getStorageAttr());
          sets.writeIndex(out,
                          variable->getAttrOfType<RanksAttr>(kRanksAttrName));
          out.attribute("role", getRoleName(variable.getRole()));
          writeInit(out, variable.getInit());
          if (CheckpointAttr checkpoint = variable.getCheckpointAttr())
            out.attributeObject("checkpoint", [&] {
              out.attribute("name", checkpoint.getName().getValue());
              writeNumbers(out, "shape", checkpoint.getShape());
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
          out.attribute("events", program.getEvents());
          if (auto staging =
                  program->getAttrOfType<DenseI64ArrayAttr>(kStagingAttrName))
            writeNumbers(out, "staging", staging.asArrayRef());
          sets.writeIndex(out,
                          program->getAttrOfType<RanksAttr>(kRanksAttrName));
          writeArguments(out, program, sets);
          writeResults(out, program, sets);
        });
    });
    out.attributeArray("tables", [&] {
      for (const EntryTable &table : tables)
        out.object([&] { writeTable(out, table, sets, transfers); });
    });
    out.attribute("seed", options.seed);
    if (auto hash = module->getAttrOfType<StringAttr>(kProgramHashAttrName))
      out.attribute("program_hash", hash.getValue());
    out.attribute("model", getModelNotes(module));
    out.attribute("plan", *plan);
  });
  stream << '\n';
  return text;
}
