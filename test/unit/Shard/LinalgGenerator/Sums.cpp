//===- Sums.cpp - Random programs: reductions, windows --------------------===//

#include "LinalgGenerator.h"

using namespace heddle;

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// Returns bodies that combine the element %p with the accumulator %q to %r. In
/// them $ stands for the element type.
static llvm::ArrayRef<const char *> combinersOf(bool isFloat, bool isBit) {
  static const char *floats[] = {
      "%r = arith.addf %p, %q : $",
      "%m = arith.mulf %p, %p : $\n      %r = arith.addf %m, %q : $",
      "%m = math.cos %p : $\n      %r = arith.addf %q, %m : $",
      "%r = arith.maximumf %p, %q : $",
      "%m = arith.negf %p : $\n      %r = arith.maximumf %q, %m : $",
      "%r = arith.minimumf %p, %q : $",
      "%r = arith.maxnumf %q, %p : $",
      "%r = arith.minnumf %p, %q : $",
      "%m = math.tanh %p : $\n      %r = arith.mulf %q, %m : $",
      "%r = arith.subf %q, %p : $"};
  static const char *integers[] = {
      "%r = arith.addi %p, %q : $",
      "%m = arith.muli %p, %p : $\n      %r = arith.addi %m, %q : $",
      "%m = arith.xori %p, %p : $\n      %r = arith.maxsi %m, %q : $",
      "%r = arith.maxsi %p, %q : $",
      "%r = arith.minsi %q, %p : $",
      "%r = arith.andi %p, %q : $",
      "%r = arith.ori %p, %q : $",
      "%r = arith.xori %p, %q : $",
      "%r = arith.maxui %p, %q : $",
      "%r = arith.minui %p, %q : $"};
  static const char *bits[] = {
      "%r = arith.andi %p, %q : $", "%r = arith.ori %p, %q : $",
      "%r = arith.xori %p, %q : $", "%r = arith.addi %p, %q : $",
      "%r = arith.maxui %p, %q : $"};
  if (isFloat)
    return floats;
  return isBit ? llvm::ArrayRef<const char *>(bits) : integers;
}

static std::string fill(std::string pattern, const std::string &element) {
  for (size_t at; (at = pattern.find('$')) != std::string::npos;)
    pattern.replace(at, 1, element);
  return pattern;
}

void LinalgGenerator::addReduction(Named x) {
  if (x.type.rank() == 0)
    return;
  const std::string &element = x.type.element;
  Shape kept, over, sizes;
  std::string iterators;
  for (int64_t i = 0; i < x.type.rank(); ++i) {
    bool reduced = pick(0, 1);
    iterators += std::string(i ? ", " : "") +
                 (reduced ? "\"reduction\"" : "\"parallel\"");
    (reduced ? over : kept).push_back(i);
    if (!reduced)
      sizes.push_back(x.type.shape[i]);
  }
  TensorType type = x.type.with(sizes);
  auto bodies = combinersOf(x.type.isFloat(), x.type.isBit());
  // As unsigned numbers, negative i64 are not exact in the interpreter.
  if (x.type.element == "i64")
    bodies = bodies.drop_back(2);
  std::string code = "      " +
                     fill(bodies[pick(0, bodies.size() - 1)], element) +
                     "\n      linalg.yield %r : " + element + "\n";
  const char *starts[] = {"0", "1", "-2"};
  std::string init = pick(0, 2) ? filled(type, starts[pick(0, 2)]) : get(type);
  std::string ins = " ins(" + x.name + " : " + x.type.text() + ") outs(" +
                    init + " : " + type.text() + ")";
  if (!over.empty() && pick(0, 2) == 0)
    return emit("linalg.reduce" + ins + " dimensions = " + list(over) +
                    "\n    (%p: " + element + ", %q: " + element + ") {\n" +
                    code + "    }",
                type);
  std::string in = dims(iota(x.type.rank()));
  emit("linalg.generic {indexing_maps = [affine_map<" + in + " -> " + in +
           ">, affine_map<" + in + " -> " + dims(kept) +
           ">], iterator_types = [" + iterators + "]}" + ins +
           " {\n    ^bb0(%p: " + element + ", %q: " + element + "):\n" + code +
           "  } -> " + type.text(),
       type);
}

