//===- Report.cpp - heddle report -----------------------------------------===//

#include "../common/Run.h"
#include "Commands.h"

#include "heddle/Report/Report.h"
#include "heddle_rt/atomic_file.h"

#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace heddle;
using namespace heddle::tools;

namespace fs = std::filesystem;

namespace {
struct ReportFlags {
  std::string trace, output;
  ReportOptions options;
};
} // namespace

static int writeReport(ReportFlags &flags) {
  auto file = llvm::MemoryBuffer::getFile(flags.trace);
  if (!file)
    return reportError("trace '" + flags.trace +
                       "': " + file.getError().message());
  if (flags.options.title.empty())
    flags.options.title = fs::path(flags.trace).stem().string();
  llvm::Expected<std::string> page =
      makeReport((*file)->getBuffer(), flags.trace, flags.options);
  if (!page)
    return reportError(llvm::toString(page.takeError()));
  std::string output =
      flags.output.empty()
          ? fs::path(flags.trace).replace_extension(".html").string()
          : flags.output;
  runtime::Status status = runtime::writeFileAtomically(output, *page);
  if (!status.ok())
    return reportError(std::string(status.message()));
  llvm::outs() << "page: " << output << "\n";
  return exitSuccess;
}

void tools::addReportCommand(CLI::App &app, int &result) {
  CLI::App *command = app.add_subcommand(
      "report", "Write a trace as a page for a browser: timeline, memory, "
                "communication, time by operator");
  auto flags = std::make_shared<ReportFlags>();
  command
      ->add_option("TRACE", flags->trace,
                   "A trace of heddle simulate, train or evaluate (--trace)")
      ->required();
  command
      ->add_option("--table", flags->options.table,
                   "Of a run's trace, the entry point to show (default: the "
                   "one that takes longest)")
      ->check(notEmpty("an entry point"));
  command
      ->add_option("--title", flags->options.title,
                   "Title of the page (default: the file's name)")
      ->check(notEmpty("a title"));
  command
      ->add_option("-o,--output", flags->output,
                   "Page to write (default: TRACE.html)")
      ->check(notEmpty("a file"));
  command->callback([flags, &result] { result = writeReport(*flags); });
}
