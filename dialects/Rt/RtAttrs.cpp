//===- RtAttrs.cpp - Places of buffers ------------------------------------===//

#include "dialects/Rt/Rt.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::rt;

#define GET_ATTRDEF_CLASSES
#include "dialects/Rt/RtAttrs.cpp.inc"

void RtDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Rt/RtAttrs.cpp.inc"
      >();
}

static constexpr StringLiteral spaceNames[] = {"arena", "variable", "argument",
                                               "result", "constant"};

StringRef rt::stringifySpace(Space space) {
  return spaceNames[static_cast<uint32_t>(space)];
}

std::optional<Space> rt::symbolizeSpace(StringRef name) {
  for (auto [i, known] : llvm::enumerate(spaceNames))
    if (known == name)
      return static_cast<Space>(i);
  return std::nullopt;
}

LogicalResult BufferAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                 Space, FlatSymbolRefAttr, int64_t /*index*/,
                                 int64_t offset, RankedTensorType type) {
  if (!type.hasStaticShape() || !rt::getByteSize(type.getElementType()))
    return emitError() << "expected a buffer of static shape and a type that "
                          "the runtime has, got "
                       << type;
  if (offset < 0)
    return emitError() << "expected an offset of at least 0, got " << offset;
  int64_t align = rt::getByteSize(type.getElementType());
  if (offset % align != 0)
    return emitError() << "expected an offset that is a multiple of " << align
                       << ", the size of " << type.getElementType() << ", got "
                       << offset;
  return success();
}

int64_t BufferAttr::getBytes() const { return rt::getByteSize(getType()); }

BufferAttr BufferAttr::getView(int64_t offset, RankedTensorType type) const {
  return get(getContext(), getSpace(), getSymbol(), getIndex(),
             getOffset() + offset, type);
}

bool BufferAttr::sameMemory(BufferAttr other) const {
  return getSpace() == other.getSpace() && getSymbol() == other.getSymbol() &&
         getIndex() == other.getIndex();
}

bool BufferAttr::overlaps(BufferAttr other) const {
  return sameMemory(other) &&
         getOffset() < other.getOffset() + other.getBytes() &&
         other.getOffset() < getOffset() + getBytes();
}

namespace heddle::rt {
ParseResult parseBareBuffer(AsmParser &parser, BufferAttr &buffer) {
  SMLoc loc = parser.getCurrentLocation();
  StringRef keyword;
  if (parser.parseKeyword(&keyword))
    return failure();
  std::optional<Space> space = symbolizeSpace(keyword);
  if (!space)
    return parser.emitError(loc)
           << "expected arena, variable, argument, result or constant, got '"
           << keyword << "'";
  FlatSymbolRefAttr symbol;
  int64_t index = 0, offset = 0;
  if (*space == Space::Variable || *space == Space::Constant) {
    if (parser.parseAttribute(symbol))
      return failure();
  } else if (*space != Space::Arena) {
    if (parser.parseInteger(index))
      return failure();
  }
  SmallVector<int64_t> shape;
  Type element;
  if (parser.parseLSquare() || parser.parseInteger(offset) ||
      parser.parseColon() ||
      parser.parseDimensionList(shape, /*allowDynamic=*/false,
                                /*withTrailingX=*/true) ||
      parser.parseType(element) || parser.parseRSquare())
    return failure();
  auto emitError = [&] { return parser.emitError(loc); };
  auto type = RankedTensorType::getChecked(emitError, shape, element);
  if (!type)
    return failure();
  buffer = BufferAttr::getChecked(emitError, parser.getContext(), *space,
                                  symbol, index, offset, type);
  return success(bool(buffer));
}

void printBareBuffer(AsmPrinter &printer, BufferAttr buffer) {
  printer << stringifySpace(buffer.getSpace());
  if (buffer.getSymbol())
    printer << ' ' << buffer.getSymbol();
  else if (buffer.getSpace() != Space::Arena)
    printer << ' ' << buffer.getIndex();
  printer << '[' << buffer.getOffset() << " : ";
  for (int64_t size : buffer.getType().getShape())
    printer << size << 'x';
  printer << buffer.getType().getElementType() << ']';
}
} // namespace heddle::rt

Attribute BufferAttr::parse(AsmParser &parser, Type) {
  BufferAttr buffer;
  if (parser.parseLess() || parseBareBuffer(parser, buffer) ||
      parser.parseGreater())
    return {};
  return buffer;
}

void BufferAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printBareBuffer(printer, *this);
  printer << '>';
}
