//===- Report.h - Traces as pages -------------------------------*- C++ -*-===//
//
// Makes one self-contained HTML page of a trace (docs/trace.md), of a
// simulation or of a real run. The page holds its data as JSON, and draws it
// with a little script; it loads nothing.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_REPORT_REPORT_H
#define HEDDLE_REPORT_REPORT_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include <string>

namespace heddle {

struct ReportOptions {
  std::string title; ///< of the page
  /// The entry point of a run's trace to show; empty: the one that takes
  /// longest. The page shows the run of it that has the median length.
  std::string table;
};

/// Returns the page for a trace, whose text is `text`. `source` names the text
/// in errors.
llvm::Expected<std::string> makeReport(llvm::StringRef text,
                                       llvm::StringRef source,
                                       const ReportOptions &options);

/// Returns the page of a plan, a table of operators coloured by sharding, from
/// what `heddle explain --json` prints.
std::string makePlanPage(llvm::StringRef explanation, llvm::StringRef title);

/// Returns the page of a front of choices, time against memory, from what
/// `heddle plan --front --json` prints.
std::string makeFrontPage(llvm::StringRef front, llvm::StringRef title);

} // namespace heddle

#endif // HEDDLE_REPORT_REPORT_H
