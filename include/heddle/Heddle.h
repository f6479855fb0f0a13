//===- Heddle.h - Heddle inside another compiler ----------------*- C++ -*-===//
//
// The headers for a compiler whose own IR is to run on many devices (see
// examples/embed):
//
//   mlir::DialectRegistry registry;
//   heddle::registerHeddleDialects(registry);   // and your own dialects
//   ...
//   // Your ops implement heddle::ShardingRuleOpInterface; the module declares
//   // a heddle.mesh, arguments and results carry heddle.sharding where you
//   // care.
//   if (failed(heddle::partition(module)))      // one device's program
//     return failure();
//   lowerMyDialectToLinalg(module);             // your own passes
//   return heddle::compileToArtifact(module, {}, "program.heddle");
//
// The artifact is run by heddle::runtime::Session (heddle_rt/session.h, target
// Heddle::Runtime), which needs no LLVM. Link Heddle::Heddle, which is one
// shared library: there must be one Heddle and one MLIR in a process.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_HEDDLE_H
#define HEDDLE_HEDDLE_H

#include "dialects/Comm/Comm.h"
#include "dialects/Heddle/Heddle.h"
#include "dialects/Interfaces/Interfaces.h"
#include "heddle/InitAll.h"
#include "heddle/Lower/Passes.h"
#include "heddle/Pipelines/Pipelines.h"
#include "heddle/Plan/DefaultPlan.h"
#include "heddle/Plan/Plan.h"
#include "heddle/Shard/ApplyPlan.h"
#include "heddle/Shard/Passes.h"
#include "heddle/Sharding/FactorShardings.h"

#endif // HEDDLE_HEDDLE_H
