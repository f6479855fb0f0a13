//===- Shapes.cpp - Random programs: changes of shape ---------------------===//

#include "LinalgGenerator.h"

using namespace heddle;

void LinalgGenerator::addPad(Named x) {
  if (x.type.rank() == 0)
    return;
  Shape low, high, result;
  std::string arguments;
  for (auto [i, size] : llvm::enumerate(x.type.shape)) {
    low.push_back(pick(0, 2));
    high.push_back(pick(0, 1));
    result.push_back(size + low.back() + high.back());
    arguments += (i ? ", %i" : "%i") + std::to_string(i) + ": index";
  }
  if (!isSmall(result))
    return;
  std::string value = number(pick(0, 1) ? "0" : "1", x.type.element);
  if (x.type.size() > 0 && pick(0, 3) == 0) { // a value that is computed
    std::string indices, zero = number("0", "index");
    for (int64_t i = 0; i < x.type.rank(); ++i)
      indices += (i ? ", " : "") + zero;
    value = helper("tensor.extract " + x.name + "[" + indices +
                   "] : " + x.type.text());
  }
  TensorType type = x.type.with(result);
  emit("tensor.pad " + x.name + " low" + list(low) + " high" + list(high) +
           " {\n    ^bb0(" + arguments + "):\n      tensor.yield " + value +
           " : " + x.type.element + "\n  } : " + x.type.text() + " to " +
           type.text(),
       type);
}

void LinalgGenerator::addSlice(Named x) {
  if (x.type.rank() == 0 || x.type.size() == 0)
    return;
  Shape sizes, strides, kept;
  std::string offsets;
  for (int64_t size : x.type.shape) {
    bool whole = pick(0, 1);
    // The loop's index as the offset: the last of at most four is 3.
    bool counted = !whole && !counter.empty() && size > 3 && pick(0, 1);
    int64_t offset = whole ? 0 : counted ? 3 : pick(0, size - 1);
    offsets += (offsets.empty() ? "" : ", ") +
               (counted ? counter : std::to_string(offset));
    strides.push_back(whole ? 1 : pick(1, 2));
    sizes.push_back(whole ? size
                          : pick(1, (size - offset - 1) / strides.back() + 1));
    if (sizes.back() != 1)
      kept.push_back(sizes.back());
  }
  std::string where = "[" + offsets + "] " + list(sizes) + " " + list(strides);
  // With or without the dimensions of size 1.
  TensorType type = x.type.with(pick(0, 1) ? sizes : kept);
  emit("tensor.extract_slice " + x.name + where + " : " + x.type.text() +
           " to " + type.text(),
       type);
  if (pick(0, 1))
    emit("tensor.insert_slice " + get(type) + " into " + x.name + where +
             " : " + type.text() + " into " + x.type.text(),
         x.type);
}

void LinalgGenerator::addConcat(Named x) {
  if (x.type.rank() == 0)
    return;
  int64_t dim = pick(0, x.type.rank() - 1);
  TensorType other = x.type, type = x.type;
  if (pick(0, 1))
    other.shape[dim] = pick(1, 4);
  type.shape[dim] += other.shape[dim];
  if (type.shape[dim] > 12 || !isSmall(type.shape))
    return;
  emit("tensor.concat dim(" + std::to_string(dim) + ") " + x.name + ", " +
           get(other) + " : (" + x.type.text() + ", " + other.text() + ") -> " +
           type.text(),
       type);
}

/// Returns the reassociation that splits the coarse dimension `at` into two:
/// [[0], [1, 2], [3]] for `coarseRank` 3 and `at` 1.
static std::string groupsOf(size_t coarseRank, size_t at) {
  std::string text = "[";
  int64_t fine = 0;
  for (size_t i = 0; i < coarseRank; ++i) {
    text += (i ? ", [" : "[") + std::to_string(fine++);
    if (i == at)
      text += ", " + std::to_string(fine++);
    text += "]";
  }
  return text + "]";
}

