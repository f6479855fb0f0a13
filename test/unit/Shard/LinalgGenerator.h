//===- LinalgGenerator.h - Random programs of upstream ops ------*- C++ -*-===//
//
// Writes well-typed programs of linalg, tensor, arith, math, scf and func on
// awkward sizes and on many element types, without any Heddle op. No number
// grows without bounds, nothing divides by zero, and no comparison of floating
// point hangs on the order of a sum.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_SHARD_LINALGGENERATOR_H
#define HEDDLE_TEST_UNIT_SHARD_LINALGGENERATOR_H

#include "ProgramTest.h"

namespace heddle {

class LinalgGenerator : public Random {
public:
  struct Options {
    bool empty = true;  ///< tensors without elements
    bool halves = true; ///< bf16 and f16
    /// In a tensor. The interpreter takes a microsecond for each.
    int64_t mostElements = 400;
  };
  explicit LinalgGenerator(uint64_t seed) : Random(seed) {}
  LinalgGenerator(uint64_t seed, const Options &options)
      : Random(seed), options(options) {}

  /// @f with four arguments and three results, and at times a @g that it calls.
  std::string run(int numOps);

private:
  using Shape = llvm::SmallVector<int64_t>;
  struct TensorType {
    Shape shape;
    std::string element;
    bool operator==(const TensorType &other) const = default;
    TensorType with(Shape other) const { return {std::move(other), element}; }
    TensorType with(std::string other) const {
      return {shape, std::move(other)};
    }
    int64_t rank() const { return shape.size(); }
    int64_t size() const;
    bool isFloat() const { return element[0] == 'f' || element[0] == 'b'; }
    bool isBit() const { return element == "i1"; }
    bool isInteger() const { return !isFloat() && !isBit(); }
    std::string text() const;
  };
  /// A value of the program.
  struct Named {
    std::string name;
    TensorType type;
  };

  // Functions and their values.
  std::string addFunction(const std::string &name, int arguments, int results,
                          int numOps);
  TensorType anyType();
  std::string anyElement();
  const Named &any() { return values[pick(0, values.size() - 1)]; }
  /// One with that type: an old value, or a constant.
  std::string get(const TensorType &type);
  void emit(const std::string &text, const TensorType &type);
  std::string helper(const std::string &text);
  std::string number(const std::string &text, const std::string &element);
  std::string constant(const TensorType &type);
  std::string splat(const std::string &text, const TensorType &type);
  std::string filled(const TensorType &type, const std::string &text);
  std::string empty(const TensorType &type);
  static std::string list(llvm::ArrayRef<int64_t> numbers);
  /// Loops as an affine map's result list.
  static std::string dims(llvm::ArrayRef<int64_t> positions);
  static Shape iota(size_t count);
  bool isSmall(const Shape &shape) const;

  void addOp(int depth);

  // Elementwise.
  void addElementwise(Named x);
  void addFloat(Named x);
  void addInteger(Named x);
  void addBit(Named x);
  void addConversion(Named x);
  void addSelect(Named x);
  void addNamedElementwise(Named x);
  void addMap(Named x);
  void addGeneric(Named x);
  std::string countdown(const TensorType &type);
  std::string positions(int64_t size);
  /// Reads a captured tensor at a place that the body computes.
  void addLookup(Named x);

  // One value through several maps; several values, one in each branch.
  void addPlaces(Named x);
  void addBranches(Named x);
  std::string addPlace(int64_t size, const Shape &loops, size_t preferred,
                       std::vector<bool> &covered);

  // Reductions, products, windows.
  void addReduction(Named x);
  void addTwoReductions(Named x);
  void addSoftmax(Named x);
  void addProduct(Named x);
  void addBatchProduct(Named x);
  void addConvolution(Named x);
  void addChannelConvolution(Named x);
  void addPooling(Named x);

  // Changes of shape.
  void addPad(Named x);
  void addSlice(Named x);
  void addConcat(Named x);
  void addReshape(Named x);
  void addTranspose(Named x);
  void addBroadcast(Named x);
  void addDiagonal(Named x);
  void addGather(Named x);
  void addGenerate();
  void addElements(Named x);

  // Control flow.
  void addFor(Named x, int depth);
  void addWhile(Named x, int depth);
  void addIf(Named x, int depth);
  void addCall();
  /// Ops in a region, of which an index counts the iterations; returns a value
  /// of the type that lives there.
  std::string addBody(const Named &carried, int depth,
                      const std::string &index = "");
  std::string firstElement(const Named &x);
  /// A condition that an element of x decides.
  std::string addDecision(const Named &x, const std::string &element);
  /// At most three: known, or one of two.
  std::string addCount();

  Options options;
  std::vector<Named> values;
  std::string body;
  std::vector<TensorType> calleeArguments, calleeResults;
  std::string counter; ///< of the innermost loop's iterations, or empty
  int next = 0;
};

} // namespace heddle

#endif // HEDDLE_TEST_UNIT_SHARD_LINALGGENERATOR_H
