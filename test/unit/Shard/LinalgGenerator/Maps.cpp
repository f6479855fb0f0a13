//===- Maps.cpp - Random programs: element by element ---------------------===//

#include "LinalgGenerator.h"

using namespace heddle;

static std::string join(const std::vector<std::string> &parts) {
  std::string text;
  for (const std::string &part : parts)
    text += (text.empty() ? "" : ", ") + part;
  return text;
}

void LinalgGenerator::addElementwise(Named x) {
  if (x.type.isFloat())
    return addFloat(x);
  return x.type.isBit() ? addBit(x) : addInteger(x);
}

void LinalgGenerator::addFloat(Named x) {
  std::string type = x.type.text();
  auto unary = [&](const std::string &op, const std::string &operand) {
    return op + " " + operand + " : " + type;
  };
  auto binary = [&](const std::string &op, const std::string &lhs,
                    const std::string &rhs) {
    return op + " " + lhs + ", " + rhs + " : " + type;
  };
  std::string positive = "math.absf " + x.name + " : " + type;
  switch (pick(0, 12)) {
  case 0: {
    const char *ops[] = {"arith.negf", "math.absf", "math.tanh", "math.cos",
                         "math.sin",   "math.erf",  "math.atan"};
    return emit(unary(ops[pick(0, 6)], x.name), x.type);
  }
  case 1: {
    std::string bounded = helper(unary("math.tanh", x.name));
    const char *ops[] = {"math.exp", "math.exp2", "math.expm1"};
    return emit(unary(ops[pick(0, 2)], bounded), x.type);
  }
  case 2: {
    const char *ops[] = {"math.sqrt", "math.log1p", "math.cbrt"};
    return emit(unary(ops[pick(0, 2)], helper(positive)), x.type);
  }
  case 3: { // log, rsqrt and division at numbers far from zero
    std::string far =
        helper(binary("arith.addf", helper(positive), splat("1.5", x.type)));
    if (pick(0, 1))
      return emit(binary("arith.divf", get(x.type), far), x.type);
    const char *ops[] = {"math.log", "math.rsqrt", "math.log2"};
    return emit(unary(ops[pick(0, 2)], far), x.type);
  }
  case 4: { // rounding, of numbers that are unlikely to lie at a jump
    std::string bounded = helper(unary("math.tanh", x.name));
    std::string scaled =
        helper(binary("arith.mulf", bounded, splat("7.31", x.type)));
    std::string moved =
        helper(binary("arith.addf", scaled, splat("0.1357", x.type)));
    const char *ops[] = {"math.floor", "math.ceil", "math.round",
                         "math.roundeven", "math.trunc"};
    return emit(unary(ops[pick(0, 4)], moved), x.type);
  }
  case 5:
    return emit("math.fma " + x.name + ", " + get(x.type) + ", " + get(x.type) +
                    " : " + type,
                x.type);
  case 6:
    return emit(binary("arith.mulf", x.name, splat("0.5", x.type)), x.type);
  default: {
    const char *ops[] = {"arith.addf",     "arith.subf",     "arith.mulf",
                         "arith.maximumf", "arith.minimumf", "arith.maxnumf",
                         "arith.minnumf"};
    return emit(binary(ops[pick(0, 6)], x.name, get(x.type)), x.type);
  }
  }
}

void LinalgGenerator::addInteger(Named x) {
  std::string type = x.type.text(), y = get(x.type);
  // As an unsigned number, a negative i64 is not exact in the interpreter.
  bool exact = x.type.element != "i64";
  auto binary = [&](const std::string &op, const std::string &lhs,
                    const std::string &rhs) {
    return op + " " + lhs + ", " + rhs + " : " + type;
  };
  switch (pick(0, 4)) {
  case 0: // an odd number is not zero
  case 1: {
    const char *ops[] = {"arith.divsi",      "arith.remsi", "arith.ceildivsi",
                         "arith.floordivsi", "arith.divui", "arith.remui"};
    std::string divisor =
        x.type.rank() > 0 && pick(0, 1)
            ? countdown(x.type)
            : helper(binary("arith.ori", y, splat("1", x.type)));
    return emit(binary(ops[pick(0, exact ? 5 : 3)], x.name, divisor), x.type);
  }
  case 2: {
    const char *ops[] = {"arith.shli", "arith.shrsi", "arith.shrui"};
    return emit(binary(ops[pick(0, exact ? 2 : 1)], x.name,
                       splat(std::to_string(pick(1, 3)), x.type)),
                x.type);
  }
  default: {
    const char *ops[] = {"arith.addi",  "arith.subi",  "arith.muli",
                         "arith.maxsi", "arith.minsi", "arith.maxui",
                         "arith.minui", "arith.andi",  "arith.ori",
                         "arith.xori"};
    emit(binary(ops[pick(0, 9)], x.name, y), x.type);
    // Stays below 2^53, where the interpreter's numbers are exact.
    emit(binary("arith.remsi", values.back().name, splat("97", x.type)),
         x.type);
    return;
  }
  }
}