/// Emits an op with two results: the largest element along the last dimension,
/// and its index.
void LinalgGenerator::addTwoReductions(Named x) {
  if (x.type.rank() == 0 || x.type.rank() > 3 || !x.type.isInteger())
    return;
  const std::string &element = x.type.element;
  Shape sizes(x.type.shape.begin(), x.type.shape.end() - 1);
  Shape kept = iota(sizes.size());
  TensorType type = x.type.with(sizes), places = type.with("i32");
  std::string in = dims(iota(x.type.rank())), iterators;
  for (size_t i = 0; i < sizes.size(); ++i)
    iterators += "\"parallel\", ";
  std::string first = filled(type, "-100"), second = filled(places, "0");
  std::string types = type.text() + ", " + places.text();
  std::string both = helper(
      "linalg.generic {indexing_maps = [affine_map<" + in + " -> " + in +
      ">, affine_map<" + in + " -> " + dims(kept) + ">, affine_map<" + in +
      " -> " + dims(kept) + ">], iterator_types = [" + iterators +
      "\"reduction\"]} ins(" + x.name + " : " + x.type.text() + ") outs(" +
      first + ", " + second + " : " + types + ") {\n    ^bb0(%p: " + element +
      ", %q: " + element + ", %w: i32):\n      %i = linalg.index " +
      std::to_string(sizes.size()) +
      " : index\n      %j = arith.index_cast %i : index to i32\n"
      "      %c = arith.cmpi sgt, %p, %q : " +
      element + "\n      %m = arith.select %c, %p, %q : " + element +
      "\n      %n = arith.select %c, %j, %w : i32\n      linalg.yield %m, %n "
      ": " +
      element + ", i32\n  } -> (" + types + ")");
  // Gives the op that the helper has emitted two results instead of one.
  body.replace(body.rfind("  " + both + " = "), both.size() + 5,
               "  " + both + ":2 = ");
  values.push_back({both + "#0", type});
  values.push_back({both + "#1", places});
}

