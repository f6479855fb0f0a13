//===- HeddleAttrs.cpp - Parsing, printing and checking attributes --------===//

#include "dialects/Heddle/Contraction.h"
#include "dialects/Heddle/Heddle.h"
#include "mlir/IR/DialectImplementation.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Axis lists: {"dp", "tp"}
//===----------------------------------------------------------------------===//

static void printAxes(AsmPrinter &printer, ArrayRef<StringAttr> axes) {
  printer << '{';
  llvm::interleaveComma(axes, printer, [&](StringAttr axis) {
    printer.printString(axis.getValue());
  });
  printer << '}';
}

static ParseResult parseAxes(AsmParser &parser,
                             SmallVectorImpl<StringAttr> &axes) {
  return parser.parseCommaSeparatedList(AsmParser::Delimiter::Braces, [&] {
    std::string name;
    if (parser.parseString(&name))
      return failure();
    axes.push_back(StringAttr::get(parser.getContext(), name));
    return success();
  });
}

static ParseResult parseBareAxisList(AsmParser &parser, AxisListAttr &list) {
  SmallVector<StringAttr> axes;
  if (parseAxes(parser, axes))
    return failure();
  list = AxisListAttr::get(parser.getContext(), axes);
  return success();
}

static void printBareAxisList(AsmPrinter &printer, AxisListAttr list) {
  printAxes(printer, list.getAxes());
}

static ParseResult parseBareDecay(AsmParser &parser, FloatAttr &decay) {
  double value;
  if (parser.parseFloat(value))
    return failure();
  decay = parser.getBuilder().getF64FloatAttr(value);
  return success();
}

static void printBareDecay(AsmPrinter &printer, FloatAttr decay) {
  printer.printFloat(decay.getValue());
}

#define GET_ATTRDEF_CLASSES
#include "dialects/Heddle/HeddleAttrs.cpp.inc"

void HeddleDialect::registerAttributes() {
  addAttributes<
#define GET_ATTRDEF_LIST
#include "dialects/Heddle/HeddleAttrs.cpp.inc"
      >();
}

Attribute AxisListAttr::parse(AsmParser &parser, Type) {
  AxisListAttr list;
  if (parser.parseLess() || parseBareAxisList(parser, list) ||
      parser.parseGreater())
    return {};
  return list;
}

void AxisListAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printAxes(printer, getAxes());
  printer << '>';
}

//===----------------------------------------------------------------------===//
// MeshAxisAttr, MeshAttr: <["dp"=2, "tp"=4]>
//===----------------------------------------------------------------------===//

LogicalResult MeshAxisAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   StringAttr name, int64_t size) {
  if (name.getValue().empty())
    return emitError() << "expected a mesh axis to have a name";
  if (size < 1)
    return emitError() << "expected mesh axis \"" << name.getValue()
                       << "\" to have a positive size, got " << size;
  return success();
}

/// The most devices that the runtime's manifest reader accepts.
static constexpr int64_t kMaxDevices = 1 << 16;

LogicalResult MeshAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               ArrayRef<MeshAxisAttr> axes) {
  llvm::StringSet<> names;
  int64_t devices = 1;
  for (MeshAxisAttr axis : axes) {
    if (!names.insert(axis.getName().getValue()).second)
      return emitError() << "expected mesh axes to have different names, got \""
                         << axis.getName().getValue() << "\" twice";
    // Checked before multiplying, so that the product does not overflow.
    if (axis.getSize() > kMaxDevices / devices)
      return emitError() << "expected a mesh of at most " << kMaxDevices
                         << " devices, got more";
    devices *= axis.getSize();
  }
  return success();
}

Attribute MeshAttr::parse(AsmParser &parser, Type) {
  SmallVector<MeshAxisAttr> axes;
  auto emitError = [&] { return parser.emitError(parser.getNameLoc()); };
  auto parseAxis = [&]() -> ParseResult {
    std::string name;
    int64_t size;
    if (parser.parseString(&name) || parser.parseEqual() ||
        parser.parseInteger(size))
      return failure();
    auto axis = MeshAxisAttr::getChecked(
        emitError, parser.getContext(),
        StringAttr::get(parser.getContext(), name), size);
    if (!axis)
      return failure();
    axes.push_back(axis);
    return success();
  };
  if (parser.parseLess() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, parseAxis) ||
      parser.parseGreater())
    return {};
  return MeshAttr::getChecked(emitError, parser.getContext(), axes);
}