void LinalgGenerator::addBit(Named x) {
  const char *ops[] = {"arith.andi", "arith.ori", "arith.xori"};
  emit(ops[pick(0, 2)] + (" " + x.name) + ", " + get(x.type) + " : " +
           x.type.text(),
       x.type);
}

void LinalgGenerator::addConversion(Named x) {
  auto convert = [&](const std::string &op, const std::string &from,
                     const TensorType &source, const std::string &element) {
    TensorType to = source.with(element);
    emit(op + " " + from + " : " + source.text() + " to " + to.text(), to);
  };
  auto width = [](const std::string &element) {
    return element == "bf16" ? 16 : std::stoi(element.substr(1));
  };
  if (x.type.isFloat()) {
    if (pick(0, 1)) { // another float type
      if (x.type.element == "f64")
        return convert("arith.truncf", x.name, x.type,
                       pick(0, 1) || !options.halves ? "f32" : "bf16");
      return convert("arith.extf", x.name, x.type,
                     x.type.element == "f32" ? "f64" : "f32");
    }
    if (pick(0, 1)) { // a comparison
      emit("arith.cmpf " + std::string(pick(0, 1) ? "olt" : "uge") + ", " +
               x.name + ", " + splat("0.12345", x.type) + " : " + x.type.text(),
           x.type.with("i1"));
      return;
    }
    std::string bounded = helper("math.tanh " + x.name + " : " + x.type.text());
    std::string scaled = helper("arith.mulf " + bounded + ", " +
                                splat("9.17", x.type) + " : " + x.type.text());
    return convert("arith.fptosi", scaled, x.type, pick(0, 1) ? "i32" : "i8");
  }
  if (x.type.isInteger() && pick(0, 2) == 0) {
    const char *predicates[] = {"eq", "slt", "ult", "sge", "ugt"};
    return emit("arith.cmpi " + std::string(predicates[pick(0, 4)]) + ", " +
                    x.name + ", " + get(x.type) + " : " + x.type.text(),
                x.type.with("i1"));
  }
  if (pick(0, 1))
    return convert(pick(0, 1) ? "arith.sitofp" : "arith.uitofp", x.name,
                   // As an unsigned number, a negative i64 has no exact double.
                   x.type, "f64");
  int bits = width(x.type.element);
  if (bits < 32)
    return convert(pick(0, 1) ? "arith.extsi" : "arith.extui", x.name, x.type,
                   "i32");
  convert("arith.trunci", x.name, x.type, bits == 64 ? "i32" : "i8");
}

void LinalgGenerator::addSelect(Named x) {
  std::string condition = get(x.type.with("i1"));
  emit("arith.select " + condition + ", " + x.name + ", " + get(x.type) +
           " : " + x.type.with("i1").text() + ", " + x.type.text(),
       x.type);
}

void LinalgGenerator::addNamedElementwise(Named x) {
  std::string type = x.type.text();
  std::string outs = " outs(" + empty(x.type) + " : " + type + ") -> " + type;
  if (pick(0, 3) == 0)
    return emit("linalg.copy ins(" + x.name + " : " + type + ")" + outs,
                x.type);
  if (x.type.isBit())
    return;
  if (x.type.isFloat() && pick(0, 1)) {
    const char *ops[] = {"negf", "abs", "tanh", "square", "ceil"};
    std::string op = ops[pick(0, 3)];
    return emit("linalg." + op + " ins(" + x.name + " : " + type + ")" + outs,
                x.type);
  }
  const char *ops[] = {"add", "sub", "max", "mul"};
  emit("linalg." + std::string(ops[pick(0, x.type.isFloat() ? 3 : 2)]) +
           " ins(" + x.name + ", " + get(x.type) + " : " + type + ", " + type +
           ")" + outs,
       x.type);
}

void LinalgGenerator::addMap(Named x) {
  std::string type = x.type.text(), element = x.type.element;
  std::string op = x.type.isFloat() ? "arith.maximumf"
                   : x.type.isBit() ? "arith.xori"
                                    : "arith.minsi";
  emit("linalg.map ins(" + x.name + ", " + get(x.type) + " : " + type + ", " +
           type + ") outs(" + empty(x.type) + " : " + type +
           ")\n    (%p: " + element + ", %q: " + element +
           ") {\n      %r = " + op + " %p, %q : " + element +
           "\n      linalg.yield %r : " + element + "\n    }",
       x.type);
}

std::string LinalgGenerator::dims(llvm::ArrayRef<int64_t> positions) {
  std::string text;
  for (int64_t position : positions)
    text += (text.empty() ? "d" : ", d") + std::to_string(position);
  return "(" + text + ")";
}

