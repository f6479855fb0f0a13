//===- WithContext.h - Base of fixtures that run passes ---------*- C++ -*-===//

#ifndef HEDDLE_TEST_SUPPORT_WITHCONTEXT_H
#define HEDDLE_TEST_SUPPORT_WITHCONTEXT_H

#include "heddle/InitAll.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/Pass/PassManager.h"
#include "mlir/Pass/PassRegistry.h"
#include <string>

namespace heddle::test {

/// A context that knows every dialect and pass, and collects errors.
class WithContext {
protected:
  WithContext() {
    static bool registered = (registerAllPasses(), true);
    (void)registered;
    mlir::DialectRegistry registry;
    registerAllDialects(registry);
    context.appendDialectRegistry(registry);
    context.loadAllAvailableDialects();
    context.getDiagEngine().registerHandler([this](mlir::Diagnostic &message) {
      if (message.getSeverity() == mlir::DiagnosticSeverity::Error)
        diagnostics += message.str() + "\n";
    });
  }

  /// Runs a pipeline in the syntax of heddle-opt. If a pass fails, returns
  /// false and leaves the errors in `diagnostics`.
  bool runPasses(mlir::ModuleOp module, llvm::StringRef pipeline) {
    mlir::PassManager manager(&context);
    return mlir::succeeded(mlir::parsePassPipeline(pipeline, manager)) &&
           mlir::succeeded(manager.run(module));
  }

  mlir::MLIRContext context;
  std::string diagnostics; ///< errors only
};

} // namespace heddle::test

#endif // HEDDLE_TEST_SUPPORT_WITHCONTEXT_H
