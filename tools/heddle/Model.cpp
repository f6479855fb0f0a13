//===- Model.cpp - Models and compilations from the command line ----------===//

#include "Model.h"
#include "PlanModel.h"

#include "../common/Run.h"

#include "dialects/Heddle/HeddleDialect.h"
#include "heddle/InitAll.h"
#include "heddle/Lower/Artifact.h"
#include "heddle/Plan/Plan.h"
#include "heddle/Profile/ProfiledCostModel.h"
#include "heddle/Simulate/Report.h"
#include "heddle_rt/atomic_file.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>

namespace fs = std::filesystem;
using namespace mlir;
using namespace heddle;
using namespace heddle::tools;

namespace {

/// Prints diagnostics. If a diagnostic is located in a file, shows the source
/// line. Otherwise puts the op's name, if the location has one, before the
/// message.
class Diagnostics : public SourceMgrDiagnosticHandler {
public:
  Diagnostics(llvm::SourceMgr &sources, MLIRContext *context)
      : SourceMgrDiagnosticHandler(sources, context, llvm::errs()) {
    setHandler([this](Diagnostic &diagnostic) {
      if (showUnknownDialect(diagnostic))
        return;
      show(diagnostic);
      for (Diagnostic &note : diagnostic.getNotes())
        show(note);
    });
  }

private:
  /// Shows a diagnostic on an unknown dialect, but replaces the parser's
  /// advice, which is for authors of tools. Returns false for any other
  /// diagnostic.
  bool showUnknownDialect(Diagnostic &diagnostic) {
    std::string text = diagnostic.str();
    StringRef message(text);
    if (!message.contains("unregistered dialect") &&
        !message.starts_with("Dialect `"))
      return false;
    message = message.split(" If this is intended").first.rtrim(" .");
    emitDiagnostic(diagnostic.getLocation(), message, diagnostic.getSeverity());
    emitDiagnostic(
        diagnostic.getLocation(),
        "heddle reads func, linalg, tensor, arith, math and scf: lower other "
        "dialects to linalg on tensors first (torch-mlir: "
        "torch-backend-to-linalg-on-tensors-backend-pipeline, StableHLO: "
        "stablehlo-legalize-to-linalg)",
        DiagnosticSeverity::Note);
    return true;
  }
  void show(Diagnostic &diagnostic) {
    Location location = diagnostic.getLocation();
    auto place = location->findInstanceOf<FileLineColLoc>();
    if (place && place.getLine() > 0)
      return emitDiagnostic(location, diagnostic.str(),
                            diagnostic.getSeverity());
    StringRef kind = "remark";
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      kind = "error";
    else if (diagnostic.getSeverity() == DiagnosticSeverity::Warning)
      kind = "warning";
    else if (diagnostic.getSeverity() == DiagnosticSeverity::Note)
      kind = "note";
    llvm::errs() << "heddle: " << kind << ": ";
    if (place) // located in a file, but at no line: e.g. the file is empty
      llvm::errs() << place.getFilename().getValue() << ": ";
    else if (auto name = location->findInstanceOf<NameLoc>())
      llvm::errs() << "'" << name.getName().getValue() << "': ";
    llvm::errs() << diagnostic << "\n";
  }
};

} // namespace

Compiler::Compiler() {
  DialectRegistry registry;
  registerAllDialects(registry);
  mlirContext = std::make_unique<MLIRContext>(registry);
  // An error names its op. To print the whole module would hide the message.
  mlirContext->printOpOnDiagnostic(false);
  diagnostics = std::make_unique<Diagnostics>(sources, mlirContext.get());
}

