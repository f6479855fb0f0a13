//===- InitHeddle.cpp - Registration of Heddle's own parts ----------------===//

#include "dialects/Comm/Comm.h"
#include "dialects/Heddle/Heddle.h"
#include "dialects/Rt/Rt.h"
#include "heddle/Autodiff/Autodiff.h"
#include "heddle/Autodiff/Passes.h"
#include "heddle/Cost/Work.h"
#include "heddle/InitAll.h"
#include "heddle/Lower/Passes.h"
#include "heddle/Pipelines/Pipelines.h"
#include "heddle/Schedule/Passes.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Shard/ShardingRuleModels.h"
#include "heddle/Stages/Passes.h"

using namespace mlir;

void heddle::registerHeddleDialects(DialectRegistry &registry) {
  registry.insert<HeddleDialect, comm::CommDialect, rt::RtDialect>();
  registerDifferentiableModels(registry);
  registerPrecisionModels(registry);
  registerShardingRuleModels(registry);
  registerWorkModels(registry);
}

void heddle::registerHeddlePasses() {
  registerHeddleAutodiffPasses();
  registerHeddleLowerPasses();
  registerHeddleSchedulePasses();
  registerHeddleShardPasses();
  registerHeddleStagesPasses();
  registerPipelines();
}
