//===- HeddleDiscardableAttrs.cpp - Attributes with our prefix ------------===//
//
// Checks the attributes with the dialect's prefix on ops, arguments and results
// of any dialect. A name that is not listed is an error, because passes would
// ignore a misspelt sharding in silence.
//
//===----------------------------------------------------------------------===//

#include "dialects/Heddle/Heddle.h"
#include "dialects/Heddle/StageTable.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace heddle;

namespace {

/// The places where an attribute may stand. A port is an argument or result.
enum Place : unsigned { OnOp = 1, OnModule = 2, OnPort = 4 };

/// One attribute that the dialect knows. `isValid` checks the attribute alone;
/// passes check the constraints that depend on the mesh and the op. `expected`
/// completes the message "expected NAME to be".
struct DiscardableAttr {
  StringLiteral name;
  unsigned places;
  bool (*isValid)(Attribute);
  StringLiteral expected;
};

} // namespace

template <typename T> static bool isOne(Attribute attribute) {
  return isa<T>(attribute);
}

template <typename... Ts> static bool isListOf(Attribute attribute) {
  auto list = dyn_cast<ArrayAttr>(attribute);
  return list && llvm::all_of(list, [](Attribute a) { return isa<Ts...>(a); });
}

template <typename... Ts> static bool isOneOrList(Attribute attribute) {
  return isa<Ts...>(attribute) || isListOf<Ts...>(attribute);
}

static bool isPriority(Attribute attribute) {
  auto number = dyn_cast<IntegerAttr>(attribute);
  return number && number.getType().isSignlessInteger(64) &&
         number.getInt() >= 0 && number.getInt() <= 65536;
}

static bool isPositive(Attribute attribute) {
  auto number = dyn_cast<IntegerAttr>(attribute);
  return number && number.getType().isSignlessInteger(64) &&
         number.getInt() >= 1;
}

/// Returns whether the attribute is a number of parts or the size of each, with
/// a sum that is an int64_t.
static bool isParts(Attribute attribute) {
  auto sizes = dyn_cast<DenseI64ArrayAttr>(attribute);
  if (!sizes)
    return isPositive(attribute);
  int64_t sum = 0;
  return !sizes.empty() && llvm::all_of(sizes.asArrayRef(), [&](int64_t size) {
    return size >= 1 && !llvm::AddOverflow(sum, size, sum);
  });
}

static bool isFactors(Attribute attribute) {
  auto factors = dyn_cast<FactorShardingAttr>(attribute);
  llvm::SmallDenseSet<StringAttr> names;
  return factors && llvm::all_of(factors.getFactors(), [&](FactorAxesAttr f) {
           return names.insert(f.getFactor()).second;
         });
}

static bool isTensorType(Attribute attribute) {
  auto type = dyn_cast<TypeAttr>(attribute);
  return type && isa<RankedTensorType>(type.getValue());
}

static constexpr StringLiteral kASharding =
    "a sharding, such as #heddle.sharding<@mesh, [{\"x\"}, {}]>";

static constexpr DiscardableAttr kKnown[] = {
    {kShardingAttrName, OnPort, isOne<ShardingAttr>, kASharding},
    {kShardingAttrName, OnOp, isOneOrList<ShardingAttr>,
     "a sharding, or a list of one for each tensor that the op makes"},
    {kFactorsAttrName, OnOp, isFactors,
     "axes of factors, each once, such as #heddle.factors<[\"b\" = {\"x\"}]>"},
    {kPinAttrName, OnOp, isOneOrList<ShardingAttr, UnitAttr>,
     "a sharding, or a list of a sharding or unit for each result"},
    {kPriorityAttrName, OnOp | OnPort, isPriority, "an i64 from 0 to 65536"},
    {kCarriedAttrName, OnOp, isListOf<ShardingAttr>, "a list of shardings"},
    {kNameAttrName, OnOp | OnPort, isOne<StringAttr>, "a string"},
    {kRoleAttrName, OnPort, isOne<PortRoleAttr>,
     "a role, such as #heddle.port_role<features>"},
    {kRoleAttrName, OnOp, isOne<ProgramRoleAttr>,
     "a role, such as #heddle.program_role<step>"},
    {kRanksAttrName, OnOp | OnPort, isOne<RanksAttr>,
     "a set of ranks, such as #heddle.ranks<@mesh, {\"pp\" = [0]}>"},
    {kGroupAttrName, OnOp, isOne<GroupAttr>,
     "a group, such as #heddle.group<@learning_rate.0, decay 1.0e-02>"},
    {kStageAttrName, OnOp, isPriority, "an i64 from 0 to 65536"},
    {kPipelineAttrName, OnModule, isOne<PipelineAttr>,
     "a pipeline, such as #heddle.pipeline<\"pp\", one_f_one_b, stages 4>"},
    {kStageTableAttrName, OnModule, isOne<StringAttr>, "a string"},
    {kNoStepBarrierAttrName, OnModule, isOne<UnitAttr>, "a unit"},
    {kStageProgramAttrName, OnOp, isOne<StageProgramAttr>,
     "a part of an entry point, such as #heddle.stage_program<\"step\", "
     "forward, stage 0>"},
    {kServesAttrName, OnOp, isOne<ServesAttr>,
     "names of operators, such as #heddle.serves<activation "
     "[\"h.0.mlp.c_fc\"]>"},
    {kSplitAttrName, OnOp, isOne<SplitAttr>,
     "slices of a factor, such as #heddle.split<\"h\", 4, sharded 4>"},
    {kStorageAxesAttrName, OnOp, isOne<ShardingAttr>, kASharding},
    {kGlobalTypeAttrName, OnPort, isTensorType, "the type of a ranked tensor"},
    {kModelAttrName, OnModule, isOne<StringAttr>, "a string"},
    {kWeightsAttrName, OnModule, isOne<StringAttr>, "a string"},
    {kConfigAttrName, OnModule, isOne<StringAttr>, "a string"},
    {kMicroBatchesAttrName, OnModule, isOne<IntegerAttr>, "an integer"},
    {kHierarchyAttrName, OnModule, isOne<HierarchyAttr>,
     "#heddle.hierarchy<auto>, <always> or <never>"},
    {kReduceGradientsAttrName, OnModule, isOne<GradientReductionAttr>,
     "#heddle.gradient_reduction<step> or <micro_batch>"},
    {kSubBatchesAttrName, OnModule, isParts,
     "a positive i64, or an array<i64> of positive sizes with a sum below "
     "2^63"},
    {kTargetGpuAttrName, OnModule, isOne<StringAttr>, "a string"},
    {kPhaseAttrName, OnModule, isOne<StringAttr>, "a string"},
    {kPlanAttrName, OnModule, isOne<StringAttr>, "a string"},
    {kProgramHashAttrName, OnModule, isOne<StringAttr>, "a string"},
    {kKernelAttrName, OnOp, isOne<UnitAttr>, "nothing but its name"},
    {kRowDimsAttrName, OnOp, isOne<IntegerAttr>, "an integer"},
    {kBlocksAttrName, OnOp, isOne<IntegerAttr>, "an integer"},
    {kGrainAttrName, OnOp, isOne<IntegerAttr>, "an integer"},
    {kInplaceAttrName, OnOp, isListOf<DenseI64ArrayAttr>,
     "a list of operands for each result"},
};