void LinalgGenerator::addReshape(Named x) {
  if (x.type.rank() == 0)
    return;
  if (x.type.rank() > 1 && pick(0, 1)) {
    size_t at = pick(0, x.type.rank() - 2);
    TensorType merged = x.type;
    merged.shape[at] *= merged.shape[at + 1];
    merged.shape.erase(merged.shape.begin() + at + 1);
    std::string groups = groupsOf(merged.rank(), at);
    emit("tensor.collapse_shape " + x.name + " " + groups + " : " +
             x.type.text() + " into " + merged.text(),
         merged);
    if (pick(0, 1))
      emit("tensor.expand_shape " + values.back().name + " " + groups +
               " output_shape " + list(x.type.shape) + " : " + merged.text() +
               " into " + x.type.text(),
           x.type);
    return;
  }
  size_t at = pick(0, x.type.rank() - 1);
  TensorType split = x.type;
  int64_t size = split.shape[at], inner = pick(1, 3);
  if (inner > 1 && (size == 0 || size % inner != 0))
    inner = 1;
  split.shape[at] = size / inner;
  split.shape.insert(split.shape.begin() + at + 1, inner);
  if (!isSmall(split.shape))
    return;
  emit("tensor.expand_shape " + x.name + " " + groupsOf(x.type.rank(), at) +
           " output_shape " + list(split.shape) + " : " + x.type.text() +
           " into " + split.text(),
       split);
}

void LinalgGenerator::addTranspose(Named x) {
  if (x.type.rank() == 0) // upstream's verifier crashes on it
    return;
  Shape order = iota(x.type.rank()), sizes;
  std::shuffle(order.begin(), order.end(), engine);
  for (int64_t from : order)
    sizes.push_back(x.type.shape[from]);
  TensorType type = x.type.with(sizes);
  emit("linalg.transpose ins(" + x.name + " : " + x.type.text() + ") outs(" +
           empty(type) + " : " + type.text() + ") permutation = " + list(order),
       type);
}

void LinalgGenerator::addBroadcast(Named x) {
  size_t place = pick(0, x.type.rank());
  TensorType type = x.type;
  type.shape.insert(type.shape.begin() + place, pick(1, 6));
  if (!isSmall(type.shape))
    return;
  emit("linalg.broadcast ins(" + x.name + " : " + x.type.text() + ") outs(" +
           empty(type) + " : " + type.text() +
           ") dimensions = " + list({int64_t(place)}),
       type);
}

/// Emits a gather of rows of x at indices that another value gives.
void LinalgGenerator::addGather(Named x) {
  if (x.type.rank() == 0 || x.type.rank() > 3 || x.type.size() == 0)
    return;
  TensorType places{{pick(1, 6)}, "i32"};
  if (pick(0, 1))
    places.shape.push_back(pick(1, 3));
  int64_t dim = pick(0, x.type.rank() - 1);
  std::string size = std::to_string(x.type.shape[dim]);
  std::string within = helper("arith.remui " + get(places) + ", " +
                              splat(size, places) + " : " + places.text());
  if (pick(0, 1)) { // each index once; those in the padding are out of bounds
    places.shape = {x.type.shape[dim]};
    within = positions(x.type.shape[dim]);
  }
  TensorType coordinates = places;
  coordinates.shape.push_back(1);
  std::string indices =
      helper("tensor.expand_shape " + within + " " +
             groupsOf(places.rank(), places.rank() - 1) + " output_shape " +
             list(coordinates.shape) + " : " + places.text() + " into " +
             coordinates.text());
  TensorType type = x.type.with(places.shape);
  bool keepsOne = pick(0, 1);
  for (int64_t i = 0; i < x.type.rank(); ++i)
    if (i != dim || keepsOne)
      type.shape.push_back(i == dim ? 1 : x.type.shape[i]);
  if (!isSmall(type.shape)) {
    emit("arith.addi " + within + ", " + within + " : " + places.text(),
         places);
    return;
  }
  emit("tensor.gather " + x.name + "[" + indices + "] gather_dims(" +
           list({dim}) + ") : (" + x.type.text() + ", " + coordinates.text() +
           ") -> " + type.text(),
       type);
}