std::optional<ModelKind> tools::classifyModel(const fs::path &path) {
  std::error_code failure;
  if (!fs::exists(path, failure)) {
    reportError("'" + path.string() + "': no such file or directory");
    return std::nullopt;
  }
  if (fs::is_directory(path, failure)) {
    if (fs::exists(path / "manifest.json", failure))
      return ModelKind::Artifact;
    if (fs::exists(path / "config.json", failure))
      return ModelKind::Folder;
    reportError("'" + path.string() +
                "': expected a model's folder with a config.json, or a "
                "compiled artifact with a manifest.json, found neither");
    return std::nullopt;
  }
  if (path.extension() == ".json")
    return ModelKind::Config;
  if (path.extension() == ".mlir" || path.extension() == ".mlirbc")
    return ModelKind::Module;
  reportError("'" + path.string() +
              "': expected a model's folder, its config.json, an .mlir file "
              "or a compiled artifact");
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

/// Parses an .mlir file. Checks that --batch and --seq, if given, are the
/// values with which the model was imported.
static FailureOr<OwningOpRef<ModuleOp>> parseModel(Compiler &compiler,
                                                   const ModelFlags &flags) {
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(flags.path, &compiler.context());
  if (!module)
    return failure(); // the parser has reported the error
  auto forward = module->lookupSymbol<func::FuncOp>("forward");
  if (!isModel(*module)) {
    bool isProgram =
        llvm::any_of(module->getOps<func::FuncOp>(), [](func::FuncOp f) {
          return f.isPublic() && !f.isExternal();
        });
    if (!(*module)->hasAttr(kPhaseAttrName) && !isProgram)
      return module->emitError("expected an imported model with a function "
                               "@forward, a program with public functions, or "
                               "what --stop-after printed");
    if (flags.batch || flags.sequence || flags.dropout)
      return module->emitError("--batch, --seq and --dropout are decided at "
                               "the import of a model; this program was not "
                               "imported, or is past it");
    return module;
  }
  RankedTensorType tokens;
  for (unsigned i = 0; i < forward.getNumArguments(); ++i) {
    auto role = forward.getArgAttrOfType<PortRoleAttr>(i, kRoleAttrName);
    auto type = dyn_cast<RankedTensorType>(forward.getArgumentTypes()[i]);
    if (role && role.getRole() == PortRole::Features && type &&
        type.getRank() == 2)
      tokens = type;
  }
  if (!tokens && (flags.batch || flags.sequence))
    return forward.emitError("--batch and --seq are of models with features "
                             "of shape [batch, sequence], this one has none");
  auto check = [&](const char *name, std::optional<int64_t> asked,
                   int64_t imported) -> LogicalResult {
    if (!asked || *asked == imported)
      return success();
    return forward.emitError()
           << "was imported with " << name << " " << imported << ", but "
           << *asked << " is asked for; import it again with --" << name;
  };
  if (tokens && (failed(check("batch", flags.batch, tokens.getDimSize(0))) ||
                 failed(check("seq", flags.sequence, tokens.getDimSize(1)))))
    return failure();
  if (flags.dropout)
    return forward.emitError("the dropout rates of an .mlir file are those of "
                             "its import; import it again with --dropout");
  return module;
}

/// Makes the path of the weights that the module records absolute, so that it
/// is valid in any working directory.
static void makeWeightsPathAbsolute(ModuleOp module) {
  auto weights = module->getAttrOfType<StringAttr>(kWeightsAttrName);
  if (!weights)
    return;
  std::error_code problem;
  fs::path absolute = fs::absolute(weights.str(), problem);
  if (!problem)
    module->setAttr(kWeightsAttrName,
                    StringAttr::get(module.getContext(), absolute.string()));
}

FailureOr<OwningOpRef<ModuleOp>> tools::loadModel(Compiler &compiler,
                                                  const ModelFlags &flags) {
  ImportOptions options;
  options.batch = flags.batch.value_or(1);
  options.sequence = flags.sequence;
  options.dropout = flags.dropout;
  options.seed = static_cast<int64_t>(flags.seed);
  if (flags.isParametric()) {
    if (flags.gpt.layers == 0) {
      reportError("expected a MODEL, or the sizes of a parametric one "
                  "(--layers --hidden --heads --vocab --seq)");
      return failure();
    }
    options.gpt = flags.gpt;
    options.gpt->sequence = flags.sequence.value_or(1024);
    return importModel(compiler.context(), options);
  }
  std::optional<ModelKind> kind = classifyModel(flags.path);
  if (!kind)
    return failure();
  if (flags.gpt.layers != 0) {
    reportError("expected either a MODEL or the sizes of a parametric one, got "
                "both");
    return failure();
  }
  if (*kind == ModelKind::Artifact) {
    reportError("'" + flags.path +
                "' is compiled already: expected a model's folder, a "
                "config.json or an .mlir file");
    return failure();
  }
  FailureOr<OwningOpRef<ModuleOp>> module = failure();
  if (*kind == ModelKind::Module) {
    module = parseModel(compiler, flags);
  } else {
    options.path = flags.path;
    module = importModel(compiler.context(), options);
  }
  if (succeeded(module))
    makeWeightsPathAbsolute(**module);
  return module;
}

//===----------------------------------------------------------------------===//
// Plans
//===----------------------------------------------------------------------===//

/// Returns false, with an error, if this machine will run the program but
/// cannot run so many devices. Called before the slow compilation.
static bool canRun(const CompileFlags &flags, int64_t devices) {
  if (!flags.runsHere || !flags.stopAfter.empty())
    return true;
  runtime::Status status = runtime::checkDevices(devices);
  if (!status.ok())
    reportError(status.message());
  return status.ok();
}

/// Returns the model of measured times, or null if the mesh does not fit on the
/// cluster.
static std::unique_ptr<CostModel> makeCostModel(ModuleOp module,
                                                const Cluster &cluster,
                                                const MachineProfile &times) {
  SmallVector<int64_t> sizes;
  for (auto op : module.getOps<MeshOp>())
    for (MeshAxisAttr axis : op.getMesh().getAxes())
      sizes.push_back(axis.getSize());
  llvm::Expected<MeshTopology> topology = MeshTopology::create(cluster, sizes);
  if (!topology) {
    llvm::consumeError(topology.takeError());
    return nullptr;
  }
  return std::make_unique<ProfiledCostModel>(module, std::move(*topology),
                                             times);
}

/// Gives the device of the cluster the rates of the profile, if there is one.
/// Only the scheduler weighs computation, so that without it a program does not
/// depend on the profile. Prints errors.
static bool useProfile(CompileFlags &flags) {
  if (flags.profile.empty())
    return true;
  llvm::Expected<Profile> profile = loadProfile(flags.profile);
  if (!profile) {
    reportError("--profile: " + llvm::toString(profile.takeError()));
    return false;
  }
  llvm::Expected<const Cluster &> cluster = flags.options.cluster.load();
  if (!cluster) {
    reportError(llvm::toString(cluster.takeError()));
    return false;
  }
  const MachineProfile *machine = profile->find(cluster->getNumDevices());
  if (!machine) {
    reportError("--profile: " + flags.profile +
                ": expected measurements, got none");
    return false;
  }
  flags.options.makeCostModel =
      [times = std::make_shared<const MachineProfile>(*machine),
       cluster = *cluster](ModuleOp module) {
        return makeCostModel(module, cluster, *times);
      };
  if (flags.options.overlap == Overlap::Auto)
    flags.options.cluster = ClusterChoice(applyProfile(*cluster, *machine));
  return true;
}

int tools::resolvePlan(CompileFlags &flags) {
  CompileOptions &options = flags.options;
  options.training.seed = flags.model.seed;
  options.devices = flags.devices;
  if (!flags.remarks.empty())
    options.remarkBytes = static_cast<int64_t>(std::stod(flags.remarks));
  if (!flags.startCollectives.empty())
    options.startCollectives = parseStartOrder(flags.startCollectives);
  if (!options.cluster.isNone())
    if (llvm::Error problem = options.cluster.load().takeError()) {
      reportError(llvm::toString(std::move(problem)));
      return exitFailure;
    }
  if (!useProfile(flags))
    return exitFailure;
  if (flags.plan == autoPlan) {
    if (int code = planAutomatically(flags); code != exitSuccess)
      return code;
    llvm::Expected<Plan> plan = parsePlan(options.planText, options.planPath);
    if (!plan) {
      reportError(llvm::toString(plan.takeError()));
      return exitFailure;
    }
    return canRun(flags, plan->getNumDevices()) ? exitSuccess : exitFailure;
  }
  if (!flags.plan.empty()) {
    auto text = llvm::MemoryBuffer::getFile(flags.plan);
    if (!text) {
      reportError("plan '" + flags.plan + "': " + text.getError().message());
      return exitFailure;
    }
    options.planText = (*text)->getBuffer().str();
    options.planPath = flags.plan;
    // Report errors in the plan's text before the model is loaded.
    llvm::Expected<Plan> plan = parsePlan(options.planText, flags.plan);
    if (!plan) {
      reportError(llvm::toString(plan.takeError()));
      return exitFailure;
    }
    return canRun(flags, plan->getNumDevices()) ? exitSuccess : exitFailure;
  }
  if (!flags.mesh.empty()) {
    llvm::Expected<DefaultMesh> mesh = parseDefaultMesh(flags.mesh);
    if (!mesh) {
      reportError("--mesh: " + llvm::toString(mesh.takeError()));
      return exitFailure;
    }
    if (flags.context)
      mesh->attention = *flags.context;
    mesh->sequence = options.mesh.sequence;
    mesh->schedule = options.mesh.schedule;
    mesh->chunks = options.mesh.chunks;
    mesh->barrier = options.mesh.barrier;
    options.mesh = *mesh;
    int64_t devices = mesh->getNumDevices();
    if (devices <= kMaxPlanDevices && flags.devices != 0 &&
        flags.devices != devices) {
      reportError("--mesh " + flags.mesh + " has " + std::to_string(devices) +
                  " devices, but --devices is " +
                  std::to_string(flags.devices));
      return exitFailure;
    }
  } else if (flags.devices != 0) {
    options.mesh.data = {flags.devices};
  }
  if (options.mesh.getNumDevices() > kMaxPlanDevices) {
    reportError("expected at most " + std::to_string(kMaxPlanDevices) +
                " devices, got " +
                (flags.mesh.empty()
                     ? "--devices " + std::to_string(flags.devices)
                     : "--mesh " + flags.mesh));
    return exitFailure;
  }
  if (options.mesh.sequence && options.mesh.tensor == std::vector<int64_t>{1}) {
    reportError("--sequence splits over the tensor parallel devices: expected "
                "--mesh with tp=N of at least 2, got --mesh " +
                flags.mesh);
    return exitFailure;
  }
  if (flags.context && !options.mesh.statesContext) {
    reportError("--context says how attention sees a sequence that is split "
                "over cp: expected --mesh with cp=N, got --mesh " +
                flags.mesh);
    return exitFailure;
  }
  bool statesSchedule = options.mesh.schedule != PipelineSchedule::OneFOneB ||
                        options.mesh.chunks != 0 ||
                        options.mesh.barrier != PipelineBarrier::Step;
  if (statesSchedule && options.mesh.pipeline == 1) {
    reportError(
        "--pipeline, --chunks and --pipeline-barrier are about stages "
        "over pp: expected --mesh with pp=N of at least 2, got --mesh " +
        flags.mesh);
    return exitFailure;
  }
  // dp=1 in the mesh states that one data parallel device is wanted. A mesh
  // without dp does not: dp may have been forgotten.
  bool dataParallel =
      flags.mesh.empty() ? flags.devices != 0 : options.mesh.statesData;
  if (options.zeroLevel > 0 && !dataParallel) {
    reportError("--zero " + std::to_string(options.zeroLevel) +
                " shards over the data parallel devices: expected --mesh with "
                "dp=N, or --devices N, got " +
                (flags.mesh.empty() ? "one device" : "--mesh " + flags.mesh));
    return exitFailure;
  }
  return canRun(flags, options.mesh.getNumDevices()) ? exitSuccess
                                                     : exitFailure;
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

/// Prints the bytes that the runtime will allocate on each device, without the
/// scratch memory of library calls.
static void reportMemory(ModuleOp module, const fs::path &output) {
  DeviceMemoryPlan memory = getDeviceMemoryPlan(module);
  auto part = [](const char *name, int64_t bytes) {
    if (bytes > 0)
      llvm::outs() << llvm::format("  %-21s %16lld bytes %10.1f MiB\n", name,
                                   static_cast<long long>(bytes),
                                   double(bytes) / double(1 << 20));
  };
  llvm::outs() << output.string()
               << (module->hasAttr(kPipelineAttrName)
                       ? ": memory of the largest device\n"
                       : ": memory of each device\n");
  for (const MemoryPart &each : getMemoryParts(memory))
    part(each.name.data(), each.bytes);
  part("in all", memory.total());
  llvm::outs().flush();
}

bool tools::checkNoTrainingOptions(const CompileFlags &flags) {
  for (const CLI::Option *option : flags.trainingOptions)
    if (option->count() > 0) {
      reportError(
          option->get_name() + " decides the training step of a model: '" +
          flags.model.path + "' is none, or has its training step already");
      return false;
    }
  return true;
}

int tools::compileModel(CompileFlags &flags, const fs::path &output,
                        bool &compiled, bool report) {
  compiled = false;
  if (int code = resolvePlan(flags); code != exitSuccess)
    return code;
  flags.options.refusesTooLarge = true;
  Compiler compiler;
  FailureOr<OwningOpRef<ModuleOp>> module = loadModel(compiler, flags.model);
  if (failed(module))
    return exitFailure;
  if (!isModel(**module) && !checkNoTrainingOptions(flags))
    return exitUsage;
  if (!flags.stopAfter.empty()) {
    if (flags.stopAfter != "import" &&
        failed(
            runPhases(**module, flags.options, *parsePhase(flags.stopAfter))))
      return exitFailure;
    return writeModule(**module, flags.printTo) ? exitSuccess : exitFailure;
  }
  if (failed(compileToArtifact(**module, flags.options, output.string())))
    return exitFailure;
  compiled = true;
  if (report)
    reportMemory(**module, output);
  return exitSuccess;
}

/// Prints to a file that cannot be replaced (a terminal, a pipe, a device).
static bool writeModuleTo(llvm::raw_fd_ostream &stream, ModuleOp module,
                          const std::string &name) {
  module.print(stream);
  stream << '\n';
  stream.flush();
  if (!stream.has_error())
    return true;
  reportError(name + ": " + stream.error().message());
  stream.clear_error();
  return false;
}

bool tools::writeModule(ModuleOp module, const std::string &path) {
  if (path.empty() || path == "-")
    return writeModuleTo(llvm::outs(), module, "standard output");
  std::error_code failure;
  if (fs::exists(path, failure) && !fs::is_regular_file(path, failure) &&
      !fs::is_directory(path, failure)) {
    llvm::raw_fd_ostream stream(path, failure);
    if (!failure)
      return writeModuleTo(stream, module, "cannot write '" + path + "'");
    reportError("cannot write '" + path + "': " + failure.message());
    return false;
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  stream << '\n';
  runtime::Status status = runtime::writeFileAtomically(path, stream.str());
  if (!status.ok())
    reportError(status.message());
  return status.ok();
}
