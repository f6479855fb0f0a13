//===- Model.cpp - Models and compilations from the command line ----------===//

#include "Model.h"

#include "../common/Run.h"

#include "heddle/InitAll.h"
#include "heddle/Lower/Artifact.h"
#include "heddle/Plan/Plan.h"
#include "heddle_rt/atomic_file.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/raw_ostream.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

namespace fs = std::filesystem;
using namespace mlir;
using namespace heddle;
using namespace heddle::tools;

namespace {

/// Shows the line of a file that an error is located in. Where there is no
/// file, the location is an op's name at most, which goes before the message.
class Diagnostics : public SourceMgrDiagnosticHandler {
public:
  Diagnostics(llvm::SourceMgr &sources, MLIRContext *context)
      : SourceMgrDiagnosticHandler(sources, context, llvm::errs()) {
    setHandler([this](Diagnostic &diagnostic) {
      show(diagnostic);
      for (Diagnostic &note : diagnostic.getNotes())
        show(note);
    });
  }

private:
  void show(Diagnostic &diagnostic) {
    Location location = diagnostic.getLocation();
    if (location->findInstanceOf<FileLineColLoc>())
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
    if (auto name = location->findInstanceOf<NameLoc>())
      llvm::errs() << "'" << name.getName().getValue() << "': ";
    llvm::errs() << diagnostic << "\n";
  }
};

} // namespace