void MeshAttr::print(AsmPrinter &printer) const {
  printer << "<[";
  llvm::interleaveComma(getAxes(), printer, [&](MeshAxisAttr axis) {
    printer.printString(axis.getName().getValue());
    printer << '=' << axis.getSize();
  });
  printer << "]>";
}

int64_t MeshAttr::getNumDevices() const {
  int64_t devices = 1;
  for (MeshAxisAttr axis : getAxes())
    devices *= axis.getSize();
  return devices;
}

int64_t MeshAttr::getAxisSize(StringRef name) const {
  for (MeshAxisAttr axis : getAxes())
    if (axis.getName().getValue() == name)
      return axis.getSize();
  return 0;
}

int64_t MeshAttr::getSize(ArrayRef<StringAttr> axes) const {
  int64_t size = 1;
  for (StringAttr axis : axes)
    size *= getAxisSize(axis.getValue());
  return size;
}

//===----------------------------------------------------------------------===//
// ShardingAttr: <@mesh, [{"dp"}, {}], partial = sum {"tp"}>
//===----------------------------------------------------------------------===//

LogicalResult ShardingAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   FlatSymbolRefAttr mesh,
                                   ArrayRef<AxisListAttr> dims,
                                   ReductionKind partialKind,
                                   ArrayRef<StringAttr> partialAxes) {
  llvm::StringSet<> seen;
  auto check = [&](ArrayRef<StringAttr> axes) -> LogicalResult {
    for (StringAttr axis : axes)
      if (!seen.insert(axis.getValue()).second)
        return emitError() << "expected each mesh axis at most once in a "
                              "sharding, got \""
                           << axis.getValue() << "\" twice";
    return success();
  };
  for (AxisListAttr dim : dims)
    if (failed(check(dim.getAxes())))
      return failure();
  return check(partialAxes);
}

Attribute ShardingAttr::parse(AsmParser &parser, Type) {
  FlatSymbolRefAttr mesh;
  SmallVector<AxisListAttr> dims;
  SmallVector<StringAttr> partialAxes;
  ReductionKind kind = ReductionKind::Sum;
  if (parser.parseLess() || parser.parseAttribute(mesh) ||
      parser.parseComma() ||
      parser.parseCommaSeparatedList(AsmParser::Delimiter::Square, [&] {
        return parseBareAxisList(parser, dims.emplace_back());
      }))
    return {};
  if (succeeded(parser.parseOptionalComma())) {
    StringRef keyword;
    if (parser.parseKeyword("partial") || parser.parseEqual())
      return {};
    SMLoc loc = parser.getCurrentLocation();
    if (parser.parseKeyword(&keyword))
      return {};
    std::optional<ReductionKind> parsed = symbolizeReductionKind(keyword);
    if (!parsed) {
      parser.emitError(loc)
          << "expected 'sum' or 'max', got '" << keyword << "'";
      return {};
    }
    kind = *parsed;
    if (parseAxes(parser, partialAxes))
      return {};
  }
  if (parser.parseGreater())
    return {};
  return ShardingAttr::getChecked(
      [&] { return parser.emitError(parser.getNameLoc()); },
      parser.getContext(), mesh, dims, kind, partialAxes);
}

void ShardingAttr::print(AsmPrinter &printer) const {
  printer << '<' << getMesh() << ", [";
  llvm::interleaveComma(getDims(), printer, [&](AxisListAttr dim) {
    printAxes(printer, dim.getAxes());
  });
  printer << ']';
  if (isPartial()) {
    printer << ", partial = " << stringifyReductionKind(getPartialKind())
            << ' ';
    printAxes(printer, getPartialAxes());
  }
  printer << '>';
}

bool ShardingAttr::isReplicated() const {
  return !isPartial() &&
         llvm::all_of(getDims(), [](AxisListAttr dim) { return dim.empty(); });
}

ShardingAttr ShardingAttr::withoutPartial() const {
  return get(getContext(), getMesh(), getDims(), ReductionKind::Sum, {});
}

ShardingAttr ShardingAttr::getReplicated(FlatSymbolRefAttr mesh, int64_t rank) {
  MLIRContext *context = mesh.getContext();
  SmallVector<AxisListAttr> dims(
      rank, AxisListAttr::get(context, ArrayRef<StringAttr>()));
  return get(context, mesh, dims, ReductionKind::Sum, {});
}

