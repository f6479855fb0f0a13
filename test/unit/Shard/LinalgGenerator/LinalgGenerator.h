//===- LinalgGenerator.h - Random programs of upstream ops ------*- C++ -*-===//
//
// Writes well-typed programs of linalg, tensor, arith, math, scf and func on
// odd sizes and many element types, without Heddle ops. Numbers stay bounded,
// nothing divides by zero, and no floating-point comparison depends on the
// order of a sum.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_TEST_UNIT_SHARD_LINALGGENERATOR_H
#define HEDDLE_TEST_UNIT_SHARD_LINALGGENERATOR_H

#include "../ProgramTest.h"

namespace heddle {

class LinalgGenerator : public Random {
public:
  struct Options {
    bool empty = true;  ///< generate tensors without elements
    bool halves = true; ///< generate tensors of bf16 and f16
    /// The most elements of a tensor. The interpreter takes 1 us for each.
    int64_t mostElements = 400;
  };
  explicit LinalgGenerator(uint64_t seed) : Random(seed) {}
  LinalgGenerator(uint64_t seed, const Options &options)
      : Random(seed), options(options) {}

  /// Returns the text of a program: @f with four arguments and three results,
  /// and sometimes a @g that @f calls.
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
  /// Returns the name of an old value of that type, or of a new constant.
  std::string get(const TensorType &type);
  void emit(const std::string &text, const TensorType &type);
  std::string helper(const std::string &text);
  std::string number(const std::string &text, const std::string &element);
  std::string constant(const TensorType &type);
  std::string splat(const std::string &text, const TensorType &type);
  std::string filled(const TensorType &type, const std::string &text);
  std::string empty(const TensorType &type);
  static std::string list(llvm::ArrayRef<int64_t> numbers);
  /// Returns an affine map's list of results: the dimensions `positions`.
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
  /// Emits an op whose body reads a captured tensor at an index that it
  /// computes.
  void addLookup(Named x);

  // Ops that read one value through several maps, or a value in each branch.
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
  /// Emits the ops of a region that carries `carried` and returns a value of
  /// its type that is defined there. `index` is the iteration count, or empty.
  std::string addBody(const Named &carried, int depth,
                      const std::string &index = "");
  std::string firstElement(const Named &x);
  /// Emits a condition on `element`, an element of x, and returns its name.
  std::string addDecision(const Named &x, const std::string &element);
  /// Emits a number of iterations, at most three: a constant, or one of two
  /// constants that the program selects.
  std::string addCount();

  Options options;
  std::vector<Named> values;
  std::string body;
  std::vector<TensorType> calleeArguments, calleeResults;
  std::string counter; ///< the innermost loop's index, or empty
  int next = 0;
};

} // namespace heddle

#endif // HEDDLE_TEST_UNIT_SHARD_LINALGGENERATOR_H
