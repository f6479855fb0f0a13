//===- Compiler.cpp - The context of a compilation ------------------------===//

#include "Model.h"

#include "heddle/InitAll.h"

#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::tools;

namespace {

/// Prints diagnostics. If a diagnostic is located in a file, shows the source
/// line, unless that is too long to be read. Otherwise puts the op's name, if
/// the location has one, before the message.
class Diagnostics : public SourceMgrDiagnosticHandler {
public:
  Diagnostics(llvm::SourceMgr &sources, MLIRContext *context)
      : SourceMgrDiagnosticHandler(sources, context, llvm::errs()) {
    setHandler([this](Diagnostic &diagnostic) {
      if (showUnknownDialect(diagnostic))
        return;
      show(diagnostic);
      for (Diagnostic &note : diagnostic.getNotes())
        show(note);
    });
  }

private:
  /// Shows a diagnostic on an unknown dialect, but replaces the parser's
  /// advice, which is for authors of tools. Returns false for any other
  /// diagnostic.
  bool showUnknownDialect(Diagnostic &diagnostic) {
    std::string text = diagnostic.str();
    StringRef message(text);
    if (!message.contains("unregistered dialect") &&
        !message.starts_with("Dialect `"))
      return false;
    message = message.split(" If this is intended").first.rtrim(" .");
    emitDiagnostic(diagnostic.getLocation(), message, diagnostic.getSeverity());
    emitDiagnostic(
        diagnostic.getLocation(),
        "heddle reads func, linalg, tensor, arith, math and scf: lower other "
        "dialects to linalg on tensors first (torch-mlir: "
        "torch-backend-to-linalg-on-tensors-backend-pipeline, StableHLO: "
        "stablehlo-legalize-to-linalg)",
        DiagnosticSeverity::Note);
    return true;
  }
  /// Returns whether the source line is short enough to be shown. JSON of a
  /// tool may be one line of megabytes.
  static bool isReadable(FileLineColLoc place) {
    constexpr size_t longest = 200;
    auto text = llvm::MemoryBuffer::getFile(place.getFilename().getValue());
    if (!text)
      return true; // such as standard input, which the handler knows
    StringRef rest = (*text)->getBuffer();
    for (unsigned line = 1; line < place.getLine(); ++line)
      rest = rest.split('\n').second;
    return rest.split('\n').first.size() <= longest;
  }
  void show(Diagnostic &diagnostic) {
    Location location = diagnostic.getLocation();
    auto place = location->findInstanceOf<FileLineColLoc>();
    if (place && place.getLine() > 0)
      return emitDiagnostic(location, diagnostic.str(),
                            diagnostic.getSeverity(), isReadable(place));
    StringRef kind = "remark";
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      kind = "error";
    else if (diagnostic.getSeverity() == DiagnosticSeverity::Warning)
      kind = "warning";
    else if (diagnostic.getSeverity() == DiagnosticSeverity::Note)
      kind = "note";
    llvm::errs() << "heddle: " << kind << ": ";
    if (place) // located in a file, but at no line: e.g. the file is empty
      llvm::errs() << place.getFilename().getValue() << ": ";
    else if (auto name = location->findInstanceOf<NameLoc>())
      llvm::errs() << "'" << name.getName().getValue() << "': ";
    llvm::errs() << diagnostic << "\n";
  }
};

} // namespace

Compiler::Compiler() {
  DialectRegistry registry;
  registerAllDialects(registry);
  mlirContext = std::make_unique<MLIRContext>(registry);
  // An error names its op. Printing the whole module would hide the message.
  mlirContext->printOpOnDiagnostic(false);
  diagnostics = std::make_unique<Diagnostics>(sources, mlirContext.get());
}
