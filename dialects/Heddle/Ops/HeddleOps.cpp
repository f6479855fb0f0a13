//===- HeddleOps.cpp - Syntax of the ops of the model dialect -------------===//

#include "dialects/Heddle/Contraction.h"
#include "dialects/Heddle/EnumSyntax.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace heddle;

namespace heddle {
// Defined in HeddleAttrs.cpp, so that the attributes have the same syntax
// inside and outside of an op.
ParseResult parseBareInit(AsmParser &parser, InitAttr &init);
void printBareInit(AsmPrinter &printer, InitAttr init);

static void printBareInit(OpAsmPrinter &printer, Operation *, InitAttr init) {
  heddle::printBareInit(printer, init);
}

/// Parses a list such as `[1.0, 0.0261612878]`. printExactNumbers prints every
/// number with enough digits to be read back exactly; the usual syntax of dense
/// arrays prints fewer.
ParseResult parseExactNumbers(OpAsmParser &parser, DenseF64ArrayAttr &array) {
  SmallVector<double> numbers;
  if (parser.parseCommaSeparatedList(OpAsmParser::Delimiter::Square, [&] {
        return parser.parseFloat(numbers.emplace_back());
      }))
    return failure();
  array = parser.getBuilder().getDenseF64ArrayAttr(numbers);
  return success();
}

void printExactNumbers(OpAsmPrinter &printer, Operation *,
                       DenseF64ArrayAttr array) {
  printer << '[';
  llvm::interleaveComma(array.asArrayRef(), printer, [&](double number) {
    printer.printFloat(APFloat(number));
  });
  printer << ']';
}
} // namespace heddle

#define GET_OP_CLASSES
#include "dialects/Heddle/HeddleOps.cpp.inc"