Compiler::Compiler() {
  DialectRegistry registry;
  registerAllDialects(registry);
  mlirContext = std::make_unique<MLIRContext>(registry);
  // An error names its op; the whole module would bury the message.
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
// Flags
//===----------------------------------------------------------------------===//

/// An option whose value is one of these names.
template <typename T>
static CLI::Option *addChoice(CLI::App &app, const char *name, T &value,
                              const std::map<std::string, T> &choices,
                              const char *text) {
  std::vector<std::string> names;
  for (auto &[choice, meaning] : choices)
    names.push_back(choice);
  return app
      .add_option_function<std::string>(
          name,
          [&value, choices](const std::string &choice) {
            value = choices.at(choice);
          },
          text)
      ->check(CLI::IsMember(names));
}

/// Programs hold the seed as a signed number; the largest double below 2^63.
static constexpr double largestSeed = 9223372036854774784.0;

void tools::addModelFlags(CLI::App &app, ModelFlags &flags) {
  app.add_option("MODEL", flags.path,
                 "A Hugging Face model's folder, its config.json, an .mlir "
                 "file from `heddle import`, or what `heddle compile` wrote");
  const char *group = "Parametric GPT-2, instead of a MODEL";
  auto size = [&](const char *name, int64_t &value, const char *text) {
    return app.add_option(name, value, text)->check(positive())->group(group);
  };
  CLI::Option *layers = size("--layers", flags.gpt.layers, "Layers");
  CLI::Option *hidden = size("--hidden", flags.gpt.hidden, "Hidden size");
  CLI::Option *heads = size("--heads", flags.gpt.heads, "Attention heads");
  CLI::Option *vocabulary =
      size("--vocab", flags.gpt.vocabulary, "Vocabulary (256 for bytes)");
  layers->needs(hidden)->needs(heads)->needs(vocabulary);
  for (CLI::Option *option : {hidden, heads, vocabulary})
    option->needs(layers);

  app.add_option("--batch", flags.batch,
                 "Rows of a micro-batch, of all devices together")
      ->check(positive());
  app.add_option("--seq", flags.sequence, "Tokens in a row")->check(positive());
  app.add_option("--dropout", flags.dropout,
                 "Replaces every dropout rate of the model's config")
      ->check(between(0.0, 0.999));
  app.add_option("--seed", flags.seed,
                 "Selects initialization, data order and dropout")
      ->check(between(0, largestSeed))
      ->capture_default_str();
}

void tools::addPlanFlags(CLI::App &app, CompileFlags &flags) {
  const char *group = "Distribution";
  CLI::Option *plan =
      app.add_option("--plan", flags.plan, "Plan (JSON)")->group(group);
  app.add_option("--devices", flags.devices,
                 "Number of devices; without a plan or mesh, data parallel")
      ->check(positive())
      ->group(group);
  CLI::Option *mesh = app.add_option("--mesh", flags.mesh,
                                     "Data and tensor parallelism, for example "
                                     "dp=2,tp=4, instead of a plan")
                          ->group(group);
  CLI::Option *zero =
      app.add_option("--zero", flags.options.zeroLevel,
                     "ZeRO level over the data parallel devices: 1 shards the "
                     "optimizer's state, 2 also gradients, 3 also parameters")
          ->check(between(0, 3))
          ->group(group);
  plan->excludes(mesh)->excludes(zero);
}

void tools::addTrainingFlags(CLI::App &app, TrainingOptions &options) {
  const char *group = "Training step";
  app.add_option("--micro-batches", options.microBatches,
                 "Micro-batches whose gradients are summed in one step")
      ->check(positive())
      ->capture_default_str()
      ->group(group);
  addChoice<Optimizer>(app, "--optimizer", options.optimizer,
                       {{"adamw", Optimizer::AdamW}, {"sgd", Optimizer::SGD}},
                       "Optimizer (default: adamw)")
      ->group(group);
  app.add_option("--lr", options.learningRate, "Learning rate")
      ->check(notNegative())
      ->capture_default_str()
      ->group(group);
  addChoice<Schedule>(
      app, "--schedule", options.schedule,
      {{"constant", Schedule::Constant}, {"cosine", Schedule::Cosine}},
      "Learning rate after the warm-up (default: constant)")
      ->group(group);
  app.add_option("--warmup", options.warmupSteps,
                 "Steps in which the learning rate rises linearly")
      ->check(notNegative())
      ->capture_default_str()
      ->group(group);
  app.add_option("--final-ratio", options.finalRatio,
                 "Learning rate at the cosine's end, relative to --lr")
      ->check(between(0.0, 1.0))
      ->capture_default_str()
      ->group(group);
  app.add_option("--weight-decay", options.weightDecay,
                 "Decoupled weight decay, not of biases and norms")
      ->check(notNegative())
      ->capture_default_str()
      ->group(group);
  app.add_option_function<std::vector<double>>(
         "--betas",
         [&options](const std::vector<double> &betas) {
           options.beta1 = betas[0];
           options.beta2 = betas[1];
         },
         "AdamW's decay rates, two numbers below 1 (0.9,0.999)")
      ->expected(2)
      ->delimiter(',')
      ->check(between(0.0, 0.9999999))
      ->group(group);
  app.add_option("--epsilon", options.epsilon, "AdamW's epsilon")
      ->check(positive())
      ->capture_default_str()
      ->group(group);
  app.add_option("--momentum", options.momentum, "SGD's momentum")
      ->check(between(0.0, 1.0))
      ->capture_default_str()
      ->group(group);
  app.add_option("--clip", options.clip,
                 "Largest global norm of the gradient (0: no clipping)")
      ->check(notNegative())
      ->capture_default_str()
      ->group(group);
  app.add_flag("--no-dropout{false}", options.dropout, "Train without dropout")
      ->group(group);
}

void tools::addOutputFlags(CLI::App &app, CompileFlags &flags) {
  app.add_flag("--bf16", flags.options.training.bf16,
               "Compute in bf16 with f32 master weights");
  app.add_option("--target-cpu", flags.options.targetCpu,
                 "CPU to compile for: native, a name of LLVM's (x86-64-v3), or "
                 "name,+feature,-feature")
      ->capture_default_str();
  std::vector<std::string> phases = {"import"};
  for (StringRef phase : getPhaseNames())
    phases.push_back(phase.str());
  app.add_option("--stop-after", flags.stopAfter,
                 "Print the program after this phase and stop")
      ->check(CLI::IsMember(phases));
}

//===----------------------------------------------------------------------===//
// Models
//===----------------------------------------------------------------------===//

/// Parses an .mlir file and compares the batch that it was imported with.
static FailureOr<OwningOpRef<ModuleOp>> parseModel(Compiler &compiler,
                                                   const ModelFlags &flags) {
  OwningOpRef<ModuleOp> module =
      parseSourceFile<ModuleOp>(flags.path, &compiler.context());
  if (!module)
    return failure(); // the parser has said why
  auto forward = module->lookupSymbol<func::FuncOp>("forward");
  if (!forward) {
    if (!(*module)->hasAttr("heddle.phase"))
      return module->emitError("expected an imported model with a function "
                               "@forward, or what --stop-after printed, with "
                               "the attribute heddle.phase");
    if (flags.batch || flags.sequence || flags.dropout)
      return module->emitError("--batch, --seq and --dropout are decided at "
                               "the import; this program is past it");
    return module;
  }
  auto tokens = forward.getNumArguments() == 2
                    ? dyn_cast<RankedTensorType>(forward.getArgumentTypes()[0])
                    : RankedTensorType();
  if (!tokens || tokens.getRank() != 2)
    return forward.emitError("expected arguments tokens and targets of shape "
                             "[batch, sequence]");
  auto check = [&](const char *name, std::optional<int64_t> asked,
                   int64_t imported) -> LogicalResult {
    if (!asked || *asked == imported)
      return success();
    return forward.emitError()
           << "was imported with " << name << " " << imported << ", but "
           << *asked << " is asked for; import it again with --" << name;
  };
  if (failed(check("batch", flags.batch, tokens.getDimSize(0))) ||
      failed(check("seq", flags.sequence, tokens.getDimSize(1))))
    return failure();
  if (flags.dropout)
    return forward.emitError("the dropout rates of an .mlir file are those of "
                             "its import; import it again with --dropout");
  return module;
}

/// Records where the weights are independently of the working directory.
static void makeWeightsPathAbsolute(ModuleOp module) {
  auto weights = module->getAttrOfType<StringAttr>("heddle.weights");
  if (!weights)
    return;
  std::error_code problem;
  fs::path absolute = fs::absolute(weights.str(), problem);
  if (!problem)
    module->setAttr("heddle.weights",
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

/// "dp=2,tp=4" into the options.
static bool parseMesh(const std::string &text, CompileOptions &options) {
  std::stringstream stream(text);
  std::string part;
  std::set<std::string> given;
  while (std::getline(stream, part, ',')) {
    size_t equals = part.find('=');
    std::string axis = part.substr(0, equals);
    int64_t size = 0;
    if (equals == std::string::npos ||
        StringRef(part).substr(equals + 1).getAsInteger(10, size) || size < 1 ||
        (axis != "dp" && axis != "tp")) {
      reportError("--mesh: expected dp=N,tp=N with positive numbers, got '" +
                  part + "'; other meshes need a plan");
      return false;
    }
    if (!given.insert(axis).second) {
      reportError("--mesh: expected each axis once, got '" + text + "'");
      return false;
    }
    (axis == "dp" ? options.dataParallel : options.tensorParallel) = size;
  }
  return true;
}

bool tools::resolvePlan(CompileFlags &flags) {
  CompileOptions &options = flags.options;
  options.training.seed = flags.model.seed;
  options.devices = flags.devices;
  if (!flags.plan.empty()) {
    std::ifstream stream(flags.plan, std::ios::binary);
    std::stringstream text;
    if (stream)
      text << stream.rdbuf();
    if (!stream || !text) {
      reportError("plan '" + flags.plan + "': " + std::strerror(errno));
      return false;
    }
    options.planText = text.str();
    options.planPath = flags.plan;
    // What is wrong with the text alone should not wait for the model.
    if (llvm::Error problem =
            parsePlan(options.planText, flags.plan).takeError()) {
      reportError(llvm::toString(std::move(problem)));
      return false;
    }
    return true;
  }
  if (!flags.mesh.empty()) {
    if (!parseMesh(flags.mesh, options))
      return false;
    int64_t devices = options.dataParallel * options.tensorParallel;
    if (flags.devices != 0 && flags.devices != devices) {
      reportError("--mesh " + flags.mesh + " has " + std::to_string(devices) +
                  " devices, but --devices is " +
                  std::to_string(flags.devices));
      return false;
    }
  } else if (flags.devices != 0) {
    options.dataParallel = flags.devices;
  }
  return true;
}

//===----------------------------------------------------------------------===//
// Compilation
//===----------------------------------------------------------------------===//

/// What `heddle compile` prints: the bytes are those that the runtime will
/// allocate, but for the scratch memory of library calls.
static void reportMemory(ModuleOp module, const fs::path &output) {
  DeviceMemoryPlan memory = getDeviceMemoryPlan(module);
  auto part = [](const char *name, int64_t bytes) {
    if (bytes > 0)
      llvm::outs() << llvm::format("  %-21s %16lld bytes %10.1f MiB\n", name,
                                   static_cast<long long>(bytes),
                                   double(bytes) / double(1 << 20));
  };
  llvm::outs() << output.string() << ": memory of each device\n";
  part("parameters", memory.parameters);
  part("optimizer state", memory.optimizerState);
  part("gradients", memory.gradients);
  part("counters", memory.counters);
  part("arena", memory.arena);
  part("arguments and results", memory.argumentsAndResults);
  part("in all", memory.total());
  llvm::outs().flush();
}

int tools::compileModel(CompileFlags &flags, const fs::path &output,
                        bool &compiled, bool report) {
  compiled = false;
  if (!resolvePlan(flags))
    return exitFailure;
  Compiler compiler;
  FailureOr<OwningOpRef<ModuleOp>> module = loadModel(compiler, flags.model);
  if (failed(module))
    return exitFailure;
  if (!flags.stopAfter.empty()) {
    if (flags.stopAfter != "import" &&
        failed(
            runPhases(**module, flags.options, *parsePhase(flags.stopAfter))))
      return exitFailure;
    return writeModule(**module, "") ? exitSuccess : exitFailure;
  }
  if (failed(compileToArtifact(**module, flags.options, output.string())))
    return exitFailure;
  compiled = true;
  if (report)
    reportMemory(**module, output);
  return exitSuccess;
}

bool tools::writeModule(ModuleOp module, const std::string &path) {
  if (path.empty() || path == "-") {
    module.print(llvm::outs());
    llvm::outs() << '\n';
    llvm::outs().flush();
    if (llvm::outs().has_error()) {
      reportError("standard output: " + llvm::outs().error().message());
      llvm::outs().clear_error();
      return false;
    }
    return true;
  }
  std::string text;
  llvm::raw_string_ostream stream(text);
  module.print(stream);
  stream << '\n';
  rt::Status status = rt::writeFileAtomically(path, stream.str());
  if (!status.ok())
    reportError(status.message());
  return status.ok();
}

TemporaryFolder::TemporaryFolder() {
  std::error_code failure;
  fs::path base = fs::temp_directory_path(failure);
  std::string pattern = (base / "heddle-XXXXXX").string();
  if (!failure && ::mkdtemp(pattern.data()))
    folder = pattern;
}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  if (!folder.empty())
    fs::remove_all(folder, ignored);
}