LogicalResult
heddle::verifyRanks(Operation *from, RanksAttr ranks,
                    function_ref<InFlightDiagnostic()> emitError) {
  MeshOp mesh = lookupMesh(from, ranks.getMesh());
  if (!mesh)
    return emitError() << "to be over a heddle.mesh of this module, got "
                       << ranks.getMesh();
  for (CoordinatesAttr condition : ranks.getWhere()) {
    int64_t size = mesh.getMesh().getAxisSize(condition.getAxis());
    if (size == 0)
      return emitError() << "to be over axes of " << mesh.getMesh() << ", got "
                         << condition.getAxis();
    if (int64_t last = condition.getValues().back(); last >= size)
      return emitError() << "to have coordinates below " << size
                         << " along axis " << condition.getAxis() << ", got "
                         << last;
  }
  return success();
}

/// Returns the attribute of a place whose name is most like `name`; null if
/// none is like it.
static const DiscardableAttr *findNearest(StringRef name, Place place) {
  const DiscardableAttr *nearest = nullptr;
  unsigned least = 4; // a name this many edits away is not suggested
  for (const DiscardableAttr &known : kKnown) {
    unsigned distance = known.places & place
                            ? known.name.edit_distance(name, true, least)
                            : least;
    if (distance < least) {
      least = distance;
      nearest = &known;
    }
  }
  return nearest;
}

/// Checks one attribute. `of` names its port in messages, such as " of argument
/// 0", and is empty for an attribute of an op.
static LogicalResult verify(Operation *op, NamedAttribute attribute,
                            Place place, const Twine &of) {
  StringRef name = attribute.getName();
  bool standsElsewhere = false;
  for (const DiscardableAttr &known : kKnown) {
    if (known.name != name)
      continue;
    standsElsewhere = true;
    if (!(known.places & place))
      continue;
    auto emit = [&] {
      return op->emitOpError() << "expected " << name << of << ' ';
    };
    if (auto ranks = dyn_cast<RanksAttr>(attribute.getValue());
        ranks && known.isValid(ranks))
      return verifyRanks(op, ranks, emit);
    if (known.isValid(attribute.getValue()))
      return success();
    return op->emitOpError()
           << "expected " << name << of << " to be " << known.expected
           << ", got " << attribute.getValue();
  }
  const DiscardableAttr *nearest = findNearest(name, place);
  auto diag = op->emitOpError()
              << "expected no " << name << of << ": the heddle dialect has no "
              << (standsElsewhere ? "such attribute there"
                                  : "attribute of this name");
  if (nearest && !standsElsewhere)
    diag << "; is it " << nearest->name << "?";
  return diag;
}

LogicalResult
HeddleDialect::verifyOperationAttribute(Operation *op,
                                        NamedAttribute attribute) {
  return verify(op, attribute, isa<ModuleOp>(op) ? OnModule : OnOp, "");
}

LogicalResult
HeddleDialect::verifyRegionArgAttribute(Operation *op, unsigned, unsigned index,
                                        NamedAttribute attribute) {
  return verify(op, attribute, OnPort, " of argument " + Twine(index));
}

LogicalResult HeddleDialect::verifyRegionResultAttribute(
    Operation *op, unsigned, unsigned index, NamedAttribute attribute) {
  return verify(op, attribute, OnPort, " of result " + Twine(index));
}
