#include "heddle/InitAll.h"
#include "dialects/Comm/Comm.h"
#include "dialects/Heddle/Heddle.h"
#include "dialects/Rt/Rt.h"
#include "heddle/Autodiff/Autodiff.h"
#include "heddle/Autodiff/Passes.h"
#include "heddle/Cost/Work.h"
#include "heddle/Lower/Passes.h"
#include "heddle/Pipelines/Pipelines.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Shard/ShardingRuleModels.h"
#include "mlir/InitAllDialects.h"
#include "mlir/InitAllExtensions.h"
#include "mlir/InitAllPasses.h"

using namespace mlir;

void heddle::registerAllDialects(DialectRegistry &registry) {
  mlir::registerAllDialects(registry);
  mlir::registerAllExtensions(registry);
  registry.insert<HeddleDialect, comm::CommDialect, rt::RtDialect>();
  registerDifferentiableModels(registry);
  registerShardingRuleModels(registry);
  registerWorkModels(registry);
}

void heddle::registerAllPasses() {
  mlir::registerAllPasses();
  registerHeddleAutodiffPasses();
  registerHeddleLowerPasses();
  registerHeddleShardPasses();
  registerPipelines();
}
