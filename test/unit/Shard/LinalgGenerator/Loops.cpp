//===- Loops.cpp - Random programs: control flow --------------------------===//

#include "LinalgGenerator.h"

using namespace heddle;

std::string LinalgGenerator::addBody(const Named &carried, int depth,
                                     const std::string &index) {
  size_t before = values.size();
  std::string outer = counter;
  if (!index.empty())
    counter = index;
  values.push_back(carried);
  for (int64_t i = pick(0, 3); i > 0; --i)
    addOp(depth - 1);
  std::string last = carried.name;
  for (size_t i = before; i < values.size(); ++i)
    if (values[i].type == carried.type)
      last = values[i].name;
  // Keeps numbers bounded, however often the body runs.
  if (carried.type.isFloat())
    last = helper("math.tanh " + last + " : " + carried.type.text());
  values.resize(before);
  counter = outer;
  return last;
}

std::string LinalgGenerator::firstElement(const Named &x) {
  std::string indices, zero = number("0", "index");
  for (int64_t i = 0; i < x.type.rank(); ++i)
    indices += (i ? ", " : "") + zero;
  return helper("tensor.extract " + x.name + "[" + indices +
                "] : " + x.type.text());
}

std::string LinalgGenerator::addDecision(const Named &x,
                                         const std::string &element) {
  if (x.type.isFloat())
    return helper("arith.cmpf ogt, " + element + ", " +
                  helper("arith.constant 0.12345 : " + x.type.element) + " : " +
                  x.type.element);
  if (x.type.isInteger())
    return helper("arith.cmpi sgt, " + element + ", " +
                  number("1", x.type.element) + " : " + x.type.element);
  return element;
}

std::string LinalgGenerator::addCount() {
  std::string count = number(std::to_string(pick(0, 3)), "index");
  Named x = any();
  if (pick(0, 1) || x.type.size() == 0)
    return count;
  std::string condition = addDecision(x, firstElement(x)),
              other = number(std::to_string(pick(0, 3)), "index");
  return helper("arith.select " + condition + ", " + count + ", " + other +
                " : index");
}

void LinalgGenerator::addFor(Named x, int depth) {
  if (depth == 0)
    return;
  std::string type = x.type.text(), carried = "%x" + std::to_string(next++);
  std::string zero = number("0", "index"), one = number("1", "index"),
              count = addCount();
  std::string result = "%v" + std::to_string(next++);
  body += "  " + result + " = scf.for " + carried + "i = " + zero + " to " +
          count + " step " + one + " iter_args(" + carried + " = " + x.name +
          ") -> (" + type + ") {\n";
  std::string last = addBody({carried, x.type}, depth, carried + "i");
  body += "  scf.yield " + last + " : " + type + "\n  }\n";
  values.push_back({result, x.type});
}

/// Emits an `scf.while` that carries two tensors, which it swaps if their types
/// are equal, and an iteration count. The loop ends after some iterations, or
/// by a condition on an element.
void LinalgGenerator::addWhile(Named x, int depth) {
  if (depth == 0)
    return;
  Named y = any();
  std::string tx = x.type.text(), ty = y.type.text(),
              zero = number("0", "index"), one = number("1", "index"),
              count = addCount();
  std::string result = "%v" + std::to_string(next++),
              name = "%x" + std::to_string(next++);
  std::string i = name + "i", h = name + "h", g = name + "g";
  std::string forward = "index, " + ty + ", " + tx;
  body += "  " + result + ":3 = scf.while (" + h + " = " + x.name + ", " + i +
          " = " + zero + ", " + g + " = " + y.name + ") : (" + tx +
          ", index, " + ty + ") -> (" + forward + ") {\n";
  values.push_back({g, y.type});
  std::string last = addBody({h, x.type}, depth, i);
  values.pop_back();
  std::string more = helper("arith.cmpi slt, " + i + ", " + count + " : index");
  if (y.type.size() != 0 && pick(0, 1))
    more = helper("arith.andi " + more + ", " +
                  addDecision(y, firstElement({g, y.type})) + " : i1");
  body += "  scf.condition(" + more + ") " + i + ", " + g + ", " + last +
          " : " + forward + "\n  } do {\n  ^bb0(" + i + "2: index, " + g +
          "2: " + ty + ", " + h + "2: " + tx + "):\n";
  values.push_back({g + "2", y.type});
  last = addBody({h + "2", x.type}, depth, i + "2");
  values.pop_back();
  std::string following = helper("arith.addi " + i + "2, " + one + " : index");
  bool change = x.type == y.type;
  body += "  scf.yield " + (change ? g + "2" : last) + ", " + following + ", " +
          (change ? last : g + "2") + " : " + tx + ", index, " + ty + "\n  }\n";
  values.push_back({result + "#1", y.type});
  values.push_back({result + "#2", x.type});
}

void LinalgGenerator::addIf(Named x, int depth) {
  Named y = any();
  if (depth == 0 || y.type.size() == 0)
    return;
  std::string number = firstElement(y), condition;
  bool guarded = y.type.isInteger() && x.type.element == y.type.element;
  condition = guarded ? helper("arith.cmpi ne, " + number + ", " +
                               this->number("0", y.type.element) + " : " +
                               y.type.element)
                      : addDecision(y, number);
  std::string type = x.type.text(), result = "%v" + std::to_string(next++);
  std::string divisor = guarded ? "%g" + std::to_string(next++) : "";
  body += "  " + result + " = scf.if " + condition + " -> " + type + " {\n";
  std::string then = addBody(x, depth);
  if (guarded) { // divides by a number that is zero in the other branch
    body += "  " + divisor + " = tensor.splat " + number + " : " + type + "\n";
    then = helper("arith.divsi " + then + ", " + divisor + " : " + type);
  }
  body += "  scf.yield " + then + " : " + type + "\n  } else {\n";
  body += "  scf.yield " + addBody(x, depth) + " : " + type + "\n  }\n";
  values.push_back({result, x.type});
}

void LinalgGenerator::addCall() {
  if (calleeArguments.empty())
    return;
  std::string names, types, results, result = "%v" + std::to_string(next++);
  for (const TensorType &type : calleeArguments) {
    names += (names.empty() ? "" : ", ") + get(type);
    types += (types.empty() ? "" : ", ") + type.text();
  }
  for (const TensorType &type : calleeResults)
    results += (results.empty() ? "" : ", ") + type.text();
  body += "  " + result + ":2 = func.call @g(" + names + ") : (" + types +
          ") -> (" + results + ")\n";
  for (auto [i, type] : llvm::enumerate(calleeResults))
    values.push_back({result + "#" + std::to_string(i), type});
}
