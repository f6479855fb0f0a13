//===- CompileToArtifact.cpp - A module compiled and written --------------===//

#include "dialects/Heddle/Heddle.h"
#include "heddle/Lower/Artifact.h"
#include "heddle/Pipelines/Pipelines.h"

using namespace mlir;
using namespace heddle;

LogicalResult heddle::compileToArtifact(ModuleOp module,
                                        const CompileOptions &options,
                                        ArtifactWriter &writer) {
  // Checks the options and the path before the long work.
  FailureOr<Sanitizer> sanitizer =
      parseSanitizer(module.getLoc(), options.sanitize);
  if (failed(sanitizer) ||
      failed(checkArtifactPath(module.getLoc(), writer.getPath())) ||
      failed(runPhases(module, options, Phase::LLVM)))
    return failure();
  ArtifactOptions artifact;
  artifact.targetCpu = options.targetCpu;
  artifact.sanitizer = *sanitizer;
  artifact.optimizesKernels = options.optimizesKernels;
  artifact.seed = options.training.seed;
  if (auto plan = module->getAttrOfType<StringAttr>(kPlanAttrName))
    artifact.planJson = plan.getValue();
  return writer.write(module, artifact);
}

LogicalResult heddle::compileToArtifact(ModuleOp module,
                                        const CompileOptions &options,
                                        StringRef path) {
  ArtifactWriter writer(path);
  return compileToArtifact(module, options, writer);
}
