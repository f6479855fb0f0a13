//===- Places.cpp - Random programs: one value, many maps -----------------===//

#include "LinalgGenerator.h"

using namespace heddle;

/// Returns one result of an indexing map that reads a dimension of that size,
/// for loops of the extents `loops`. A plain loop must have the dimension's
/// size, because linalg infers the loop's extent from it; `covered` records
/// such loops.
std::string LinalgGenerator::addPlace(int64_t size, const Shape &loops,
                                      size_t preferred,
                                      std::vector<bool> &covered) {
  auto name = [](size_t loop) { return "d" + std::to_string(loop); };
  auto plus = [](const std::string &text, int64_t constant) {
    return constant ? text + " + " + std::to_string(constant) : text;
  };
  for (int attempt = 0; attempt < 6; ++attempt) {
    size_t loop = attempt == 0 && preferred < loops.size() && pick(0, 1)
                      ? preferred
                      : pick(0, loops.size() - 1);
    int64_t extent = loops[loop], room = size - extent;
    switch (pick(0, 5)) {
    case 0:
    case 1:
      if (room != 0)
        break;
      covered[loop] = true;
      return name(loop);
    case 2: // from the last to the first
      if (room < 0)
        break;
      return std::to_string(extent - 1 + pick(0, room)) + " - " + name(loop);
    case 3: // a slice
      if (room < 1)
        break;
      return plus(name(loop), pick(1, room));
    case 4: { // every second element
      int64_t rest = size - 1 - 2 * (extent - 1);
      if (rest < 0)
        break;
      return plus(name(loop) + " * 2", pick(0, rest));
    }
    case 5: { // a window
      size_t other = pick(0, loops.size() - 1);
      if (other == loop || extent + loops[other] - 1 > size)
        break;
      return name(loop) + " + " + name(other);
    }
    }
  }
  return std::to_string(pick(0, size - 1));
}

/// Emits an op that reads one value, often just computed, through two or three
/// maps: identity, transposed, slices, backwards or broadcast. The op may also
/// read a sum of the value over some dimensions, and may itself sum.
void LinalgGenerator::addPlaces(Named x) {
  if (x.type.rank() == 0 || x.type.size() == 0)
    return;
  if (x.type.rank() == 2 && pick(0, 1)) { // a square can be read transposed
    int64_t size = std::min(x.type.shape[0], x.type.shape[1]);
    TensorType square = x.type.with(Shape{size, size});
    emit("tensor.extract_slice " + x.name + "[0, 0] " + list(square.shape) +
             " [1, 1] : " + x.type.text() + " to " + square.text(),
         square);
    x = values.back();
  }
  if (pick(0, 3)) {
    const char *op = x.type.isFloat() ? "arith.addf"
                     : x.type.isBit() ? "arith.xori"
                                      : "arith.addi";
    emit(std::string(op) + " " + x.name + ", " + get(x.type) + " : " +
             x.type.text(),
         x.type);
    x = values.back();
  }
  Shape loops = x.type.shape;
  if (pick(0, 2) == 0) {
    loops.clear();
    for (int64_t i = pick(1, 3); i > 0; --i)
      loops.push_back(pick(1, 5));
  }
  if (!isSmall(loops))
    return;

  const std::string &element = x.type.element;
  std::vector<std::string> maps, names, types;
  std::vector<bool> covered(loops.size());
  std::string in = dims(iota(loops.size()));
  for (int64_t i = pick(2, 3); i > 0; --i) {
    std::string map;
    for (auto [dim, size] : llvm::enumerate(x.type.shape))
      map += (dim ? ", " : "") + addPlace(size, loops, dim, covered);
    maps.push_back("(" + map + ")");
    names.push_back(x.name);
    types.push_back(x.type.text());
  }
  if (loops == x.type.shape && pick(0, 1)) { // the identity map
    maps[0] = in;
    covered.assign(loops.size(), true);
  }
  if (loops == x.type.shape && !x.type.isBit() && pick(0, 2) == 0) {
    // A further operand: the value's sum over some dimensions.
    Shape kept, over, sizes;
    for (int64_t dim = 0; dim < x.type.rank(); ++dim) {
      bool isKept = pick(0, 1);
      (isKept ? kept : over).push_back(dim);
      if (isKept)
        sizes.push_back(loops[dim]);
    }
    TensorType type = x.type.with(sizes);
    std::string init = filled(type, "0");
    std::string op = x.type.isFloat() ? "arith.addf" : "arith.addi";
    std::string sum = helper(
        "linalg.reduce ins(" + x.name + " : " + x.type.text() + ") outs(" +
        init + " : " + type.text() + ") dimensions = " + list(over) +
        "\n    (%p: " + element + ", %q: " + element + ") {\n      %r = " + op +
        " %p, %q : " + element + "\n      linalg.yield %r : " + element +
        "\n    }");
    maps.push_back(dims(kept));
    names.push_back(sum);
    types.push_back(type.text());
  }

  Shape kept, sizes;
  std::string iterators;
  bool sums = pick(0, 2) == 0;
  for (auto [loop, extent] : llvm::enumerate(loops)) {
    bool reduced = sums && covered[loop] && pick(0, 1);
    iterators += std::string(loop ? ", " : "") +
                 (reduced ? "\"reduction\"" : "\"parallel\"");
    if (reduced)
      continue;
    kept.push_back(loop);
    sizes.push_back(extent);
  }
  bool reduces = kept.size() < loops.size();
  TensorType type = x.type.with(sizes);
  std::string init = reduces ? filled(type, "0") : empty(type);

  const char *floats[] = {"arith.subf", "arith.subf", "arith.addf",
                          "arith.maximumf", "arith.mulf"};
  const char *integers[] = {"arith.subi", "arith.subi", "arith.addi",
                            "arith.maxsi", "arith.xori"};
  const char *bits[] = {"arith.xori", "arith.xori", "arith.andi", "arith.ori",
                        "arith.xori"};
  auto combine = [&](const std::string &a, const std::string &b) {
    int64_t which = pick(0, 4);
    return std::string(x.type.isFloat() ? floats[which]
                       : x.type.isBit() ? bits[which]
                                        : integers[which]) +
           " " + a + ", " + b + " : " + element;
  };
  std::string code, arguments, all, ins, inTypes, last = "%p0";
  for (size_t i = 0; i < names.size(); ++i) {
    std::string argument = "%p" + std::to_string(i);
    arguments += argument + ": " + element + ", ";
    all += "affine_map<" + in + " -> " + maps[i] + ">, ";
    ins += (i ? ", " : "") + names[i];
    inTypes += (i ? ", " : "") + types[i];
    if (i == 0)
      continue;
    std::string next = "%s" + std::to_string(i);
    code += "      " + next + " = " + combine(last, argument) + "\n";
    last = next;
  }
  if (reduces) {
    const char *op = x.type.isFloat() ? "arith.addf"
                     : x.type.isBit() ? "arith.xori"
                                      : "arith.addi";
    code += "      %r = " + std::string(op) + " %q, " + last + " : " + element +
            "\n";
    last = "%r";
  }
  emit("linalg.generic {indexing_maps = [" + all + "affine_map<" + in + " -> " +
           dims(kept) + ">], iterator_types = [" + iterators + "]} ins(" + ins +
           " : " + inTypes + ") outs(" + init + " : " + type.text() +
           ") {\n    ^bb0(" + arguments + "%q: " + element + "):\n" + code +
           "      linalg.yield " + last + " : " + element + "\n  } -> " +
           type.text(),
       type);
}

