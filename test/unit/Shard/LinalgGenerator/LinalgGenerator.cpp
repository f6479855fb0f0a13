//===- LinalgGenerator.cpp - Random programs: functions, values -----------===//

#include "LinalgGenerator.h"

using namespace heddle;

//===----------------------------------------------------------------------===//
// Types, values, text
//===----------------------------------------------------------------------===//

int64_t LinalgGenerator::TensorType::size() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

std::string LinalgGenerator::TensorType::text() const {
  std::string text = "tensor<";
  for (int64_t size : shape)
    text += std::to_string(size) + "x";
  return text + element + ">";
}

std::string LinalgGenerator::list(llvm::ArrayRef<int64_t> numbers) {
  std::string text;
  for (int64_t number : numbers)
    text += (text.empty() ? "" : ", ") + std::to_string(number);
  return "[" + text + "]";
}

LinalgGenerator::Shape LinalgGenerator::iota(size_t count) {
  Shape all(count);
  for (size_t i = 0; i < count; ++i)
    all[i] = i;
  return all;
}

/// Returns whether the interpreter can execute ops of this shape quickly.
bool LinalgGenerator::isSmall(const Shape &shape) const {
  return shape.size() <= 4 &&
         TensorType{shape, "f64"}.size() <= options.mostElements;
}

std::string LinalgGenerator::anyElement() {
  const char *elements[] = {"f64", "f64", "f32", "f32", "bf16",
                            "f16", "i32", "i64", "i8",  "i1"};
  std::string element = elements[pick(0, 9)];
  bool isHalf = element == "bf16" || element == "f16";
  return isHalf && !options.halves ? "f32" : element;
}

LinalgGenerator::TensorType LinalgGenerator::anyType() {
  Shape shape;
  for (int64_t rank = pick(0, 4); rank > 0; --rank)
    shape.push_back(pick(1, rank > 3                      ? 3
                            : options.mostElements > 1000 ? 64
                                                          : 7));
  if (!shape.empty() && options.empty && pick(0, 60) == 0)
    shape[0] = 0;
  while (!isSmall(shape))
    shape.pop_back();
  return {shape, anyElement()};
}

void LinalgGenerator::emit(const std::string &text, const TensorType &type) {
  std::string name = "%v" + std::to_string(next++);
  body += "  " + name + " = " + text + "\n";
  values.push_back({name, type});
}

std::string LinalgGenerator::helper(const std::string &text) {
  std::string name = "%h" + std::to_string(next++);
  body += "  " + name + " = " + text + "\n";
  return name;
}

std::string LinalgGenerator::number(const std::string &text,
                                    const std::string &element) {
  if (element == "i1")
    return helper("arith.constant " +
                  std::string(text[0] == '0' ? "false" : "true"));
  bool isFloat = TensorType{{}, element}.isFloat();
  return helper("arith.constant " + text + (isFloat ? ".0" : "") + " : " +
                element);
}

std::string LinalgGenerator::splat(const std::string &text,
                                   const TensorType &type) {
  return helper("arith.constant dense<" + text + "> : " + type.text());
}

std::string LinalgGenerator::constant(const TensorType &type) {
  std::function<std::string(size_t)> elements = [&](size_t dim) {
    if (dim == type.shape.size()) {
      if (type.isBit())
        return std::string(pick(0, 1) ? "true" : "false");
      std::string text = std::to_string(pick(-7, 7));
      return type.isFloat() ? text + "." + std::to_string(pick(0, 9)) : text;
    }
    std::string text;
    for (int64_t i = 0; i < type.shape[dim]; ++i)
      text += (i ? ", " : "") + elements(dim + 1);
    return "[" + text + "]";
  };
  if (type.size() == 0) // no elements to write into the constant
    return empty(type);
  return splat(elements(0), type);
}

std::string LinalgGenerator::empty(const TensorType &type) {
  return helper("tensor.empty() : " + type.text());
}

std::string LinalgGenerator::filled(const TensorType &type,
                                    const std::string &text) {
  std::string scalar = number(text, type.element);
  return helper("linalg.fill ins(" + scalar + " : " + type.element + ") outs(" +
                empty(type) + " : " + type.text() + ") -> " + type.text());
}

std::string LinalgGenerator::get(const TensorType &type) {
  for (int i = 0; i < 15; ++i)
    if (const Named &value = any(); value.type == type)
      return value.name;
  return constant(type);
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

std::string LinalgGenerator::addFunction(const std::string &name, int arguments,
                                         int results, int numOps) {
  body.clear();
  values.clear();
  std::string list;
  for (int i = 0; i < arguments; ++i) {
    values.push_back({"%a" + std::to_string(i), anyType()});
    list += (i ? ", " : "") + values[i].name + ": " + values[i].type.text();
  }
  std::vector<TensorType> argumentTypes, resultTypes;
  for (const Named &value : values)
    argumentTypes.push_back(value.type);
  for (int i = 0; i < numOps; ++i)
    addOp(2);
  std::string names, types;
  for (int i = 0; i < results; ++i) {
    // Returns late values more often than early ones.
    const Named &value = values[std::max(pick(0, values.size() - 1),
                                         pick(0, values.size() - 1))];
    names += (i ? ", " : "") + value.name;
    types += (i ? ", " : "") + value.type.text();
    resultTypes.push_back(value.type);
  }
  std::string text = "func.func " + name + "(" + list + ") -> (" + types +
                     ") {\n" + body + "  return " + names + " : " + types +
                     "\n}\n";
  calleeArguments = argumentTypes;
  calleeResults = resultTypes;
  return text;
}

std::string LinalgGenerator::run(int numOps) {
  std::string text;
  if (pick(0, 4) == 0)
    text = addFunction("private @g", 2, 2, pick(1, 3));
  return text + addFunction("@f", 4, 3, numOps);
}

void LinalgGenerator::addOp(int depth) {
  Named x = any();
  switch (pick(0, 36)) {
  case 0:
  case 1:
  case 2:
    return addElementwise(x);
  case 3:
    return addConversion(x);
  case 4:
    return addSelect(x);
  case 5:
    return addNamedElementwise(x);
  case 6:
    return addMap(x);
  case 7:
  case 8:
    return addGeneric(x);
  case 9:
    return addLookup(x);
  case 10:
  case 11:
  case 12:
    return addReduction(x);
  case 13:
    return addTwoReductions(x);
  case 14:
    return addSoftmax(x);
  case 15:
    return addProduct(x);
  case 16:
    return addBatchProduct(x);
  case 17:
    return addConvolution(x);
  case 18:
    return addChannelConvolution(x);
  case 19:
    return addPooling(x);
  case 20:
    return addPad(x);
  case 21:
    return addSlice(x);
  case 22:
    return addConcat(x);
  case 23:
  case 24:
    return addReshape(x);
  case 25:
    return addTranspose(x);
  case 26:
    return pick(0, 2) ? addBroadcast(x) : addDiagonal(x);
  case 27:
    return addGather(x);
  case 28:
    return addGenerate();
  case 29:
    return addElements(x);
  case 30:
    return pick(0, 1) ? addFor(x, depth) : addIf(x, depth);
  case 31:
    return addWhile(x, depth);
  case 32:
    return addCall();
  case 33:
    return addBranches(x);
  default:
    return addPlaces(x);
  }
}
