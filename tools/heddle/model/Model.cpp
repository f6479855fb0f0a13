//===- Model.cpp - Models and compilations from the command line ----------===//

#include "Model.h"

#include "../../common/Mebibytes.h"
#include "../../common/Run.h"

#include "dialects/Heddle/HeddleDialect.h"
#include "dialects/Rt/VariableMemory.h"
#include "heddle/InitAll.h"
#include "heddle/Lower/Artifact.h"
#include "heddle/PlanVerifier/PlanVerifier.h"
#include "heddle/Profile/ProfiledCostModel.h"
#include "heddle/Simulate/Report.h"
#include "heddle_rt/atomic_file.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

namespace fs = std::filesystem;
using namespace mlir;
using namespace heddle;
using namespace heddle::tools;

/// Returns ", with --plan ARTIFACT/plan.json" if the artifact has a plan.
static std::string withPlanOf(const fs::path &artifact) {
  fs::path plan = artifact / "plan.json";
  std::error_code failure;
  return fs::exists(plan, failure) ? ", with --plan " + plan.string() : "";
}

void tools::reportCompiled(const fs::path &artifact) {
  reportError("'" + artifact.string() +
              "' is compiled already: expected a model's folder, a "
              "config.json or an .mlir file, such as that from which it was "
              "compiled" +
              withPlanOf(artifact));
}

bool tools::isModuleFile(const fs::path &path) {
  std::error_code failure;
  return path == "-" ||
         ((path.extension() == ".mlir" || path.extension() == ".mlirbc") &&
          !fs::is_directory(path, failure));
}

std::optional<ModelKind> tools::classifyModel(const fs::path &path,
                                              bool takesArtifacts) {
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
    fs::path program = path / "model.heddle";
    if (fs::exists(program / "manifest.json", failure))
      reportError("'" + path.string() + "' is the folder of a run: expected " +
                  (takesArtifacts
                       ? "its program, '" + program.string() + "', or "
                       : "") +
                  "the MODEL that was trained" + withPlanOf(program));
    else if (takesArtifacts)
      reportError("'" + path.string() +
                  "': expected a model's folder with a config.json, or a "
                  "compiled artifact with a manifest.json, found neither");
    else
      reportError("'" + path.string() +
                  "': expected a model's folder with a config.json, found "
                  "none");
    return std::nullopt;
  }
  if (path.extension() == ".json")
    return ModelKind::Config;
  if (isModuleFile(path))
    return ModelKind::Module;
  reportError("'" + path.string() +
              "': expected a model's folder, its config.json" +
              (takesArtifacts ? ", an .mlir file or a compiled artifact"
                              : " or an .mlir file"));
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

int tools::checkModelFlags(const ModelFlags &flags) {
  bool hasSizes = flags.gpt.layers != 0;
  if (flags.isParametric() && !hasSizes)
    return reportUsage("expected a MODEL, or the sizes of a parametric one "
                       "(--layers --hidden --heads --vocab --seq)");
  if (!flags.isParametric() && hasSizes)
    return reportUsage("expected either a MODEL or the sizes of a parametric "
                       "one, got both");
  return exitSuccess;
}

FailureOr<OwningOpRef<ModuleOp>> tools::loadModel(Compiler &compiler,
                                                  const ModelFlags &flags) {
  ImportOptions options;
  options.batch = flags.batch.value_or(1);
  options.sequence = flags.sequence;
  options.sequenceOrigin = flags.sequenceOrigin;
  options.dropout = flags.dropout;
  options.seed = static_cast<int64_t>(flags.seed);
  if (flags.isParametric()) {
    options.gpt = flags.gpt;
    options.gpt->sequence = flags.sequence.value_or(1024);
    return importModel(compiler.context(), options);
  }
  std::optional<ModelKind> kind =
      flags.path == "-" ? ModelKind::Module
                        : classifyModel(flags.path, /*takesArtifacts=*/false);
  if (!kind)
    return failure();
  if (*kind == ModelKind::Artifact) {
    reportCompiled(flags.path);
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
// Compilation
//===----------------------------------------------------------------------===//

/// Prints the bytes that the runtime will allocate on each device, without the
/// scratch memory of library calls.
static void reportMemory(ModuleOp module, const fs::path &output) {
  DeviceMemoryPlan memory = getDeviceMemoryPlan(module);
  auto part = [](const char *name, int64_t bytes) {
    if (bytes > 0)
      llvm::outs() << llvm::format("  %-21s %16lld bytes %10.1f MiB\n", name,
                                   static_cast<long long>(bytes), inMiB(bytes));
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

/// Says how many calls of the programs that `--overlap auto` compared are in
/// the profile.
static void reportCoverage(const CompileFlags &flags) {
  if (flags.coverage && flags.coverage->getNumCalls() > 0)
    printCoverage(llvm::errs() << "heddle: ", flags.coverage->getNumMeasured(),
                  flags.coverage->getNumCalls(), flags.profile);
}

/// Warns if the program needs more memory than the devices of the cluster have.
static void warnOfMemory(ModuleOp module, const CompileOptions &options) {
  if (options.cluster.isNone())
    return;
  llvm::Expected<const Cluster &> cluster = options.cluster.load();
  if (!cluster) // reported before
    return llvm::consumeError(cluster.takeError());
  rt::DeviceKinds kinds = rt::DeviceKinds::get(module);
  int64_t needed = 0, capacity = 0;
  for (auto [at, plan] : llvm::enumerate(getDeviceMemoryPlans(module))) {
    int64_t has = getDeviceOfKind(module, kinds, int64_t(at), *cluster).memory;
    if (plan.total() - has > needed - capacity) {
      needed = plan.total();
      capacity = has;
    }
  }
  if (needed <= capacity)
    return;
  llvm::errs() << llvm::format(
                      "heddle: warning: the program takes %lld bytes (%.1f "
                      "MiB) of a device, more than the %lld (%.1f MiB) of '",
                      static_cast<long long>(needed), inMiB(needed),
                      static_cast<long long>(capacity), inMiB(capacity))
               << cluster->name << "': try "
               << (options.overlap == Overlap::Auto ? "" : "--overlap auto, ")
               << "--recompute layer, more --micro-batches of fewer rows "
                  "(--batch), or more devices\n";
}

bool tools::isStated(const CompileFlags &flags, llvm::StringRef option) {
  return llvm::any_of(flags.trainingOptions, [&](const CLI::Option *given) {
    return given->get_name() == option && given->count() > 0;
  });
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
  // Starts the linker now. It waits for its input while the model is compiled.
  std::optional<ArtifactWriter> writer;
  if (flags.stopAfter.empty())
    writer.emplace(output.string());
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
    reportCoverage(flags);
    return writeModule(**module, flags.printTo) ? exitSuccess : exitFailure;
  }
  if (failed(compileToArtifact(**module, flags.options, *writer)))
    return exitFailure;
  compiled = true;
  if (report)
    reportMemory(**module, output);
  reportCoverage(flags);
  warnOfMemory(**module, flags.options);
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
