//===- HeddlePlugin.cpp - Heddle in the stock mlir-opt --------------------===//
//
//   mlir-opt-19 --load-dialect-plugin=HeddlePlugin.so
//               --load-pass-plugin=HeddlePlugin.so
//               --pass-pipeline='builtin.module(heddle-propagate-shardings,...)'
//
// mlir-opt reads the names of its passes before it loads plugins, so only
// --pass-pipeline finds the passes of a plugin.
//
//===----------------------------------------------------------------------===//

#include "heddle/InitAll.h"
#include "mlir/Tools/Plugins/DialectPlugin.h"
#include "mlir/Tools/Plugins/PassPlugin.h"

using namespace mlir;

extern "C" LLVM_ATTRIBUTE_WEAK DialectPluginLibraryInfo
mlirGetDialectPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "Heddle", HEDDLE_VERSION,
          [](DialectRegistry *registry) {
            heddle::registerHeddleDialects(*registry);
          }};
}

extern "C" LLVM_ATTRIBUTE_WEAK PassPluginLibraryInfo mlirGetPassPluginInfo() {
  return {MLIR_PLUGIN_API_VERSION, "Heddle", HEDDLE_VERSION,
          heddle::registerHeddlePasses};
}