RankedTensorType ShardingAttr::getLocalType(RankedTensorType global,
                                            MeshAttr mesh) const {
  SmallVector<int64_t> shape(global.getShape());
  for (auto [size, dim] : llvm::zip(shape, getDims())) {
    int64_t devices = std::max<int64_t>(1, mesh.getSize(dim.getAxes()));
    size = (size + devices - 1) / devices;
  }
  return RankedTensorType::get(shape, global.getElementType(),
                               global.getEncoding());
}

//===----------------------------------------------------------------------===//
// InitAttr: <normal<0.02>>; inside heddle.variable: normal<0.02>
//===----------------------------------------------------------------------===//

LogicalResult InitAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                               InitKind kind, FloatAttr value) {
  bool needsValue = kind == InitKind::Constant || kind == InitKind::Normal;
  if (needsValue != bool(value))
    return emitError() << "expected initializer '" << stringifyInitKind(kind)
                       << "' to have " << (needsValue ? "a" : "no") << " value";
  if (value && !value.getValue().isFinite())
    return emitError() << "expected a finite initial value, got "
                       << value.getValueAsDouble();
  if (kind == InitKind::Normal && value.getValue().isNegative())
    return emitError() << "expected a standard deviation of at least 0, got "
                       << value.getValueAsDouble();
  return success();
}

namespace heddle {
ParseResult parseBareInit(AsmParser &parser, InitAttr &init) {
  StringRef keyword;
  SMLoc loc = parser.getCurrentLocation();
  if (parser.parseKeyword(&keyword))
    return failure();
  std::optional<InitKind> kind = symbolizeInitKind(keyword);
  if (!kind)
    return parser.emitError(loc)
           << "expected an initializer: zeros, ones, constant<v> or normal<v>, "
              "got '"
           << keyword << "'";
  FloatAttr value;
  if (succeeded(parser.parseOptionalLess())) {
    double number;
    if (parser.parseFloat(number) || parser.parseGreater())
      return failure();
    value = parser.getBuilder().getF64FloatAttr(number);
  }
  init = InitAttr::getChecked([&] { return parser.emitError(loc); },
                              parser.getContext(), *kind, value);
  return success(bool(init));
}

void printBareInit(AsmPrinter &printer, InitAttr init) {
  printer << stringifyInitKind(init.getKind());
  if (init.getValue()) {
    printer << '<';
    printer.printFloat(init.getValue().getValue());
    printer << '>';
  }
}
} // namespace heddle

Attribute InitAttr::parse(AsmParser &parser, Type) {
  InitAttr init;
  if (parser.parseLess() || parseBareInit(parser, init) ||
      parser.parseGreater())
    return {};
  return init;
}

void InitAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printBareInit(printer, *this);
  printer << '>';
}

//===----------------------------------------------------------------------===//
// GroupAttr
//===----------------------------------------------------------------------===//

LogicalResult GroupAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                FlatSymbolRefAttr learningRate,
                                FloatAttr decay) {
  if (!decay.getValue().isFinite() || decay.getValue().isNegative())
    return emitError() << "expected a finite decay of at least 0, got "
                       << decay.getValueAsDouble();
  return success();
}

//===----------------------------------------------------------------------===//
// SplitAttr and SliceAttr
//===----------------------------------------------------------------------===//

LogicalResult SplitAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                StringAttr factor, int64_t slices,
                                int64_t sharded) {
  if (slices < 2)
    return emitError() << "expected at least 2 slices, got " << slices;
  if (sharded < 0 || sharded > slices)
    return emitError() << "expected at most " << slices
                       << " slices to be sharded, got " << sharded;
  return success();
}

LogicalResult SliceAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                StringAttr of, int64_t dim, int64_t offset,
                                int64_t size) {
  if (dim < 0 || offset < 0 || size < 1)
    return emitError()
           << "expected a dimension, an offset and a positive size, "
              "got dim "
           << dim << ", " << offset << " of " << size;
  return success();
}

//===----------------------------------------------------------------------===//
// PortRoleAttr and RanksAttr
//===----------------------------------------------------------------------===//

LogicalResult PortRoleAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   PortRole role, StringAttr of) {
  bool isGradient = role == PortRole::Gradient;
  if (isGradient != bool(of))
    return emitError() << "expected the role " << stringifyPortRole(role)
                       << " to name " << (isGradient ? "its" : "no")
                       << " parameter";
  return success();
}

