//===- Info.cpp - heddle info ---------------------------------------------===//
//
// Describes a file: a model, an artifact, a plan, a cluster, a safetensors
// file, a run or its checkpoint. For a model and a plan, also prints the memory
// and the traffic of a device.
//
//===----------------------------------------------------------------------===//

#include "../common/Mebibytes.h"
#include "../common/Run.h"
#include "Commands.h"
#include "artifact/ArtifactMemory.h"
#include "model/Model.h"

#include "dialects/Comm/Comm.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Cost/Cluster.h"
#include "heddle/Plan/Plan.h"
#include "heddle/Sharding/CollectiveCosts.h"
#include "heddle/Support/Bytes.h"
#include "heddle_rt/checkpoint.h"
#include "heddle_rt/manifest.h"
#include "heddle_rt/safetensors.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/Support/Format.h"

#include <nlohmann/json.hpp>

#include <array>
#include <cstdio>
#include <fstream>
#include <map>

namespace fs = std::filesystem;
using namespace heddle;
using namespace heddle::tools;

static std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text;
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text;
}

//===----------------------------------------------------------------------===//
// Artifacts
//===----------------------------------------------------------------------===//

/// Returns for which devices an artifact is.
static std::string describeCode(const runtime::Manifest &manifest) {
  if (manifest.code.empty())
    return "no code";
  std::string text;
  for (const runtime::CodeInfo &code : manifest.code) {
    text += text.empty() ? "" : ", ";
    if (!code.chip.empty())
      text += "NVIDIA GPU " + code.chip + " or newer, host ";
    text += code.triple;
  }
  return text;
}

static int describeArtifact(const fs::path &path, bool all) {
  auto manifest = runtime::readManifest(path / "manifest.json");
  if (!manifest.ok())
    return reportError(manifest.message());
  std::string mesh;
  for (const runtime::MeshAxis &axis : manifest->mesh)
    mesh += (mesh.empty() ? "" : ", ") + axis.name + " " +
            std::to_string(axis.size);
  std::printf("artifact for %lld device(s)%s%s%s, %s\n",
              static_cast<long long>(manifest->numDevices()),
              mesh.empty() ? "" : " (", mesh.c_str(), mesh.empty() ? "" : ")",
              describeCode(*manifest).c_str());

  std::array<int64_t, runtime::variableRoles.size()> elements{};
  for (const runtime::VariableInfo &variable : manifest->variables) {
    elements[static_cast<size_t>(variable.role)] += variable.elements();
    if (all)
      std::printf("  %s%.*s  %s\n", shapeText(variable.shape).c_str(),
                  static_cast<int>(runtime::name(variable.type).size()),
                  runtime::name(variable.type).data(), variable.name.c_str());
  }
  std::vector<RankMemory> memory = getMemory(*manifest);
  // If devices differ, the largest value of any device.
  auto most = [&](auto getBytes) {
    double bytes = 0;
    for (const RankMemory &ranks : memory)
      bytes = std::max(bytes, getBytes(ranks));
    return inMiB(bytes);
  };
  std::printf("variables            elements   MiB/device\n");
  for (size_t role = 0; role < elements.size(); ++role) {
    if (elements[role] == 0)
      continue;
    std::string_view roleName =
        runtime::name(static_cast<runtime::VariableRole>(role));
    std::printf(
        "  %-16.*s %10lld   %10.1f\n", static_cast<int>(roleName.size()),
        roleName.data(), static_cast<long long>(elements[role]),
        most([&](const RankMemory &ranks) { return ranks.variables[role]; }));
  }
  std::printf("programs                          MiB/device\n");
  for (const runtime::ProgramInfo &program : manifest->programs) {
    std::string text = program.name;
    // A stage's program has an argument for each value between programs.
    if (memory.size() == 1)
      for (const runtime::TensorInfo &argument : program.arguments)
        text += " " + shapeText(argument.shape) +
                std::string(runtime::name(argument.type));
    std::printf("  %-30s  %10.1f\n", text.c_str(), inMiB(program.arenaBytes));
  }
  if (memory.size() == 1) {
    std::printf("arguments and results             %10.1f\n",
                inMiB(memory[0].passed + memory[0].slots));
    std::printf("in all                            %10.1f\n",
                inMiB(memory[0].getTotal()));
  } else {
    std::printf("MiB/device   variables      arena  in and out      slots     "
                "in all\n");
    for (const RankMemory &ranks : memory)
      std::printf("  %-10s %9.1f  %9.1f   %9.1f  %9.1f  %9.1f\n",
                  ranks.ranks.c_str(), inMiB(ranks.getVariables()),
                  inMiB(ranks.arena), inMiB(ranks.passed), inMiB(ranks.slots),
                  inMiB(ranks.getTotal()));
  }
  // If one process has all ranks, they do not allocate staging memory.
  double staging = 0;
  for (int64_t bytes : manifest->staging())
    staging += double(bytes);
  if (staging > 0)
    std::printf("with several processes also       %10.1f\n", inMiB(staging));
  return exitSuccess;
}

