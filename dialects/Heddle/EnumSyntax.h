//===- EnumSyntax.h - Enums as bare words in the syntax of ops --*- C++ -*-===//
//
// `custom<BareEnum>($kind)` reads and writes an enum attribute as its keyword
// alone, as in `pass(wgrad)`. With the attribute's own format, ops would print
// `pass( wgrad)`.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_HEDDLE_ENUMSYNTAX_H
#define HEDDLE_DIALECTS_HEDDLE_ENUMSYNTAX_H

#include "dialects/Heddle/Heddle.h"
#include "mlir/IR/OpImplementation.h"

namespace heddle {

template <typename EnumAttr>
mlir::ParseResult parseBareEnum(mlir::OpAsmParser &parser, EnumAttr &attr) {
  using Enum = decltype(attr.getValue());
  llvm::SMLoc loc = parser.getCurrentLocation();
  llvm::StringRef keyword;
  if (failed(parser.parseOptionalKeyword(&keyword)))
    keyword = "";
  if (std::optional<Enum> value = symbolizeEnum<Enum>(keyword)) {
    attr = EnumAttr::get(parser.getContext(), *value);
    return mlir::success();
  }
  mlir::InFlightDiagnostic diag = parser.emitError(loc) << "expected ";
  // Our enums count from 0 without gaps; a number beyond the last case has an
  // empty name.
  for (unsigned i = 0; !stringifyEnum(Enum(i)).empty(); ++i)
    diag << (i ? " or '" : "'") << stringifyEnum(Enum(i)) << "'";
  if (!keyword.empty())
    diag << ", got '" << keyword << "'";
  return diag;
}

template <typename EnumAttr>
void printBareEnum(mlir::OpAsmPrinter &printer, mlir::Operation *,
                   EnumAttr attr) {
  printer << stringifyEnum(attr.getValue());
}

} // namespace heddle

#endif // HEDDLE_DIALECTS_HEDDLE_ENUMSYNTAX_H