LogicalResult RanksAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                FlatSymbolRefAttr,
                                ArrayRef<CoordinatesAttr> where) {
  llvm::SmallDenseSet<StringAttr> axes;
  for (CoordinatesAttr condition : where) {
    if (!axes.insert(condition.getAxis()).second)
      return emitError() << "expected each axis once, got "
                         << condition.getAxis() << " twice";
    ArrayRef<int64_t> values = condition.getValues();
    if (values.empty() || values.front() < 0 ||
        !llvm::is_sorted(values, std::less_equal<int64_t>()))
      return emitError() << "expected ascending coordinates of at least 0 "
                            "along axis "
                         << condition.getAxis() << ", got [" << values << "]";
  }
  return success();
}

LogicalResult PipelineAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                                   StringAttr, PipelineSchedule,
                                   int64_t stages) {
  if (stages >= 1)
    return success();
  return emitError() << "expected at least one stage, got " << stages;
}

//===----------------------------------------------------------------------===//
// ContractionAttr: [bsh, hf -> bsf]
//===----------------------------------------------------------------------===//

LogicalResult
ContractionAttr::verify(function_ref<InFlightDiagnostic()> emitError,
                        StringAttr lhs, StringAttr rhs, StringAttr result) {
  for (StringAttr letters : {lhs, rhs, result})
    for (auto [i, letter] : llvm::enumerate(letters.getValue())) {
      if (!llvm::isAlpha(letter))
        return emitError() << "expected the factors of a contraction to be "
                              "letters, got '"
                           << Twine(letter) << "'";
      if (letters.getValue().find(letter, i + 1) != StringRef::npos)
        return emitError() << "expected each factor once in '"
                           << letters.getValue() << "', got '" << Twine(letter)
                           << "' twice";
    }
  for (char letter : result.getValue())
    if (!lhs.getValue().contains(letter) && !rhs.getValue().contains(letter))
      return emitError() << "factor '" << Twine(letter)
                         << "' of the result is in no operand";
  auto checkAlone = [&](StringRef mine, StringRef other) -> LogicalResult {
    for (char letter : mine)
      if (!other.contains(letter) && !result.getValue().contains(letter))
        return emitError() << "factor '" << Twine(letter)
                           << "' is in one operand only and not in the result";
    return success();
  };
  if (failed(checkAlone(lhs.getValue(), rhs.getValue())))
    return failure();
  return checkAlone(rhs.getValue(), lhs.getValue());
}

namespace heddle {
ParseResult parseBareContraction(AsmParser &parser,
                                 ContractionAttr &contraction) {
  SMLoc loc = parser.getCurrentLocation();
  SmallVector<StringAttr, 3> parts;
  // A scalar result has no letters.
  auto parsePart = [&]() -> ParseResult {
    StringRef letters;
    if (failed(parser.parseOptionalKeyword(&letters)))
      letters = "";
    parts.push_back(StringAttr::get(parser.getContext(), letters));
    return success();
  };
  if (parser.parseLSquare() || parsePart() || parser.parseComma() ||
      parsePart() || parser.parseArrow() || parsePart() ||
      parser.parseRSquare())
    return failure();
  contraction = ContractionAttr::getChecked(
      [&] { return parser.emitError(loc); }, parser.getContext(), parts[0],
      parts[1], parts[2]);
  return success(bool(contraction));
}

void printBareContraction(AsmPrinter &printer, ContractionAttr contraction) {
  printer << '[' << contraction.getLhs().getValue() << ", "
          << contraction.getRhs().getValue() << " -> "
          << contraction.getResult().getValue() << ']';
}

void printBareContraction(OpAsmPrinter &printer, Operation *,
                          ContractionAttr contraction) {
  printBareContraction(static_cast<AsmPrinter &>(printer), contraction);
}
} // namespace heddle

Attribute ContractionAttr::parse(AsmParser &parser, Type) {
  ContractionAttr contraction;
  if (parser.parseLess() || parseBareContraction(parser, contraction) ||
      parser.parseGreater())
    return {};
  return contraction;
}

void ContractionAttr::print(AsmPrinter &printer) const {
  printer << '<';
  printBareContraction(printer, *this);
  printer << '>';
}
