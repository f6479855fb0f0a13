//===- PlanProgram.cpp - The program that is planned ----------------------===//

#include "PlanProgram.h"

#include "../../common/Run.h"

#include "dialects/Heddle/HeddleDialect.h"
#include "heddle/Schedule/CutLayers.h"

#include "mlir/Bytecode/BytecodeWriter.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/Parser/Parser.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::tools;

/// Returns the size that the program is made for along a dimension of the
/// features: 0 is the rows, 1 the positions of tokens. nullopt: there is no
/// such dimension.
static std::optional<int64_t> getSize(ModuleOp module, unsigned dim) {
  for (auto function : module.getOps<func::FuncOp>())
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      auto role = function.getArgAttrOfType<PortRoleAttr>(i, kRoleAttrName);
      auto type = dyn_cast<RankedTensorType>(function.getArgumentTypes()[i]);
      if (role && role.getRole() == PortRole::Features && type &&
          type.getRank() > int64_t(dim))
        return type.getDimSize(dim);
    }
  return std::nullopt;
}

/// Makes the program of an .mlir file, which has fixed sizes.
static bool planFile(Compiler &compiler, const CompileFlags &allFlags,
                     int64_t microBatches, ProgramToPlan &program) {
  const ModelFlags &flags = allFlags.model;
  ModelFlags file = flags;
  file.batch.reset(); // it is that of a step
  FailureOr<OwningOpRef<ModuleOp>> module = loadModel(compiler, file);
  if (failed(module))
    return false;
  if ((**module)->hasAttr(kPhaseAttrName)) {
    reportError("'" + flags.path +
                "' is past the import: expected a model or program that has no "
                "plan yet");
    return false;
  }
  if (!isModel(**module) && !checkNoTrainingOptions(allFlags))
    return false;
  int64_t rows = getSize(**module, 0).value_or(1);
  if (rows < 1) {
    reportError("'" + flags.path +
                "': expected features of a known number of rows, at least 1");
    return false;
  }
  program.microBatchRows = rows;
  int64_t ops = 0;
  (*module)->walk([&](Operation *) { ++ops; });
  int64_t layers = countEqualLayers(**module);
  program.depth = std::max(layers, ops / 100);
  if (isModel(**module)) {
    program.equalLayers = layers;
    program.sequence = getSize(**module, 1);
  }
  program.rows = flags.batch.value_or(rows * microBatches);
  std::string text;
  llvm::raw_string_ostream stream(text);
  if (failed(writeBytecodeToFile(**module, stream)))
    return false;
  program.make = [text = stream.str()](
                     MLIRContext &context,
                     const ProgramSize &) -> FailureOr<OwningOpRef<ModuleOp>> {
    OwningOpRef<ModuleOp> parsed = parseSourceString<ModuleOp>(text, &context);
    if (!parsed)
      return failure();
    return parsed;
  };
  return true;
}

/// Makes programs of a config of any size.
static bool planConfig(Compiler &compiler, const ModelFlags &flags,
                       int64_t devices, int64_t microBatches,
                       ProgramToPlan &program) {
  ImportOptions options;
  options.sequence = flags.sequence;
  options.dropout = flags.dropout;
  options.seed = static_cast<int64_t>(flags.seed);
  options.checkWeights = false;
  if (flags.isParametric()) {
    options.gpt = flags.gpt;
    options.gpt->sequence = flags.sequence.value_or(1024);
  } else {
    options.path = flags.path;
  }
  FailureOr<int64_t> layers = readNumLayers(compiler.context(), options);
  if (failed(layers))
    return false;
  // Errors in the config have positions in its file, which this context shows.
  ImportOptions small = options;
  small.mostLayers = 1;
  FailureOr<OwningOpRef<ModuleOp>> first =
      importModel(compiler.context(), small);
  if (failed(first))
    return false;
  program.sequence = getSize(**first, 1);
  program.layers = *layers;
  program.rows = flags.batch.value_or(devices * microBatches);
  program.make = [options](MLIRContext &context, const ProgramSize &size) {
    ImportOptions sized = options;
    sized.batch = size.rows;
    sized.mostLayers = size.layers;
    return importModel(context, sized);
  };
  return true;
}

bool tools::chooseProgram(Compiler &compiler, const CompileFlags &flags,
                          int64_t devices, int64_t microBatches,
                          ProgramToPlan &program) {
  const ModelFlags &model = flags.model;
  if (model.isParametric())
    return planConfig(compiler, model, devices, microBatches, program);
  std::optional<ModelKind> kind =
      classifyModel(model.path, /*takesArtifacts=*/false);
  if (!kind)
    return false;
  if (*kind == ModelKind::Artifact) {
    reportCompiled(model.path);
    return false;
  }
  if (*kind == ModelKind::Module)
    return planFile(compiler, flags, microBatches, program);
  return planConfig(compiler, model, devices, microBatches, program);
}