//===----------------------------------------------------------------------===//
// Runs
//===----------------------------------------------------------------------===//

static bool isRun(const fs::path &path) {
  std::error_code failure;
  return fs::is_directory(runtime::checkpointFolder(path), failure) ||
         fs::exists(path / "model.heddle" / "manifest.json", failure);
}

static int describeRun(const fs::path &path, bool all) {
  fs::path artifact = path / "model.heddle";
  std::error_code failure;
  if (fs::exists(artifact / "manifest.json", failure))
    if (int code = describeArtifact(artifact, all); code != exitSuccess)
      return code;
  if (fs::path plan = artifact / "plan.json"; fs::exists(plan, failure))
    std::printf("plan         %s\n", plan.c_str());

  std::vector<fs::path> checkpoints =
      runtime::listCheckpoints(runtime::checkpointFolder(path));
  std::vector<runtime::TrainingState> states;
  for (const fs::path &checkpoint : checkpoints) {
    auto state = runtime::readState(checkpoint);
    if (!state.ok())
      return reportError(state.message());
    states.push_back(*std::move(state));
  }
  if (states.empty()) {
    std::printf("no checkpoint yet\n");
    return exitSuccess;
  }
  const runtime::TrainingState &last = states.back();
  std::printf("run          %lld steps of %lld x %lld tokens, seed %llu\n",
              static_cast<long long>(last.step),
              static_cast<long long>(last.rowsPerStep),
              static_cast<long long>(last.sequence),
              static_cast<unsigned long long>(last.seed));
  std::printf("data         %s, %lld tokens, of which %g held out\n",
              last.data.c_str(), static_cast<long long>(last.dataTokens),
              last.heldOutFraction);
  for (size_t i = 0; i < states.size(); ++i) {
    std::string loss =
        states[i].loss ? "loss " + std::to_string(*states[i].loss) : "";
    std::printf("checkpoint   step %-8lld %-14s %s\n",
                static_cast<long long>(states[i].step), loss.c_str(),
                checkpoints[i].c_str());
  }
  return exitSuccess;
}

//===----------------------------------------------------------------------===//
// Safetensors
//===----------------------------------------------------------------------===//

static int describeTensors(const fs::path &path) {
  auto reader = runtime::safetensors::Reader::open(path.string());
  if (!reader.ok())
    return reportError(reader.message());
  int64_t elements = 0;
  size_t bytes = 0;
  for (const runtime::safetensors::Tensor &tensor : reader->tensors()) {
    std::printf("%-5s %-20s %s\n",
                std::string(runtime::safetensors::name(tensor.dtype)).c_str(),
                runtime::safetensors::shapeToString(tensor.shape).c_str(),
                tensor.name.c_str());
    elements += tensor.elements;
    bytes += tensor.data.size();
  }
  std::printf("%zu tensors, %lld elements, %.1f MiB\n",
              reader->tensors().size(), static_cast<long long>(elements),
              inMiB(bytes));
  return exitSuccess;
}

