//===- ModelBuilder.h - Named layers of a forward program -------*- C++ -*-===//
//
// Builds a forward program module by module, for all families. Each function
// adds the ops of one module of the source model, with the module's name, and
// declares the module's parameters.
//
// Factor letters: b batch, s sequence, n heads (key/value groups), r query
// heads of a group, d head size, h hidden, f feed-forward, v vocabulary, c the
// query/key/value triple.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_MODELBUILDER_H
#define HEDDLE_LIB_IMPORT_MODELBUILDER_H

#include "dialects/Heddle/Heddle.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include "llvm/ADT/StringSet.h"

#include <optional>
#include <string>

namespace heddle {

/// Activation functions, named as in transformers.
enum class Activation { Gelu, GeluTanh, Relu, Silu };
/// Returns the activation of that name; nullopt if it is not supported.
/// `supportedActivations` lists the supported names, for messages.
std::optional<Activation> parseActivation(llvm::StringRef name);
extern const llvm::StringLiteral supportedActivations;

/// A parameter: a variable, and the checkpoint tensor that it is a reshape of.
struct Parameter {
  /// Name without the family's prefix: "h.0.attn.c_attn.weight".
  std::string name;
  llvm::SmallVector<int64_t> shape;
  InitAttr init;
  /// Shape of the tensor in the file; empty if it is `shape`.
  llvm::SmallVector<int64_t> checkpointShape = {};
  /// Whether the name in the file has the family's prefix. The head's name does
  /// not.
  bool hasPrefix = true;
};

class ModelBuilder {
public:
  /// Begins @forward. `prefix` is the base model's prefix in checkpoints, with
  /// its dot ("transformer.").
  ModelBuilder(mlir::MLIRContext &context, llvm::StringRef family,
               llvm::StringRef prefix, int64_t batch, int64_t sequence,
               int64_t seed);

  mlir::OpBuilder builder;
  const int64_t batch, sequence;

  mlir::Value tokens() { return forward.getArgument(0); }

  InitAttr zeros();
  InitAttr ones();
  InitAttr normal(double standardDeviation);
  mlir::RankedTensorType f32(llvm::ArrayRef<int64_t> shape);

  /// Loads a parameter, and declares it at the first load.
  mlir::Value load(const Parameter &parameter);

  /// Builds the product of x and `weight`. `letters` is like "bsh, hf -> bsf".
  mlir::Value linear(llvm::StringRef name, llvm::StringRef letters,
                     mlir::Value x, const Parameter &weight);
  /// Builds x + bias, with the name NAME.bias. The bias has the dimensions
  /// `along` of x.
  mlir::Value addBias(llvm::StringRef name, mlir::Value x,
                      const Parameter &bias, llvm::ArrayRef<int64_t> along);
  mlir::Value embedding(llvm::StringRef name, const Parameter &table,
                        mlir::Value ids);
  /// Normalizes the last dimension; parameters NAME.weight and NAME.bias.
  mlir::Value layerNorm(llvm::StringRef name, mlir::Value x, double epsilon);
  /// Normalizes the last dimension; parameter NAME.weight.
  mlir::Value rmsNorm(llvm::StringRef name, mlir::Value x, double epsilon);
  mlir::Value activate(llvm::StringRef name, Activation activation,
                       mlir::Value x);
  /// Builds a dropout; returns x if the rate is 0.
  mlir::Value dropout(llvm::StringRef name, mlir::Value x, double rate);
  /// Builds causal attention over q [b,s,n,d] or [b,s,n,r,d], k and v
  /// [b,t,n,d].
  mlir::Value attention(llvm::StringRef name, mlir::Value q, mlir::Value k,
                        mlir::Value v, double scale, double dropoutRate);
  /// Build a + b and a * b, with the given name.
  mlir::Value add(llvm::StringRef name, mlir::Value a, mlir::Value b);
  mlir::Value multiply(llvm::StringRef name, mlir::Value a, mlir::Value b);

  /// Names an op of another dialect and returns its result.
  mlir::Value named(llvm::StringRef name, mlir::Operation *op);

  /// Adds the cross-entropy of the logits [b,s,v] and ends @forward.
  mlir::OwningOpRef<mlir::ModuleOp> finish(mlir::Value logits);

private:
  mlir::Location at(llvm::StringRef name);
  mlir::Value step();

  mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::func::FuncOp forward;
  std::string prefix;
  int64_t seed;
  mlir::Value stepValue;
  llvm::StringSet<> declared;
};

} // namespace heddle

#endif // HEDDLE_LIB_IMPORT_MODELBUILDER_H