/// Emits a concatenation as an op whose body reads each part in a branch of its
/// own. In a branch that is not taken, the index lies outside of the part.
void LinalgGenerator::addBranches(Named x) {
  if (x.type.rank() == 0 || x.type.size() == 0)
    return;
  size_t along = pick(0, x.type.rank() - 1);
  std::vector<Named> parts = {x};
  TensorType type = x.type;
  for (int64_t i = pick(1, 2); i > 0; --i) {
    TensorType part = x.type;
    if (pick(0, 1))
      part.shape[along] = pick(1, 4);
    parts.push_back({get(part), part});
    type.shape[along] += part.shape[along];
  }
  if (!isSmall(type.shape))
    return;
  std::string places, code, in = dims(iota(type.rank())), iterators;
  for (int64_t dim = 0; dim < type.rank(); ++dim) {
    std::string index = "%i" + std::to_string(dim);
    code += "      " + index + " = linalg.index " + std::to_string(dim) +
            " : index\n";
    places += (dim ? ", " : "") + (dim == int64_t(along) ? "$" : index);
    iterators += dim ? ", \"parallel\"" : "\"parallel\"";
  }
  // %rN is the element if it lies in part N or a later one. %sN is its index
  // relative to the beginning of part N.
  std::function<std::string(size_t)> read = [&](size_t part) {
    std::string n = std::to_string(part);
    std::string at = part ? "%s" + n : "%i" + std::to_string(along);
    std::string place = places;
    place.replace(place.find('$'), 1, at);
    std::string element = "tensor.extract " + parts[part].name + "[" + place +
                          "] : " + parts[part].type.text() + "\n";
    if (part + 1 == parts.size())
      return "%r" + n + " = " + element;
    std::string size = std::to_string(parts[part].type.shape[along]);
    std::string next = std::to_string(part + 1), yield = "scf.yield ";
    return "%c" + n + " = arith.constant " + size + " : index\n%b" + n +
           " = arith.cmpi ult, " + at + ", %c" + n + " : index\n%r" + n +
           " = scf.if %b" + n + " -> (" + type.element + ") {\n%e" + n + " = " +
           element + yield + "%e" + n + " : " + type.element +
           "\n} else {\n%s" + next + " = arith.subi " + at + ", %c" + n +
           " : index\n" + read(part + 1) + yield + "%r" + next + " : " +
           type.element + "\n}\n";
  };
  emit("linalg.generic {indexing_maps = [affine_map<" + in + " -> " + in +
           ">], iterator_types = [" + iterators + "]} outs(" + empty(type) +
           " : " + type.text() + ") {\n    ^bb0(%q: " + type.element + "):\n" +
           code + read(0) + "      linalg.yield %r0 : " + type.element +
           "\n  } -> " + type.text(),
       type);
}