/// Describes a checkpoint that several processes wrote.
static int describeParts(const fs::path &path) {
  auto parts = runtime::readCheckpointParts(path);
  if (!parts.ok())
    return reportError(parts.message());
  for (const runtime::CheckpointPart &part : *parts)
    std::printf("%-20s from %-14s %-22s %s\n",
                runtime::safetensors::shapeToString(part.shape).c_str(),
                runtime::safetensors::shapeToString(part.start).c_str(),
                part.file.c_str(), part.tensor.c_str());
  std::printf("%zu parts of tensors\n", parts->size());
  return exitSuccess;
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

/// Returns the names of the devices along the axis of a module's pipeline, such
/// as "pp 0". Without a pipeline, all devices have the same variables.
static std::vector<std::string> getPipelineDevices(mlir::ModuleOp module) {
  auto pipeline = module->getAttrOfType<PipelineAttr>(kPipelineAttrName);
  if (!pipeline || module.getOps<MeshOp>().empty())
    return {""};
  MeshOp mesh = *module.getOps<MeshOp>().begin();
  std::vector<std::string> names;
  int64_t devices = mesh.getMesh().getAxisSize(pipeline.getAxis());
  for (int64_t device = 0; device < devices; ++device)
    names.push_back(pipeline.getAxis().str() + " " + std::to_string(device));
  return names;
}

/// Returns whether a variable is on a device of the pipeline.
static bool isOnDevice(VariableOp variable, int64_t device) {
  auto ranks = variable->getAttrOfType<RanksAttr>(kRanksAttrName);
  return !ranks || llvm::any_of(ranks.getWhere(), [&](CoordinatesAttr where) {
    return llvm::is_contained(where.getValues(), device);
  });
}

static void describeVariables(mlir::ModuleOp module, bool all) {
  std::vector<std::string> devices = getPipelineDevices(module);
  struct Sizes {
    int64_t elements = 0;
    std::vector<double> bytes; ///< by device of the pipeline
  };
  std::map<VariableRole, Sizes> byRole;
  mlir::DenseMap<mlir::StringAttr, MeshAttr> meshes;
  for (auto mesh : module.getOps<MeshOp>())
    meshes[mesh.getSymNameAttr()] = mesh.getMesh();
  for (auto variable : module.getOps<VariableOp>()) {
    mlir::RankedTensorType type = variable.getTensorType();
    mlir::RankedTensorType local = type;
    if (std::optional<ShardingAttr> storage = variable.getStorage())
      if (MeshAttr mesh = meshes.lookup(storage->getMesh().getAttr()))
        local = storage->getLocalType(type, mesh);
    Sizes &sizes = byRole[variable.getRole()];
    sizes.elements += type.getNumElements();
    sizes.bytes.resize(devices.size());
    for (size_t device = 0; device < devices.size(); ++device)
      if (isOnDevice(variable, int64_t(device)))
        sizes.bytes[device] += double(getBytes(local));
    if (all)
      llvm::outs() << "  " << type << "  " << variable.getSymName() << "\n";
  }
  llvm::outs() << "variables            elements   MiB/device";
  if (devices.size() > 1)
    for (const std::string &device : devices)
      llvm::outs() << llvm::format("%10s", device.c_str());
  llvm::outs() << "\n";
  for (auto &[role, sizes] : byRole) {
    llvm::outs() << llvm::format("  %-16s %10lld   ",
                                 stringifyVariableRole(role).str().c_str(),
                                 static_cast<long long>(sizes.elements));
    if (devices.size() > 1)
      llvm::outs() << "          ";
    for (double bytes : sizes.bytes)
      llvm::outs() << llvm::format("%10.1f", inMiB(bytes));
    llvm::outs() << "\n";
  }
}

/// Prints the number of each program's collectives by kind and mesh axes, and
/// the bytes that a device sends in them.
static void describeCollectives(mlir::ModuleOp module) {
  MeshRef mesh = getMesh(module);
  if (!mesh)
    return;
  llvm::SmallVector<int64_t> sizes;
  int64_t devices = 1;
  for (MeshAxisAttr axis : mesh.mesh.getAxes()) {
    sizes.push_back(axis.getSize());
    devices *= axis.getSize();
  }
  // The bytes do not depend on the links.
  auto topology =
      llvm::cantFail(MeshTopology::create(makeUniformCluster(devices), sizes));
  for (auto function : module.getOps<mlir::func::FuncOp>()) {
    std::map<std::string, std::pair<int64_t, int64_t>> kinds;
    function.walk([&](mlir::Operation *op) {
      AxisListAttr axes = getCollectiveAxes(op);
      if (!axes)
        return;
      std::string kind = op->getName().stripDialect().str();
      for (mlir::StringAttr axis : axes.getAxes())
        kind += " " + axis.str();
      auto &[times, bytes] = kinds[kind];
      ++times;
      bytes += getCollectiveCost(op, mesh.mesh, topology).bytes;
    });
    for (auto &[kind, sent] : kinds)
      llvm::outs() << llvm::format(
          "@%-12s %-24s %6lld times, a device sends %10.2f MiB\n",
          function.getSymName().str().c_str(), kind.c_str(),
          static_cast<long long>(sent.first), inMiB(double(sent.second)));
  }
}

/// Prints a program that another compiler made: its devices, and the arguments
/// and results of its functions.
static void describeProgram(mlir::ModuleOp module) {
  llvm::outs() << "program";
  for (auto mesh : module.getOps<MeshOp>()) {
    int64_t devices = 1;
    std::string axes;
    for (MeshAxisAttr axis : mesh.getMesh().getAxes()) {
      devices *= axis.getSize();
      axes += (axes.empty() ? " (" : ", ") + axis.getName().str() + " " +
              std::to_string(axis.getSize());
    }
    llvm::outs() << " for " << devices << " device(s)" << axes
                 << (axes.empty() ? "" : ")");
  }
  llvm::outs() << "\n";
  for (auto function : module.getOps<mlir::func::FuncOp>())
    llvm::outs() << "@" << function.getSymName() << " "
                 << function.getFunctionType() << "\n";
}

static int describeModel(CompileFlags &flags, bool all) {
  if (int code = resolvePlan(flags); code != exitSuccess)
    return code;
  Compiler compiler;
  auto module = loadModel(compiler, flags.model);
  if (mlir::failed(module))
    return exitFailure;
  bool isProgram = !isModel(**module) && !(**module)->hasAttr(kPhaseAttrName);
  if (isProgram)
    describeProgram(**module);
  bool distributed = !flags.plan.empty() || !flags.mesh.empty() ||
                     flags.devices > 0 || flags.options.zeroLevel > 0 ||
                     (isProgram && !(**module).getOps<MeshOp>().empty());
  if (distributed &&
      mlir::failed(runPhases(**module, flags.options, Phase::Localized)))
    return exitFailure;
  if (auto family = (**module)->getAttrOfType<mlir::StringAttr>(kModelAttrName))
    llvm::outs() << "model of the family " << family.getValue() << "\n";
  if (!isProgram || !(**module).getOps<VariableOp>().empty())
    describeVariables(**module, all);
  if (distributed)
    describeCollectives(**module);
  else if (!isProgram)
    llvm::outs() << "with --devices, --mesh or --plan: also the optimizer's "
                    "state and the collectives\n";
  else
    llvm::outs() << "one device: it declares no heddle.mesh\n";
  llvm::outs().flush();
  return exitSuccess;
}

//===----------------------------------------------------------------------===//
// The command
//===----------------------------------------------------------------------===//

/// Returns true if the file is a JSON object with all these top-level keys.
/// They identify plans and clusters. A model's config, which has `model_type`,
/// is neither.
static bool hasKeys(const fs::path &path,
                    std::initializer_list<const char *> keys) {
  std::ifstream stream(path);
  nlohmann::json json = nlohmann::json::parse(stream, nullptr, false);
  return json.is_object() && !json.contains("model_type") &&
         llvm::all_of(keys,
                      [&](const char *key) { return json.contains(key); });
}

static int describePlan(const fs::path &path) {
  llvm::Expected<Plan> plan = readPlanFile(path.string());
  if (!plan)
    return reportError(llvm::toString(plan.takeError()));
  std::printf("plan for %lld device(s)\n%s",
              static_cast<long long>(plan->getNumDevices()),
              writePlan(*plan).c_str());
  return exitSuccess;
}

static void printDevice(const ClusterDevice &device) {
  std::printf("device       %s, %.1f GiB at %.4g GB/s", device.kind.c_str(),
              inMiB(device.memory) / 1024, device.memoryBandwidth / 1e9);
  for (const auto &[type, rate] : device.peak)
    std::printf(", %s %.4g TFLOP/s", type.c_str(), rate / 1e12);
  std::printf("\nefficiency   %.4g of the peak, %.4g of the memory bandwidth\n",
              device.efficiency.peak, device.efficiency.memoryBandwidth);
}

static int describeCluster(const std::string &presetOrPath) {
  llvm::Expected<Cluster> cluster = loadCluster(presetOrPath);
  if (!cluster)
    return reportError(llvm::toString(cluster.takeError()));
  std::printf("cluster '%s' of %lld device(s)\n", cluster->name.c_str(),
              static_cast<long long>(cluster->getNumDevices()));
  if (cluster->groups.empty())
    printDevice(cluster->device);
  for (const ClusterGroup &group : cluster->groups) {
    std::printf("%lld of these\n", static_cast<long long>(group.count));
    printDevice(group.device);
  }
  for (const ClusterLevel &level : cluster->levels)
    std::printf("level        %s: joins %lld, %.4g us, %lld link(s) of %.4g "
                "GB/s, efficiency %.4g\n",
                level.name.c_str(), static_cast<long long>(level.count),
                level.latency * 1e6, static_cast<long long>(level.links),
                level.bandwidth / 1e9, level.efficiency);
  std::printf("%s", writeCluster(*cluster).c_str());
  return exitSuccess;
}

static int printInfo(CompileFlags &flags, bool all) {
  fs::path path = flags.model.path;
  std::error_code failure;
  if (!flags.model.isParametric() && fs::exists(path, failure)) {
    if (fs::exists(path / "parts.json", failure))
      return describeParts(path);
    if (path.extension() == ".safetensors" ||
        path.string().ends_with(".safetensors.index.json") ||
        fs::exists(path / "state.json", failure))
      return describeTensors(path);
    if (path.extension() == ".json" && hasKeys(path, {"mesh"}))
      return describePlan(path);
    if (path.extension() == ".json" && (hasKeys(path, {"device", "levels"}) ||
                                        hasKeys(path, {"devices", "levels"})))
      return describeCluster(path.string());
    if (fs::exists(path / "manifest.json", failure))
      return describeArtifact(path, all);
    bool isModel = fs::is_directory(path, failure)
                       ? fs::exists(path / "config.json", failure)
                       : path.extension() == ".json" ||
                             path.extension() == ".mlir" ||
                             path.extension() == ".mlirbc";
    if (!isModel && isRun(path))
      return describeRun(path, all);
    // A folder with weights only.
    if (!isModel &&
        (fs::exists(path / "model.safetensors", failure) ||
         fs::exists(path / "model.safetensors.index.json", failure)))
      return describeTensors(path);
    if (!isModel)
      return reportError(
          "'" + path.string() +
          "': expected a model (a folder with a config.json, its config.json, "
          "an .mlir file), an artifact (a folder with a manifest.json), a "
          "run's folder (with checkpoints or a model.heddle), a checkpoint (a "
          "folder with a state.json), a plan (.json), a cluster "
          "(.json) or weights "
          "(.safetensors, .safetensors.index.json)");
  }
  // A preset of clusters, such as `dgx-a100` or `dgx-a100:16`. It is described
  // as text that a cluster file may contain.
  if (!flags.model.isParametric() && !fs::exists(path, failure) &&
      llvm::is_contained(getClusterPresets(),
                         llvm::StringRef(path.string()).split(':').first))
    return describeCluster(path.string());
  return describeModel(flags, all);
}

void tools::addInfoCommand(CLI::App &app, int &result) {
  CLI::App *command = app.add_subcommand(
      "info", "Describe a model, artifact, plan, cluster (a file or preset), "
              "run, checkpoint or safetensors file");
  auto flags = std::make_shared<CompileFlags>();
  auto all = std::make_shared<bool>(false);
  addModelFlags(*command, flags->model);
  addPlanFlags(*command, *flags);
  addTrainingFlags(*command, *flags);
  addVerificationFlag(*command, *flags);
  command->add_flag("--all", *all, "List every variable");
  command->callback(
      [flags, all, &result] { result = printInfo(*flags, *all); });
}