/// Emits a linalg.generic that transposes x and broadcasts it along one more
/// loop. At random it also adds a loop's index, combines x with the result's
/// old value, or divides x by a number that depends on the position.
void LinalgGenerator::addGeneric(Named x) {
  const std::string &element = x.type.element;
  size_t rank = x.type.rank() + 1;
  Shape order = iota(rank), result(rank), from;
  std::shuffle(order.begin(), order.end(), engine);
  for (int64_t i = 0; i < x.type.rank(); ++i) {
    result[order[i]] = x.type.shape[i];
    from.push_back(order[i]);
  }
  result[order.back()] = pick(1, 5);
  if (!isSmall(result))
    return;
  TensorType type = x.type.with(result);
  std::string old = empty(type);
  std::string yielded = "%p", code;
  switch (pick(0, 3)) {
  case 0:
    if (x.type.isBit())
      break;
    code = "      %i = linalg.index " + std::to_string(pick(0, rank - 1)) +
           " : index\n";
    if (x.type.isFloat())
      code += "      %j = arith.index_cast %i : index to i64\n"
              "      %k = arith.sitofp %j : i64 to " +
              element + "\n      %s = arith.addf %p, %k : " + element + "\n";
    else
      code += "      %k = arith.index_cast %i : index to " + element +
              "\n      %s = arith.xori %p, %k : " + element + "\n";
    yielded = "%s";
    break;
  case 1: // reads what it overwrites
    old = get(type);
    code = std::string("      %s = ") +
           (x.type.isFloat() ? "arith.minimumf" : "arith.andi") +
           " %p, %q : " + element + "\n";
    yielded = "%s";
    break;
  case 2:
    if (!x.type.isInteger())
      break;
    code = "      %i = linalg.index 0 : index\n"
           "      %l = arith.constant " +
           std::to_string(result[0]) +
           " : index\n      %e = arith.subi %l, %i : index\n"
           "      %d = arith.index_cast %e : index to " +
           element + "\n      %s = arith.divsi %p, %d : " + element + "\n";
    yielded = "%s";
    break;
  }
  std::vector<std::string> iterators(rank, "\"parallel\"");
  std::string in = dims(iota(rank));
  emit("linalg.generic {indexing_maps = [affine_map<" + in + " -> " +
           dims(from) + ">, affine_map<" + in + " -> " + in +
           ">], iterator_types = [" + join(iterators) + "]} ins(" + x.name +
           " : " + x.type.text() + ") outs(" + old + " : " + type.text() +
           ") {\n    ^bb0(%p: " + element + ", %q: " + element + "):\n" + code +
           "      linalg.yield " + yielded + " : " + element + "\n  } -> " +
           type.text(),
       type);
}

/// Emits a tensor that holds, at each index of the first dimension, the number
/// of elements from there to the end: 3, 2, 1 for a size of 3. In the padding
/// it is zero or less, so a division by it traps there.
std::string LinalgGenerator::countdown(const TensorType &type) {
  std::vector<std::string> iterators(type.rank(), "\"parallel\"");
  std::string in = dims(iota(type.rank())), element = type.element;
  return helper(
      "linalg.generic {indexing_maps = [affine_map<" + in + " -> " + in +
      ">], iterator_types = [" + join(iterators) + "]} outs(" + empty(type) +
      " : " + type.text() + ") {\n    ^bb0(%q: " + element +
      "):\n      %n = arith.constant " + std::to_string(type.shape[0]) +
      " : index\n      %i = linalg.index 0 : index\n"
      "      %d = arith.subi %n, %i : index\n"
      "      %r = arith.index_cast %d : index to " +
      element + "\n      linalg.yield %r : " + element + "\n  } -> " +
      type.text());
}

/// Emits the indices 0, 1, ... of a dimension of that size. Elements in the
/// padding are indices beyond the dimension's end.
std::string LinalgGenerator::positions(int64_t size) {
  TensorType type{{size}, "i32"};
  std::string down = countdown(type);
  return helper("arith.subi " + splat(std::to_string(size), type) + ", " +
                down + " : " + type.text());
}

void LinalgGenerator::addLookup(Named x) {
  if (x.type.rank() != 1 || x.type.size() == 0)
    return;
  TensorType places{{x.type.shape[0]}, "i32"};
  const std::string &element = x.type.element;
  std::string index = positions(x.type.shape[0]);
  emit("linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, "
       "affine_map<(d0) -> (d0)>], iterator_types = [\"parallel\"]} ins(" +
           index + " : " + places.text() + ") outs(" + empty(x.type) + " : " +
           x.type.text() + ") {\n    ^bb0(%p: i32, %q: " + element +
           "):\n      %i = arith.index_cast %p : i32 to index\n"
           "      %s = tensor.extract " +
           x.name + "[%i] : " + x.type.text() +
           "\n      linalg.yield %s : " + element + "\n  } -> " + x.type.text(),
       x.type);
}
