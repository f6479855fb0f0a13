//===- JudgeTools.h - Shared parts of Judge ---------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLANNER_JUDGE_JUDGETOOLS_H
#define HEDDLE_LIB_PLANNER_JUDGE_JUDGETOOLS_H

#include "../Bounds/Extrapolation.h"
#include "Judge.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"

namespace heddle {

/// Returns the most bytes in use from the first to the last call that serves
/// activations of a layer. A layer is the prefix of its names, such as "h.3.".
/// 0: no call does.
int64_t getPeakOfLayer(const Simulation &simulation, llvm::StringRef layer);

/// Keeps the first error, and drops remarks and warnings.
class Judge::Messages {
public:
  explicit Messages(mlir::MLIRContext *context)
      : handler(context, [this](mlir::Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error &&
              error.empty())
            error = show(diagnostic);
          return mlir::success();
        }) {}

  /// Returns the first error since the last call.
  llvm::Error take() {
    std::string text = std::move(error);
    error.clear();
    return llvm::createStringError(text.empty() ? "failed without a message"
                                                : text);
  }
  void clear() { error.clear(); }

private:
  static std::string show(mlir::Diagnostic &diagnostic) {
    std::string text = diagnostic.str();
    if (auto name = diagnostic.getLocation()->findInstanceOf<mlir::NameLoc>())
      text = "'" + name.getName().str() + "': " + text;
    return text;
  }

  std::string error;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace heddle

#endif // HEDDLE_LIB_PLANNER_JUDGE_JUDGETOOLS_H
