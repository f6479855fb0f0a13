//===- HeddleWork.cpp - FLOPs and bytes of the ops ------------------------===//
//
// The work is counted for the present types, that is, for one device after
// localization. Every operand is read once and every result written once unless
// said otherwise. exp, tanh, log and the like count as kTranscendental FLOPs,
// about the cost of their polynomials.
//
//===----------------------------------------------------------------------===//

#include "LocalBuilder.h"
#include "dialects/Heddle/Contraction.h"
#include "dialects/Heddle/Heddle.h"
#include "heddle/Support/AttentionPairs.h"
#include "heddle/Support/Bytes.h"

using namespace mlir;
using namespace heddle;

static constexpr int64_t kTranscendental = 10;

static int64_t elementsOf(Value value) {
  return typeOf(value).getNumElements();
}

/// The work of an op that reads every operand once and writes every result
/// once.
static Work streaming(Operation *op, int64_t flops) {
  Work work;
  work.flops = flops;
  for (Value operand : op->getOperands())
    work.bytesRead += getBytes(operand.getType());
  for (Value result : op->getResults())
    work.bytesWritten += getBytes(result.getType());
  return work;
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

int64_t heddle::countMultiplyAdds(ContractionAttr contraction, Value lhs,
                                  Value rhs) {
  int64_t products = elementsOf(lhs);
  StringRef known = contraction.getLhs().getValue();
  for (auto [letter, size] :
       llvm::zip(contraction.getRhs().getValue(), typeOf(rhs).getShape()))
    if (!known.contains(letter))
      products *= size;
  return products;
}

Work ContractOp::getWork() {
  int64_t flops = 2 * countMultiplyAdds(getContraction(), getLhs(), getRhs());
  if (getBias())
    flops += elementsOf(getResult());
  return streaming(*this, flops);
}

/// The number of scores that an attention computes.
template <typename OpTy> static int64_t numScores(OpTy op) {
  int64_t queries = typeOf(op.getQuery()).getDimSize(1);
  int64_t keys = typeOf(op.getKey()).getDimSize(1);
  int64_t pairs =
      countAttentionPairs(queries, keys, op.getCausal(), op.getWindow());
  int64_t rows = elementsOf(op.getLse()) / std::max<int64_t>(queries, 1);
  return rows * pairs;
}

// Each score takes two products of head-size length, in q k^T and in p v.
Work AttentionOp::getWork() {
  int64_t head = typeOf(getQuery()).getShape().back();
  return streaming(*this, numScores(*this) * (4 * head + kTranscendental));
}

// Each score takes five products of head-size length: in q k^T (recomputed), in
// do v^T, and in the products that give dq, dk and dv.
Work AttentionGradOp::getWork() {
  int64_t head = typeOf(getQuery()).getShape().back();
  return streaming(*this, numScores(*this) * (10 * head + kTranscendental));
}

//===----------------------------------------------------------------------===//
// Normalization
//===----------------------------------------------------------------------===//

Work LayerNormOp::getWork() { return streaming(*this, 8 * elementsOf(getX())); }

Work LayerNormGradOp::getWork() {
  return streaming(*this, 14 * elementsOf(getX()));
}

Work RmsNormOp::getWork() { return streaming(*this, 4 * elementsOf(getX())); }

Work RmsNormGradOp::getWork() {
  return streaming(*this, 10 * elementsOf(getX()));
}

//===----------------------------------------------------------------------===//
// Vocabulary
//===----------------------------------------------------------------------===//

// Only the rows that are looked up are read from the table.
Work EmbeddingOp::getWork() {
  int64_t rows = getBytes(typeOf(getResult()));
  return {0, rows + getBytes(typeOf(getIds())), rows};
}

// With an accumulator, the rows are added in place, and only the rows that the
// ids name are written. Without one, the whole table is written once.
Work EmbeddingGradOp::getWork() {
  int64_t rows = getBytes(typeOf(getYGrad()));
  int64_t table = getBytes(typeOf(getResult()));
  Work work{elementsOf(getYGrad()), rows + getBytes(typeOf(getIds())), table};
  if (getAccumulate())
    work.bytesWritten = std::min(table, rows);
  return work;
}

Work CrossEntropyOp::getWork() {
  return streaming(*this, (kTranscendental + 2) * elementsOf(getLogits()));
}

Work CrossEntropyGradOp::getWork() {
  return streaming(*this, (kTranscendental + 2) * elementsOf(getLogits()));
}

Work LogSumExpOp::getWork() {
  return streaming(*this, (kTranscendental + 2) * elementsOf(getLogits()));
}

// Only one element of each row is read.
Work PickOp::getWork() {
  int64_t rows = getBytes(typeOf(getResult()));
  return {0, rows + getBytes(typeOf(getIds())), rows};
}

//===----------------------------------------------------------------------===//
// Shapes and reductions
//===----------------------------------------------------------------------===//

Work ReduceOp::getWork() { return streaming(*this, elementsOf(getX())); }
Work BroadcastOp::getWork() { return streaming(*this, 0); }
// Slices along the first dimension are views of the whole.
Work UnstackOp::getWork() { return {}; }
Work StackOp::getWork() { return {}; }

//===----------------------------------------------------------------------===//
// Elementwise and positional
//===----------------------------------------------------------------------===//

Work GeluOp::getWork() {
  return streaming(*this, (kTranscendental + 8) * elementsOf(getX()));
}
Work GeluGradOp::getWork() {
  return streaming(*this, (kTranscendental + 14) * elementsOf(getX()));
}
Work SiluOp::getWork() {
  return streaming(*this, (kTranscendental + 3) * elementsOf(getX()));
}
Work SiluGradOp::getWork() {
  return streaming(*this, (kTranscendental + 7) * elementsOf(getX()));
}
// Ten rounds of Philox, each about ten integer instructions an element.
Work DropoutOp::getWork() { return streaming(*this, 100 * elementsOf(getX())); }
Work RotaryTableOp::getWork() {
  return streaming(*this, (2 * kTranscendental + 2) * elementsOf(getCos()));
}
Work RotaryOp::getWork() { return streaming(*this, 3 * elementsOf(getX())); }
Work MaskPaddingOp::getWork() { return streaming(*this, 0); }
Work BarrierOp::getWork() { return {}; }
