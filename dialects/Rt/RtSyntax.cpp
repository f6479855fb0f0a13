//===- RtSyntax.cpp - Syntax of the rt ops --------------------------------===//

#include "dialects/Heddle/EnumSyntax.h"
#include "dialects/Rt/Rt.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/OpImplementation.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::rt;

namespace heddle {
// Defined in HeddleOps.cpp.
ParseResult parseExactNumbers(OpAsmParser &parser, DenseF64ArrayAttr &array);
void printExactNumbers(OpAsmPrinter &printer, Operation *,
                       DenseF64ArrayAttr array);
} // namespace heddle

namespace heddle::rt {
// Defined in RtAttrs.cpp, so that a buffer has the same syntax inside and
// outside of an op.
ParseResult parseBareBuffer(AsmParser &parser, BufferAttr &buffer);
void printBareBuffer(AsmPrinter &printer, BufferAttr buffer);

static void printBareBuffer(OpAsmPrinter &printer, Operation *,
                            BufferAttr buffer) {
  rt::printBareBuffer(printer, buffer);
}

/// Parses a number of bytes without a type: `4096`, not `4096 : i64`.
static ParseResult parseBytes(OpAsmParser &parser, IntegerAttr &bytes) {
  int64_t value;
  if (parser.parseInteger(value))
    return failure();
  bytes = parser.getBuilder().getI64IntegerAttr(value);
  return success();
}

static void printBytes(OpAsmPrinter &printer, Operation *, IntegerAttr bytes) {
  printer << bytes.getInt();
}

static ParseResult parseBufferList(OpAsmParser &parser, ArrayAttr &buffers) {
  SmallVector<Attribute> list;
  if (parser.parseCommaSeparatedList(AsmParser::Delimiter::Paren, [&] {
        BufferAttr buffer;
        if (parseBareBuffer(parser, buffer))
          return failure();
        list.push_back(buffer);
        return success();
      }))
    return failure();
  buffers = parser.getBuilder().getArrayAttr(list);
  return success();
}

static void printBufferList(OpAsmPrinter &printer, Operation *,
                            ArrayAttr buffers) {
  printer << '(';
  llvm::interleaveComma(buffers.getAsRange<BufferAttr>(), printer,
                        [&](BufferAttr b) { printBareBuffer(printer, b); });
  printer << ')';
}

/// Parses buffers and indices as one list, in the order of the kernel's
/// arguments. `list` holds a unit attribute in the place of each index.
static ParseResult
parseLaunchOperands(OpAsmParser &parser,
                    SmallVectorImpl<OpAsmParser::UnresolvedOperand> &indices,
                    ArrayAttr &list) {
  SmallVector<Attribute> elements;
  if (parser.parseCommaSeparatedList(
          AsmParser::Delimiter::Paren, [&]() -> ParseResult {
            OpAsmParser::UnresolvedOperand index;
            OptionalParseResult parsed = parser.parseOptionalOperand(index);
            if (parsed.has_value()) {
              indices.push_back(index);
              elements.push_back(parser.getBuilder().getUnitAttr());
              return *parsed;
            }
            BufferAttr buffer;
            if (parseBareBuffer(parser, buffer))
              return failure();
            elements.push_back(buffer);
            return success();
          }))
    return failure();
  list = parser.getBuilder().getArrayAttr(elements);
  return success();
}

static void printLaunchOperands(OpAsmPrinter &printer, Operation *,
                                OperandRange indices, ArrayAttr list) {
  auto next = indices.begin();
  printer << '(';
  llvm::interleaveComma(list, printer, [&](Attribute element) {
    if (auto buffer = dyn_cast<BufferAttr>(element))
      printBareBuffer(printer, buffer);
    else if (next != indices.end())
      printer << *next++;
    else
      printer << "<missing index>";
  });
  printer << ')';
}
} // namespace heddle::rt

#define GET_OP_CLASSES
#include "dialects/Rt/RtOps.cpp.inc"
