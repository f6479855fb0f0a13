//===- HeddleOpBase.td - Base classes of the ops -----------*- tablegen -*-===//

#ifndef HEDDLE_OP_BASE
#define HEDDLE_OP_BASE

include "dialects/Heddle/HeddleAttrs.td"
include "dialects/Interfaces/DifferentiableOpInterface.td"
include "dialects/Interfaces/OpTraits.td"
include "dialects/Interfaces/PrecisionOpInterface.td"
include "dialects/Interfaces/ShardingRuleOpInterface.td"
include "dialects/Interfaces/WorkOpInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Heddle_Op<string mnemonic, list<Trait> traits = []>
    : Op<HeddleDialect, mnemonic, traits>;

/// A pure op that holds the stable name of the module that it came from.
class Heddle_NamedOp<string mnemonic, list<Trait> traits = [],
                     list<string> methods = []>
    : Heddle_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<WorkOpInterface>,
        DeclareOpInterfaceMethods<ShardingRuleOpInterface, methods>], traits)>;

/// An op of the model itself, never of the optimizer's update.
class Heddle_ModelOp<string mnemonic, list<Trait> traits = [],
                     list<string> methods = []>
    : Heddle_NamedOp<mnemonic, !listconcat([NetworkOp], traits), methods>;

/// An op that occurs in the model and in the optimizer's update.
class Heddle_ShapeOp<string mnemonic, list<Trait> traits = []>
    : Heddle_NamedOp<mnemonic, !listconcat(
        [DeclareOpInterfaceMethods<DifferentiableOpInterface>], traits)>;

/// A model op with a vector-Jacobian product.
class Heddle_DifferentiableOp<string mnemonic, list<Trait> traits = [],
                              list<string> methods = []>
    : Heddle_ModelOp<mnemonic, !listconcat(
        [DeclareOpInterfaceMethods<DifferentiableOpInterface>], traits), methods>;

/// Shapes are static throughout the dialect.
class StaticRankedTensor<Type tensor>
    : ConfinedType<tensor, [HasStaticShapePred],
                   "statically shaped " # tensor.summary>;

def StaticTensor : StaticRankedTensor<AnyRankedTensor>;
def FloatTensor : StaticRankedTensor<RankedTensorOf<[F32, BF16, F16, F64]>>;
def NumberTensor
    : StaticRankedTensor<RankedTensorOf<[AnyFloat, AnySignlessInteger]>>;
def IdTensor : StaticRankedTensor<RankedTensorOf<[I32]>>;
def Stats : StaticRankedTensor<RankedTensorOf<[F32]>>;

#endif // HEDDLE_OP_BASE
