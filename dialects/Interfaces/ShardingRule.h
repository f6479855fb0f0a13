//===- ShardingRule.h - The loops of an op over its tensors -----*- C++ -*-===//
//
// A sharding rule describes an op as a perfect loop nest. Each loop is a
// *factor* with a size and a kind. For each dimension of each operand and
// result, the rule lists the factors that run over it, major to minor. The list
// has more than one factor for a merged dimension of a reshape.
//
// Example: heddle.contract [bsh, hf -> bsf] on 4x256x768 and 768x3072 has
//   factors   b=4 parallel, s=256 parallel, h=768 sum, f=3072 parallel
//   operands  [[b],[s],[h]], [[h],[f]]
//   results   [[b],[s],[f]]
// Splitting h over a mesh axis leaves every device with a partial sum of the
// result; splitting any other factor splits the result along it.
//
// Propagation, partitioning, planning and sub-batching derive from rules alone.
// The idea is that of Shardy's sharding rules (openxla/shardy,
// OpShardingRuleAttr).
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_DIALECTS_INTERFACES_SHARDINGRULE_H
#define HEDDLE_DIALECTS_INTERFACES_SHARDINGRULE_H

#include "mlir/IR/Builders.h"
#include "mlir/IR/Value.h"
#include "llvm/ADT/SmallVector.h"
#include <optional>
#include <string>

namespace heddle {

/// How the results change when a factor is split over devices.
enum class FactorKind {
  Parallel,  ///< each device computes its own part of the results
  Sum,       ///< each device holds a partial sum of the results
  Max,       ///< each device holds a partial maximum of the results
  Combine,   ///< the op's own localization combines the devices' parts
  Replicate, ///< the factor must not be split
};

/// The content of the results along a split factor's padding (the rows beyond
/// the global size), where linearity does not determine it.
enum class PaddingRule {
  None,               ///< nothing is known
  ZeroIfOperandsZero, ///< zero if it is zero in every operand with the factor
  Zero,               ///< zero whatever the operands hold there
  NeverZero,          ///< not zero, as computed from other rows (windows)
};

/// The meaning of a factor in a model. Standard plans choose factors by role;
/// plan files name factors by their names.
enum class FactorRole {
  None,
  Batch,
  Sequence,     ///< positions of tokens; in attention, those of the queries
  Groups,       ///< groups of heads that share keys and values, or single heads
  GroupMembers, ///< heads of each group
  Features,     ///< hidden features of a feed-forward block
  Vocabulary,
};

/// The role of the factors with this name in Heddle's dialect: Batch for b,
/// Sequence for s, Groups for n, GroupMembers for r, Features for f, Vocabulary
/// for v, and None for any other name.
FactorRole getConventionalRole(llvm::StringRef name);

struct Factor {
  std::string name; ///< a letter that plans speak of; empty if it has none
  int64_t size = 1;
  /// Sum and Max describe the results that the factor does not run over.
  FactorKind kind = FactorKind::Parallel;
  PaddingRule padding = PaddingRule::None;
  /// The op's own localization keeps the factor's padding out of its results,
  /// so that no operand has to be masked for it.
  bool masksItself = false;
  /// Only a plan splits the factor; propagation does not.
  bool onlyByPlan = false;
  FactorRole role = FactorRole::None;
};

/// Operands in which the op is jointly linear while all other operands are
/// fixed: f(x + x', y + y') = f(x, y) + f(x', y'). addf has one group {0, 1},
/// mulf the groups {0} and {1}. Partial sums and zero padding pass through an
/// op along one group. If a factor of kind Sum is split, the operands of the
/// group that the factor does not run over (an accumulator) must be partial
/// sums, too.
struct LinearGroup {
  llvm::SmallVector<unsigned, 2> operands;
  /// The results that are linear in the operands; empty means all.
  llvm::SmallVector<unsigned, 1> results = {};