void LinalgGenerator::addSoftmax(Named x) {
  if (x.type.rank() == 0 || !x.type.isFloat())
    return;
  std::string type = x.type.text();
  emit("linalg.softmax dimension(" +
           std::to_string(pick(0, x.type.rank() - 1)) + ") ins(" + x.name +
           " : " + type + ") outs(" + empty(x.type) + " : " + type + ") -> " +
           type,
       x.type);
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

void LinalgGenerator::addProduct(Named x) {
  if (x.type.isBit() || x.type.rank() < 1 || x.type.rank() > 2)
    return;
  const Shape &s = x.type.shape;
  std::string op;
  Shape other, result;
  int64_t n = pick(1, 5);
  if (x.type.rank() == 1) {
    if (pick(0, 1)) {
      op = "dot";
      other = s;
    } else {
      op = "vecmat";
      other = {s[0], n};
      result = {n};
    }
  } else {
    switch (pick(0, 3)) {
    case 0:
      op = "matvec";
      other = {s[1]};
      result = {s[0]};
      break;
    case 1:
      op = "matmul";
      other = {s[1], n};
      result = {s[0], n};
      break;
    case 2:
      op = "matmul_transpose_a";
      other = {s[0], n};
      result = {s[1], n};
      break;
    case 3:
      op = "matmul_transpose_b";
      other = pick(0, 1) ? s : Shape{n, s[1]};
      result = {s[0], other[0]};
      break;
    }
  }
  TensorType right = x.type.with(other), type = x.type.with(result);
  if (x.type.element == "i8") // as quantized networks sum
    type.element = "i32";
  std::string init = pick(0, 3)   ? filled(type, "0")
                     : pick(0, 1) ? filled(type, "2")
                                  : get(type);
  emit("linalg." + op + " ins(" + x.name + ", " + get(right) + " : " +
           x.type.text() + ", " + right.text() + ") outs(" + init + " : " +
           type.text() + ") -> " + type.text(),
       type);
}

void LinalgGenerator::addBatchProduct(Named x) {
  if (x.type.isBit() || x.type.rank() != 3)
    return;
  const Shape &s = x.type.shape;
  int64_t n = pick(1, 4);
  std::string op;
  Shape other, result;
  switch (pick(0, 5)) {
  case 0:
    op = "batch_matmul";
    other = {s[0], s[2], n};
    result = {s[0], s[1], n};
    break;
  case 1:
    op = "batch_matmul_transpose_a";
    other = {s[0], s[1], n};
    result = {s[0], s[2], n};
    break;
  case 2:
    op = "batch_matmul_transpose_b";
    other = s;
    result = {s[0], s[1], s[1]};
    break;
  case 3:
    op = "batch_matvec";
    other = {s[0], s[2]};
    result = {s[0], s[1]};
    break;
  case 4:
    op = "batch_reduce_matmul";
    other = {s[0], s[2], n};
    result = {s[1], n};
    break;
  case 5:
    op = "batch_vecmat"; // the vectors come first
    other = {s[0], s[1]};
    result = {s[0], s[2]};
    break;
  }
  TensorType right = x.type.with(other), type = x.type.with(result);
  std::string second = get(right), init = filled(type, pick(0, 2) ? "0" : "1");
  std::string ins =
      op == "batch_vecmat"
          ? second + ", " + x.name + " : " + right.text() + ", " + x.type.text()
          : x.name + ", " + second + " : " + x.type.text() + ", " +
                right.text();
  emit("linalg." + op + " ins(" + ins + ") outs(" + init + " : " + type.text() +
           ") -> " + type.text(),
       type);
}

//===----------------------------------------------------------------------===//
// Windows
//===----------------------------------------------------------------------===//

/// Emits a convolution that slides a window over all dimensions.
void LinalgGenerator::addConvolution(Named x) {
  if (x.type.rank() < 1 || x.type.rank() > 3 || x.type.isBit() ||
      x.type.size() == 0)
    return;
  Shape window, sizes;
  for (int64_t size : x.type.shape) {
    window.push_back(pick(1, std::min<int64_t>(size, 4)));
    sizes.push_back(size - window.back() + 1);
  }
  TensorType filter = x.type.with(window), type = x.type.with(sizes);
  std::string init = filled(type, pick(0, 2) ? "0" : "-1");
  emit("linalg.conv_" + std::to_string(x.type.rank()) + "d ins(" + x.name +
           ", " + get(filter) + " : " + x.type.text() + ", " + filter.text() +
           ") outs(" + init + " : " + type.text() + ") -> " + type.text(),
       type);
}

/// Emits a convolution with channels, strides and dilations.
void LinalgGenerator::addChannelConvolution(Named x) {
  if (x.type.rank() < 3 || x.type.isBit() || x.type.size() == 0)
    return;
  bool is1d = x.type.rank() == 3, channelsFirst = pick(0, 2) == 0;
  bool depthwise = !channelsFirst && pick(0, 2) == 0;
  const Shape &s = x.type.shape;
  int64_t channels = channelsFirst ? s[1] : s.back(), out = pick(1, 4);
  Shape window, result = {s[0]}, strides, dilations;
  if (channelsFirst)
    result.push_back(out);
  for (int64_t i = 0; i < x.type.rank() - 2; ++i) {
    int64_t size = s[i + (channelsFirst ? 2 : 1)];
    strides.push_back(pick(1, 2));
    dilations.push_back(pick(1, 2));
    window.push_back(pick(1, 3));
    if ((window.back() - 1) * dilations.back() >= size)
      window.back() = 1;
    int64_t reach = (window.back() - 1) * dilations.back() + 1;
    result.push_back((size - reach) / strides.back() + 1);
  }
  Shape filter = window;
  std::string op;
  if (depthwise) {
    result.push_back(channels);
    filter.push_back(channels);
    op = is1d ? "depthwise_conv_1d_nwc_wc" : "depthwise_conv_2d_nhwc_hwc";
  } else if (channelsFirst) {
    filter.insert(filter.begin(), {out, channels});
    op = is1d ? "conv_1d_ncw_fcw" : "conv_2d_nchw_fchw";
  } else {
    result.push_back(out);
    filter.append({channels, out});
    op = is1d ? "conv_1d_nwc_wcf" : "conv_2d_nhwc_hwcf";
  }
  TensorType weights = x.type.with(filter), type = x.type.with(result);
  auto dense = [&](const Shape &numbers) {
    return "dense<" + list(numbers) + "> : tensor<" +
           std::to_string(numbers.size()) + "xi64>";
  };
  std::string init = filled(type, pick(0, 2) ? "0" : "1");
  emit("linalg." + op + " {strides = " + dense(strides) +
           ", dilations = " + dense(dilations) + "} ins(" + x.name + ", " +
           get(weights) + " : " + x.type.text() + ", " + weights.text() +
           ") outs(" + init + " : " + type.text() + ") -> " + type.text(),
       type);
}

void LinalgGenerator::addPooling(Named x) {
  if (x.type.rank() < 3 || x.type.isBit() || x.type.size() == 0)
    return;
  bool is1d = x.type.rank() == 3;
  Shape window, result = {x.type.shape[0]}, strides, dilations;
  for (int64_t i = 0; i < x.type.rank() - 2; ++i) {
    int64_t size = x.type.shape[i + 1];
    strides.push_back(pick(1, 2));
    dilations.push_back(pick(1, 2));
    window.push_back(pick(1, 3));
    if ((window.back() - 1) * dilations.back() >= size)
      window.back() = 1;
    result.push_back((size - (window.back() - 1) * dilations.back() - 1) /
                         strides.back() +
                     1);
  }
  result.push_back(x.type.shape.back());
  TensorType shape{window, x.type.element}, type = x.type.with(result);
  const char *kinds[] = {"max", "sum", "min"};
  const char *starts[] = {"-10", "0", "10"};
  int64_t kind = pick(0, 2);
  auto dense = [&](const Shape &numbers) {
    return "dense<" + list(numbers) + "> : tensor<" +
           std::to_string(numbers.size()) + "xi64>";
  };
  std::string init = filled(type, starts[kind]);
  emit(std::string("linalg.pooling_") + (is1d ? "nwc_" : "nhwc_") +
           kinds[kind] + " {strides = " + dense(strides) +
           ", dilations = " + dense(dilations) + "} ins(" + x.name + ", " +
           empty(shape) + " : " + x.type.text() + ", " + shape.text() +
           ") outs(" + init + " : " + type.text() + ") -> " + type.text(),
       type);
}