/// Emits the diagonal of x along two dimensions of equal size. If x has no such
/// pair, takes the diagonal of a square matrix instead.
void LinalgGenerator::addDiagonal(Named x) {
  if (x.type.rank() == 0)
    return;
  const Shape &shape = x.type.shape;
  size_t second = 1;
  while (second < shape.size() && shape[second] != shape[0])
    ++second;
  if (second >= shape.size()) {
    Shape square = {shape[0], shape[0]};
    if (!isSmall(square))
      return;
    x = {get(x.type.with(square)), x.type.with(square)};
    second = 1;
  }
  Shape sizes, from;
  for (size_t i = 0; i < x.type.shape.size(); ++i) {
    from.push_back(i == second ? 0 : sizes.size());
    if (i != second)
      sizes.push_back(x.type.shape[i]);
  }
  TensorType type = x.type.with(sizes);
  std::string in = dims(iota(sizes.size())), iterators;
  for (size_t i = 0; i < sizes.size(); ++i)
    iterators += i ? ", \"parallel\"" : "\"parallel\"";
  emit("linalg.generic {indexing_maps = [affine_map<" + in + " -> " +
           dims(from) + ">, affine_map<" + in + " -> " + in +
           ">], iterator_types = [" + iterators + "]} ins(" + x.name + " : " +
           x.type.text() + ") outs(" + empty(type) + " : " + type.text() +
           ") {\n    ^bb0(%p: " + type.element + ", %q: " + type.element +
           "):\n      linalg.yield %p : " + type.element + "\n  } -> " +
           type.text(),
       type);
}

void LinalgGenerator::addGenerate() {
  TensorType type = anyType();
  std::string arguments, code,
      sum = counter.empty() ? number("1", "index") : counter;
  // A number from outside of the body, if any.
  std::string captured;
  if (Named y = any();
      y.type.element == type.element && !type.isBit() && y.type.size() != 0)
    captured = firstElement(y);
  for (int64_t i = 0; i < type.rank(); ++i) {
    std::string name = "%i" + std::to_string(i), last = sum;
    arguments += (i ? ", " : "") + name + ": index";
    sum = "%s" + std::to_string(i);
    code +=
        "      " + sum + " = arith.addi " + last + ", " + name + " : index\n";
  }
  if (type.isFloat())
    code += "      %j = arith.index_cast " + sum +
            " : index to i64\n      %r = arith.sitofp %j : i64 to " +
            type.element + "\n";
  else
    code += "      %r = arith.index_cast " + sum + " : index to " +
            type.element + "\n";
  if (!captured.empty())
    code += "      %q = arith." +
            std::string(type.isFloat() ? "subf" : "subi") + " %r, " + captured +
            " : " + type.element + "\n";
  emit("tensor.generate {\n    ^bb0(" + arguments + "):\n" + code +
           "      tensor.yield " + (captured.empty() ? "%r" : "%q") + " : " +
           type.element + "\n  } : " + type.text(),
       type);
}

/// Emits tensor.splat or tensor.from_elements of elements of x.
void LinalgGenerator::addElements(Named x) {
  if (x.type.size() == 0)
    return;
  std::vector<std::string> numbers;
  for (int i = 0; i < 2; ++i) {
    std::string indices;
    for (int64_t size : x.type.shape)
      indices += (indices.empty() ? "" : ", ") +
                 number(std::to_string(pick(0, size - 1)), "index");
    numbers.push_back(helper("tensor.extract " + x.name + "[" + indices +
                             "] : " + x.type.text()));
  }
  if (pick(0, 1)) {
    TensorType type = x.type.with(Shape{pick(1, 5), pick(1, 5)});
    return emit("tensor.splat " + numbers[0] + " : " + type.text(), type);
  }
  TensorType type = x.type.with(Shape{3});
  emit("tensor.from_elements " + numbers[0] + ", " + numbers[1] + ", " +
           numbers[0] + " : " + type.text(),
       type);
}