  bool coversResult(unsigned result) const {
    return results.empty() || llvm::is_contained(results, result);
  }
};

/// Indices into ShardingRule::factors, major to minor. Empty for a dimension of
/// size 1, or for a dimension that no factor runs over: such a dimension is
/// never split. An operand's dimension may have another size than its only
/// factor (the input of a convolution). It is split as the factor is, and the
/// op's localization fetches the missing rows from the neighbouring devices.
using DimensionFactors = llvm::SmallVector<unsigned, 1>;
/// One entry for each dimension; empty for scalars and values that are not
/// tensors.
using TensorFactors = llvm::SmallVector<DimensionFactors, 4>;

struct ShardingRule {
  llvm::SmallVector<Factor> factors;
  llvm::SmallVector<TensorFactors> operands;
  llvm::SmallVector<TensorFactors> results;
  llvm::SmallVector<LinearGroup, 2> linear;
  /// If the padding of every operand is zero, so is the padding of every result
  /// (gelu; not exp). Not needed where `linear` says so already.
  bool preservesZeroPadding = false;
  /// If all operands are finite, so are all results (addition; not division or
  /// log).
  bool keepsFinite = false;
  /// Two factors that may be split over the same axes, as queries s and keys t
  /// in ring attention. Each device then has its own part of both, and the op's
  /// localization combines every part of one factor with every part of the
  /// other.
  std::optional<std::pair<unsigned, unsigned>> meet;
  /// Partial sums may pass through (along `linear`) because the op is cheap: a
  /// reduction after it costs no more than before it.
  bool defersPartialSums = false;

  /// The factor with that name, if there is one.
  std::optional<unsigned> getFactor(llvm::StringRef name) const;
  /// The first factor with that role, if there is one.
  std::optional<unsigned> getFactor(FactorRole role) const;
  /// Adds a factor and returns its index. Its role is the conventional one of
  /// its name.
  unsigned addFactor(llvm::StringRef name, int64_t size, FactorKind kind);
  /// The rule of an elementwise op: one unnamed parallel factor a dimension;
  /// operands of rank 0 are shared by all devices.
  static ShardingRule elementwise(mlir::Operation *op);
  /// Whether the factor runs over the tensor.
  static bool runsOver(const TensorFactors &tensor, unsigned factor);
};

/// The interface through which an op rewrites itself for one device. The
/// localizing pass owns it; it is valid during the call of `localize`.
class Localizer {
public:
  virtual ~Localizer() = default;

  mlir::OpBuilder &builder;
  /// The op's operands, already local. Their padding along factors of kind Sum
  /// or Max is neutral.
  mlir::ValueRange operands;
  /// The local types that the results must have.
  mlir::TypeRange resultTypes;

  /// Whether the factor is split over devices.
  virtual bool isSplit(unsigned factor) const = 0;
  /// Whether the factor is split and some device holds padding along it.
  virtual bool isPadded(unsigned factor) const = 0;
  /// The global index (of type index) of this device's first element along the
  /// factor; a constant 0 if it is not split.
  virtual mlir::Value getOffset(unsigned factor) = 0;
  /// Combines `value` over the devices among which the factor is split.
  virtual mlir::Value allReduce(mlir::Value value, FactorKind kind,
                                unsigned factor) = 0;
  /// The number of devices among which the factor is split.
  virtual int64_t getDegree(unsigned factor) const = 0;
  /// This device's index (of type index) among the devices that split the
  /// factor.
  virtual mlir::Value getIndex(unsigned factor) = 0;
  /// Exchanges values among the devices that split the factor: device i
  /// receives the value of device sources[i].
  virtual mlir::Value permute(mlir::Value value,
                              llvm::ArrayRef<int64_t> sources,
                              unsigned factor) = 0;
  /// Whether the two factors of the rule's `meet` are split over the same axes.
  virtual bool doFactorsMeet() const = 0;

protected:
  Localizer(mlir::OpBuilder &builder, mlir::ValueRange operands,
            mlir::TypeRange resultTypes)
      : builder(builder), operands(operands), resultTypes(resultTypes) {}
};

/// The usual localization: the same op on the local operands and types.
llvm::SmallVector<mlir::Value> localizeByCloning(mlir::Operation *op,
                                                 Localizer &localizer);
/// Clones the op onto these operands instead of the localizer's.
llvm::SmallVector<mlir::Value> localizeByCloning(mlir::Operation *op,
                                                 Localizer &localizer,
                                                 mlir::ValueRange operands);

} // namespace heddle

#endif // HEDDLE_DIALECTS_INTERFACES_SHARDINGRULE_H
