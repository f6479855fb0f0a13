//===- HeddleOps.td - Ops of the model dialect -------------*- tablegen -*-===//

#ifndef HEDDLE_OPS
#define HEDDLE_OPS

include "dialects/Heddle/HeddleAttrs.td"
include "dialects/Interfaces/DifferentiableOpInterface.td"
include "dialects/Interfaces/ShardingRuleOpInterface.td"
include "dialects/Interfaces/WorkOpInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

class Heddle_Op<string mnemonic, list<Trait> traits = []>
    : Op<HeddleDialect, mnemonic, traits>;

/// An op of the model proper: pure, with the stable name of its module.
class Heddle_ModelOp<string mnemonic, list<Trait> traits = [],
                     list<string> methods = []>
    : Heddle_Op<mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<WorkOpInterface>,
        DeclareOpInterfaceMethods<ShardingRuleOpInterface, methods>], traits)>;

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

//===----------------------------------------------------------------------===//
// Mesh and state
//===----------------------------------------------------------------------===//

def MeshOp : Heddle_Op<"mesh", [Symbol]> {
  let summary = "declares a mesh of devices";
  let description = [{
    Example: `heddle.mesh @mesh <["dp"=2, "tp"=4]>`
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, MeshAttr:$mesh);
  let assemblyFormat = "$sym_name $mesh attr-dict";
}

def VariableOp : Heddle_Op<"variable", [Symbol]> {
  let summary = "a tensor that lives from step to step";
  let description = [{
    The type is always the global one. `storage` says how the tensor is stored
    over a mesh between its uses, apart from how they want it; the padding of
    every device's part is zero. `checkpoint` names the tensor of a checkpoint,
    of which the variable is a reshape.

    Constraints:
    - the type is static and of numbers;
    - the checkpoint's shape has as many elements as the type;
    - the storage has the type's rank and is not partial.

    Example:
    ```mlir
    heddle.variable @h.0.mlp.c_fc.weight : tensor<768x3072xf32> parameter
      init(normal<0.02>) storage(<@mesh, [{}, {"tp"} ]>)
      checkpoint(<"transformer.h.0.mlp.c_fc.weight", [768, 3072]>)
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<AnyRankedTensor>:$type,
                       VariableRoleAttr:$role, InitAttr:$init,
                       OptionalAttr<ShardingAttr>:$storage,
                       OptionalAttr<CheckpointAttr>:$checkpoint);
  let assemblyFormat = [{
    $sym_name `:` $type custom<BareEnum>($role) `init` `(` custom<BareInit>($init) `)`
    (`storage` `(` $storage^ `)`)? (`checkpoint` `(` $checkpoint^ `)`)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::mlir::cast<::mlir::RankedTensorType>(getType());
    }
  }];
}

def LoadOp : Heddle_Op<"load", [MemoryEffects<[MemRead]>,
                                DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the value of a variable";
  let description = [{
    Constraints:
    - the symbol is a variable;
    - the type is the variable's, or the local type under its storage.
  }];
  let arguments = (ins FlatSymbolRefAttr:$variable);
  let results = (outs StaticTensor:$result);
  let assemblyFormat = "$variable `:` type($result) attr-dict";
}

def StoreOp : Heddle_Op<"store", [MemoryEffects<[MemWrite]>,
                                  DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "replaces the value of a variable";
  let description = [{Constraints: those of `heddle.load`.}];
  let arguments = (ins StaticTensor:$value, FlatSymbolRefAttr:$variable);
  let assemblyFormat = "$value `,` $variable `:` type($value) attr-dict";
}

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

def ContractOp : Heddle_DifferentiableOp<"contract", [AttrSizedOperandSegments]> {
  let summary = "a batched matrix product with named factors";
  let description = [{
    result[…] = sum of lhs[…] * rhs[…] over the letters that the result lacks.
    Sums are in f32 or wider. `pass` says which product of a module this is:
    the forward one, or the gradient of its data or of its weight.
    A bias, repeated along the result's other dimensions, and `accumulate` are
    added: lowering fuses them into the product.

    Constraints:
    - each letter list has as many letters as its tensor has dimensions;
    - a letter has the same size wherever it occurs;
    - the operands have the same element type; the result has it too, or f32;
    - the bias has one dimension for each entry of `bias_along`, the result's
      dimensions that it runs along, in increasing order;
    - accumulate has the result's type.

    Example:
    ```mlir
    %u = heddle.contract "h.0.mlp.c_fc" [bsh, hf -> bsf] %n, %w1
       : (tensor<4x256x768xf32>, tensor<768x3072xf32>) -> tensor<4x256x3072xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$lhs, FloatTensor:$rhs,
                       Optional<FloatTensor>:$bias, Optional<FloatTensor>:$accumulate,
                       ContractionAttr:$contraction,
                       OptionalAttr<DenseI64ArrayAttr>:$bias_along,
                       DefaultValuedAttr<ContractPassAttr, "::heddle::ContractPass::Forward">:$pass,
                       OptionalAttr<StrAttr>:$op_name);
  let results = (outs FloatTensor:$result);
  let assemblyFormat = [{
    ($op_name^)? (`pass` `(` custom<BareEnum>($pass)^ `)`)? custom<BareContraction>($contraction)
    $lhs `,` $rhs (`bias` `(` $bias^ `along` $bias_along `)`)?
    (`accumulate` `(` $accumulate^ `)`)? attr-dict `:` functional-type(operands, results)
  }];
  let builders = [
    OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$lhs, "::mlir::Value":$rhs,
                   "::heddle::ContractionAttr":$contraction,
                   "::heddle::ContractPassAttr":$pass, "::mlir::StringAttr":$name), [{
      build($_builder, $_state, result, lhs, rhs, /*bias=*/nullptr,
            /*accumulate=*/nullptr, contraction, /*bias_along=*/nullptr, pass, name);
    }]>,
    OpBuilder<(ins "::mlir::Type":$result, "::mlir::Value":$lhs, "::mlir::Value":$rhs,
                   "::heddle::ContractionAttr":$contraction,
                   "::heddle::ContractPass":$pass, "::mlir::StringAttr":$name), [{
      build($_builder, $_state, result, lhs, rhs, contraction,
            ::heddle::ContractPassAttr::get($_builder.getContext(), pass), name);
    }]>
  ];
  let hasVerifier = 1;
}

def AttentionOp : Heddle_DifferentiableOp<"attention", [AttrSizedOperandSegments], ["localize"]> {
  let summary = "scaled dot-product attention";
  let description = [{
    o = dropout(softmax(scale * q k^T + mask)) v. Queries are
    [batch, query, group, head size] or, with several query heads to a key/value
    head, [batch, query, group, member, head size]; keys and values are
    [batch, key, group, head size]; o has the queries' shape. `lse` is the log
    of the sum of the exponentials of the scaled, masked scores, f32, the
    queries' shape without the last dimension. Factors: b, s (query), t (key),
    n (group), r (member), d.
    With `causal` a query sees the keys at its own and earlier positions.
    `step` is the i64 step number for dropout; `offsets` are the global
    coordinates of the first element, as b, s, t, n, r, or empty for zeros.
    `global_shape` is the global [s, t, n, r] where the tensors are local.

    Constraints:
    - shapes agree as above; queries, keys, values and o have one element type;
    - 0 <= dropout < 1; dropout > 0 needs `step`;
    - `offsets` holds none or 5 values; `global_shape` none or 4.
  }];
  let arguments = (ins FloatTensor:$query, FloatTensor:$key, FloatTensor:$value,
                       Optional<RankedTensorOf<[I64]>>:$step,
                       Variadic<Index>:$offsets,
                       F64Attr:$scale, UnitAttr:$causal,
                       DefaultValuedAttr<F64Attr, "0.0">:$dropout,
                       DefaultValuedAttr<I64Attr, "0">:$seed,
                       OptionalAttr<DenseI64ArrayAttr>:$global_shape,
                       OptionalAttr<StrAttr>:$op_name);
  let results = (outs FloatTensor:$output, Stats:$lse);
  let assemblyFormat = [{
    ($op_name^)? $query `,` $key `,` $value (`causal` $causal^)? `scale` `(` $scale `)`
    (`dropout` `(` $dropout^ `)`)? (`seed` `(` $seed^ `)`)? (`step` `(` $step^ `:` type($step) `)`)?
    (`offsets` `(` $offsets^ `)`)? (`global_shape` `(` $global_shape^ `)`)? attr-dict
    `:` type($query) `,` type($key) `,` type($value) `->` type($output) `,` type($lse)
  }];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

def AttentionGradOp : Heddle_ModelOp<"attention_grad", [AttrSizedOperandSegments], ["localize"]> {
  let summary = "gradients of attention with respect to query, key and value";
  let description = [{
    Recomputes the probabilities block by block from `lse`. Everything else as
    in `heddle.attention`. Constraints: those of `heddle.attention`;
    output_grad has the output's type.
  }];
  let arguments = (ins FloatTensor:$query, FloatTensor:$key, FloatTensor:$value,
                       FloatTensor:$output, Stats:$lse, FloatTensor:$output_grad,
                       Optional<RankedTensorOf<[I64]>>:$step,
                       Variadic<Index>:$offsets,
                       F64Attr:$scale, UnitAttr:$causal,
                       DefaultValuedAttr<F64Attr, "0.0">:$dropout,
                       DefaultValuedAttr<I64Attr, "0">:$seed,
                       OptionalAttr<DenseI64ArrayAttr>:$global_shape,
                       OptionalAttr<StrAttr>:$op_name);
  let results = (outs FloatTensor:$query_grad, FloatTensor:$key_grad, FloatTensor:$value_grad);
  let assemblyFormat = [{
    ($op_name^)? $query `,` $key `,` $value `,` $output `,` $lse `,` $output_grad
    (`causal` $causal^)? `scale` `(` $scale `)`
    (`dropout` `(` $dropout^ `)`)? (`seed` `(` $seed^ `)`)? (`step` `(` $step^ `:` type($step) `)`)?
    (`offsets` `(` $offsets^ `)`)? (`global_shape` `(` $global_shape^ `)`)? attr-dict
    `:` type($query) `,` type($key) `,` type($value) `,` type($output) `,` type($lse) `,` type($output_grad)
    `->` type($query_grad) `,` type($key_grad) `,` type($value_grad)
  }];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

//===----------------------------------------------------------------------===//
// Normalization
//===----------------------------------------------------------------------===//

def LayerNormOp : Heddle_DifferentiableOp<"layer_norm"> {
  let summary = "layer normalization over the last dimension";
  let description = [{
    y = (x - mean) * rstd * scale + bias with rstd = 1 / sqrt(variance + epsilon)
    (biased variance, as PyTorch). `mean` and `rstd` are f32 without the last
    dimension. Constraints: scale and bias are [last dimension of x]; y has x's
    shape.
  }];
  let arguments = (ins FloatTensor:$x, FloatTensor:$weight, FloatTensor:$bias,
                       F64Attr:$epsilon, OptionalAttr<StrAttr>:$op_name);
  let results = (outs FloatTensor:$y, Stats:$mean, Stats:$rstd);
  let assemblyFormat = [{
    ($op_name^)? $x `,` $weight `,` $bias `epsilon` `(` $epsilon `)` attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def LayerNormGradOp : Heddle_ModelOp<"layer_norm_grad"> {
  let summary = "gradients of layer normalization";
  let description = [{
    Gradients of x (x's type), scale and bias (f32 [last dimension]) from the
    gradient of y. Constraints: shapes as in `heddle.layer_norm`.
  }];
  let arguments = (ins FloatTensor:$x, FloatTensor:$weight, Stats:$mean, Stats:$rstd,
                       FloatTensor:$y_grad, OptionalAttr<StrAttr>:$op_name);
  let results = (outs FloatTensor:$x_grad, FloatTensor:$weight_grad, FloatTensor:$bias_grad);
  let assemblyFormat = [{
    ($op_name^)? $x `,` $weight `,` $mean `,` $rstd `,` $y_grad attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def RmsNormOp : Heddle_DifferentiableOp<"rms_norm"> {
  let summary = "root-mean-square normalization over the last dimension";
  let description = [{
    y = x * rstd * weight with rstd = 1 / sqrt(mean(x^2) + epsilon), f32 without
    the last dimension. Constraints as for `heddle.layer_norm`.
  }];
  let arguments = (ins FloatTensor:$x, FloatTensor:$weight, F64Attr:$epsilon,
                       OptionalAttr<StrAttr>:$op_name);
  let results = (outs FloatTensor:$y, Stats:$rstd);
  let assemblyFormat = [{
    ($op_name^)? $x `,` $weight `epsilon` `(` $epsilon `)` attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

def RmsNormGradOp : Heddle_ModelOp<"rms_norm_grad"> {
  let summary = "gradients of root-mean-square normalization";
  let arguments = (ins FloatTensor:$x, FloatTensor:$weight, Stats:$rstd,
                       FloatTensor:$y_grad, OptionalAttr<StrAttr>:$op_name);
  let results = (outs FloatTensor:$x_grad, FloatTensor:$weight_grad);
  let assemblyFormat = [{
    ($op_name^)? $x `,` $weight `,` $rstd `,` $y_grad attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Vocabulary: embedding and cross-entropy
//===----------------------------------------------------------------------===//

def EmbeddingOp : Heddle_DifferentiableOp<"embedding", [], ["localize"]> {
  let summary = "rows of a table";
  let description = [{
    result[…, :] = table[ids[…] - offset, :], or zeros where that row is not in
    the table. Factors: v (a sum: every device adds the rows that it has), h,
    and those of the ids (b, s). Constraints: result is ids' shape x h.
  }];
  let arguments = (ins FloatTensor:$table, IdTensor:$ids, Optional<Index>:$offset,
                       OptionalAttr<StrAttr>:$op_name);
  let results = (outs FloatTensor:$result);
  let assemblyFormat = [{
    ($op_name^)? $table `,` $ids (`offset` `(` $offset^ `)`)? attr-dict
    `:` type($table) `,` type($ids) `->` type($result)
  }];
  let hasVerifier = 1;
}

def EmbeddingGradOp : Heddle_ModelOp<"embedding_grad", [AttrSizedOperandSegments], ["localize"]> {
  let summary = "gradient of an embedding's table";
  let description = [{
    result[v, :] = accumulate[v, :] + the sum of y_grad[i, :] over all i with
    ids[i] = v + offset. Constraints: as for `heddle.embedding`; accumulate has
    the result's type.
  }];
  let arguments = (ins IdTensor:$ids, FloatTensor:$y_grad,
                       Optional<FloatTensor>:$accumulate, Optional<Index>:$offset,
                       OptionalAttr<StrAttr>:$op_name);
  let results = (outs FloatTensor:$result);
  let assemblyFormat = [{
    ($op_name^)? $ids `,` $y_grad (`accumulate` `(` $accumulate^ `:` type($accumulate) `)`)?
    (`offset` `(` $offset^ `)`)? attr-dict
    `:` type($ids) `,` type($y_grad) `->` type($result)
  }];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

def CrossEntropyOp : Heddle_DifferentiableOp<"cross_entropy", [], ["localize"]> {
  let summary = "per-token cross-entropy";
  let description = [{
    loss[…] = lse[…] - logits[…, targets[…]], and 0 where the target is
    `ignore_index`; lse[…] = log(sum(exp(logits[…, :]))). Both f32. Factors: b,
    s, v. Constraints: targets, loss and lse have logits' shape without the
    last dimension.
  }];
  let arguments = (ins FloatTensor:$logits, IdTensor:$targets,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index,
                       OptionalAttr<StrAttr>:$op_name);
  let results = (outs Stats:$loss, Stats:$lse);
  let assemblyFormat = [{
    ($op_name^)? $logits `,` $targets (`ignore` `(` $ignore_index^ `)`)? attr-dict
    `:` type($logits) `,` type($targets) `->` type($loss) `,` type($lse)
  }];
  let hasVerifier = 1;
}

def CrossEntropyGradOp : Heddle_ModelOp<"cross_entropy_grad", [], ["localize"]> {
  let summary = "gradient of the logits";
  let description = [{
    logits_grad[…, v] = (exp(logits[…, v] - lse[…]) - [v + offset = targets[…]])
    * loss_grad[…], and 0 where the target is `ignore_index`. Can be done in
    place.
  }];
  let arguments = (ins FloatTensor:$logits, IdTensor:$targets, Stats:$lse,
                       Stats:$loss_grad, Optional<Index>:$offset,
                       DefaultValuedAttr<I64Attr, "-100">:$ignore_index,
                       OptionalAttr<StrAttr>:$op_name);
  let results = (outs FloatTensor:$logits_grad);
  let assemblyFormat = [{
    ($op_name^)? $logits `,` $targets `,` $lse `,` $loss_grad
    (`offset` `(` $offset^ `)`)? (`ignore` `(` $ignore_index^ `)`)? attr-dict
    `:` type($logits) `,` type($targets) `,` type($lse) `,` type($loss_grad)
    `->` type($logits_grad)
  }];
  let hasVerifier = 1;
}

def LogSumExpOp : Heddle_DifferentiableOp<"logsumexp", [], ["localize"]> {
  let summary = "log of the sum of exponentials over the last dimension";
  let arguments = (ins FloatTensor:$logits, OptionalAttr<StrAttr>:$op_name);
  let results = (outs Stats:$result);
  let assemblyFormat = [{
    ($op_name^)? $logits attr-dict `:` type($logits) `->` type($result)
  }];
  let hasVerifier = 1;
}

def PickOp : Heddle_ModelOp<"pick", [], ["localize"]> {
  let summary = "one element of each row";
  let description = [{
    result[…] = logits[…, ids[…] - offset], or 0 where that index is not in the
    row. A sum over the factor v. Constraints: as for `heddle.cross_entropy`.
  }];
  let arguments = (ins FloatTensor:$logits, IdTensor:$ids, Optional<Index>:$offset,
                       OptionalAttr<StrAttr>:$op_name);
  let results = (outs Stats:$result);
  let assemblyFormat = [{
    ($op_name^)? $logits `,` $ids (`offset` `(` $offset^ `)`)? attr-dict
    `:` type($logits) `,` type($ids) `->` type($result)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Shapes and reductions
//===----------------------------------------------------------------------===//

def ReduceOp : Heddle_DifferentiableOp<"reduce"> {
  let summary = "sum or maximum over dimensions";
  let description = [{
    The result lacks the dimensions `over`. Sums are in f32 or wider.
    Constraints: `over` is strictly increasing and within the rank; the result
    has the operand's element type, or f32.

    Example: `%d = heddle.reduce sum %x over [0, 1] : tensor<4x256x768xf32> -> tensor<768xf32>`
  }];
  let arguments = (ins ReductionKindAttr:$kind, NumberTensor:$x,
                       DenseI64ArrayAttr:$over, OptionalAttr<StrAttr>:$op_name);
  let results = (outs NumberTensor:$result);
  let assemblyFormat = [{
    ($op_name^)? custom<BareEnum>($kind) $x `over` $over attr-dict `:` type($x) `->` type($result)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
  let hasCanonicalizer = 1;
}

def ReduceBlocksOp : Heddle_Op<"reduce_blocks", [Pure]> {
  let summary = "partial sums or maxima over fixed blocks of rows";
  let description = [{
    The first `row_dims` dimensions, collapsed, are the rows. result[i, …] is the
    sum (maximum) over rows i * block .. min((i + 1) * block, rows). The first
    stage of a reduction over rows: the blocks follow from the shape alone, so
    the result does not depend on the number of threads. Sums are in the
    result's type.
    Constraints: 1 <= row_dims <= rank; block is positive; the result is
    [ceil(rows / block), other dimensions] of the operand's type or f32.

    Example: `%p = heddle.reduce_blocks sum %x rows(2) block(32) : tensor<4x256x768xf32> -> tensor<32x768xf32>`
  }];
  let arguments = (ins ReductionKindAttr:$kind, NumberTensor:$x,
                       I64Attr:$row_dims, I64Attr:$block, OptionalAttr<StrAttr>:$op_name);
  let results = (outs NumberTensor:$result);
  let assemblyFormat = [{
    ($op_name^)? custom<BareEnum>($kind) $x `rows` `(` $row_dims `)` `block` `(` $block `)` attr-dict
    `:` type($x) `->` type($result)
  }];
  let hasVerifier = 1;
}

def BroadcastOp : Heddle_DifferentiableOp<"broadcast"> {
  let summary = "repeats a tensor along new dimensions";
  let description = [{
    `along` lists, in increasing order, the result dimension of each operand
    dimension; the value is repeated along all others.
    Constraints: one entry an operand dimension, with equal sizes.

    Example: `%b = heddle.broadcast %x along [2] : tensor<768xf32> -> tensor<4x256x768xf32>`
  }];
  let arguments = (ins StaticTensor:$x, DenseI64ArrayAttr:$along,
                       OptionalAttr<StrAttr>:$op_name);
  let results = (outs StaticTensor:$result);
  let assemblyFormat = [{
    ($op_name^)? $x `along` $along attr-dict `:` type($x) `->` type($result)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def UnstackOp : Heddle_DifferentiableOp<"unstack"> {
  let summary = "the slices of a tensor along its first dimension";
  let description = [{
    Constraints: as many results as the first dimension's size, each of the
    operand's type without that dimension.

    Example: `%q, %k, %v = heddle.unstack %qkv : tensor<3x4x8xf32> -> tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>`
  }];
  let arguments = (ins StaticTensor:$x, OptionalAttr<StrAttr>:$op_name);
  let results = (outs Variadic<StaticTensor>:$slices);
  let assemblyFormat = [{
    ($op_name^)? $x attr-dict `:` type($x) `->` type($slices)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def StackOp : Heddle_DifferentiableOp<"stack"> {
  let summary = "tensors laid one after the other along a new first dimension";
  let description = [{Constraints: those of `heddle.unstack`, reversed.}];
  let arguments = (ins Variadic<StaticTensor>:$slices, OptionalAttr<StrAttr>:$op_name);
  let results = (outs StaticTensor:$result);
  let assemblyFormat = [{
    ($op_name^)? $slices attr-dict `:` type($slices) `->` type($result)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

//===----------------------------------------------------------------------===//
// Elementwise and positional
//===----------------------------------------------------------------------===//

class Heddle_Activation<string mnemonic, list<Trait> traits = []>
    : Heddle_ModelOp<mnemonic, !listconcat([SameOperandsAndResultType], traits)> {
  let results = (outs FloatTensor:$result);
}

def GeluOp : Heddle_Activation<"gelu",
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Gaussian error linear unit";
  let description = [{
    x * Phi(x); with approximation `tanh`
    0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))).
  }];
  let arguments = (ins FloatTensor:$x, GeluApproximationAttr:$approximate,
                       OptionalAttr<StrAttr>:$op_name);
  let assemblyFormat = "($op_name^)? $x `approximate` `(` custom<BareEnum>($approximate) `)` attr-dict `:` type($x)";
}

def GeluGradOp : Heddle_Activation<"gelu_grad"> {
  let summary = "gelu'(x) * y_grad";
  let arguments = (ins FloatTensor:$x, FloatTensor:$y_grad,
                       GeluApproximationAttr:$approximate, OptionalAttr<StrAttr>:$op_name);
  let assemblyFormat = "($op_name^)? $x `,` $y_grad `approximate` `(` custom<BareEnum>($approximate) `)` attr-dict `:` type($x)";
}

def SiluOp : Heddle_Activation<"silu",
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "x / (1 + exp(-x))";
  let arguments = (ins FloatTensor:$x, OptionalAttr<StrAttr>:$op_name);
  let assemblyFormat = "($op_name^)? $x attr-dict `:` type($x)";
}

def SiluGradOp : Heddle_Activation<"silu_grad"> {
  let summary = "silu'(x) * y_grad";
  let arguments = (ins FloatTensor:$x, FloatTensor:$y_grad, OptionalAttr<StrAttr>:$op_name);
  let assemblyFormat = "($op_name^)? $x `,` $y_grad attr-dict `:` type($x)";
}

def DropoutOp : Heddle_DifferentiableOp<"dropout", [], ["localize"]> {
  let summary = "zeroes elements at random and scales the others";
  let description = [{
    y = x / (1 - rate) where the first 32-bit word of Philox4x32-10 with counter
    (linear global index low, high, step, 32-bit FNV-1a of op_name) and key `seed` is at
    least rate * 2^32, else 0. So no sharding changes what is dropped, and the
    gradient is the same op on the gradient. `offsets` are the global
    coordinates of the first element (none: zeros) and `global_shape` the global
    shape where the tensor is local.
    Constraints: 0 <= rate < 1; `offsets` and `global_shape` hold none or one
    value a dimension; op_name is present (it names the random stream).
  }];
  let arguments = (ins FloatTensor:$x, RankedTensorOf<[I64]>:$step, Variadic<Index>:$offsets,
                       F64Attr:$rate, DefaultValuedAttr<I64Attr, "0">:$seed,
                       OptionalAttr<DenseI64ArrayAttr>:$global_shape,
                       OptionalAttr<StrAttr>:$op_name);
  let results = (outs FloatTensor:$result);
  let assemblyFormat = [{
    ($op_name^)? $x `,` $step `rate` `(` $rate `)` (`seed` `(` $seed^ `)`)?
    (`offsets` `(` $offsets^ `)`)? (`global_shape` `(` $global_shape^ `)`)? attr-dict
    `:` type($x) `,` type($step) `->` type($result)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

def RotaryTableOp : Heddle_ModelOp<"rotary_table", [], ["localize"]> {
  let summary = "cosines and sines of position * frequency";
  let description = [{
    cos[p, j] = cos((p + offset) * frequencies[j]), angles in f64. Factors: s.
    Constraints: both results are f32 [positions, number of frequencies].
  }];
  let arguments = (ins Optional<Index>:$offset, DenseF64ArrayAttr:$frequencies,
                       OptionalAttr<StrAttr>:$op_name);
  let results = (outs Stats:$cos, Stats:$sin);
  let assemblyFormat = [{
    ($op_name^)? (`offset` `(` $offset^ `)`)? `frequencies` `(` custom<ExactNumbers>($frequencies) `)` attr-dict
    `:` type($cos) `,` type($sin)
  }];
  let hasVerifier = 1;
}

def RotaryOp : Heddle_DifferentiableOp<"rotary"> {
  let summary = "rotary position embedding, in halves";
  let description = [{
    With x = [x1, x2] cut in halves along the last dimension and position the
    second: y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin. `inverse` negates sin
    (the gradient). Factors: b, s, n, r, d (d must not be split).
    Constraints: cos and sin are f32 [second dimension, half the last].
  }];
  let arguments = (ins FloatTensor:$x, Stats:$cos, Stats:$sin, UnitAttr:$inverse,
                       OptionalAttr<StrAttr>:$op_name);
  let results = (outs FloatTensor:$result);
  let assemblyFormat = [{
    ($op_name^)? $x `,` $cos `,` $sin (`inverse` $inverse^)? attr-dict
    `:` type($x) `,` type($cos) `,` type($sin)  `->` type($result)
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Sharding
//===----------------------------------------------------------------------===//

def ReshardOp : Heddle_Op<"reshard", [Pure, SameOperandsAndResultType,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "changes how a global tensor lies on its mesh";
  let description = [{
    The value is the same; only its distribution changes. Localizing turns it
    into the cheapest sequence of slices and collectives.
    Constraints: both shardings have the tensor's rank and the same mesh.
  }];
  let arguments = (ins StaticTensor:$x, ShardingAttr:$from, ShardingAttr:$to);
  let results = (outs StaticTensor:$result);
  let assemblyFormat = "$x `from` $from `to` $to attr-dict `:` type($x)";
  let hasVerifier = 1;
  let hasFolder = 1;
}

def MaskPaddingOp : Heddle_DifferentiableOp<"mask_padding"> {
  let summary = "sets the padding of a local tensor";
  let description = [{
    Elements whose index along dims[i] plus offsets[i] is at least sizes[i] are
    replaced by `value` (zero, or the lowest finite number of the type).
    Constraints: dims, sizes and offsets have equal lengths; dims are strictly
    increasing and within the rank.
  }];
  let arguments = (ins StaticTensor:$x, Variadic<Index>:$offsets,
                       DenseI64ArrayAttr:$dims, DenseI64ArrayAttr:$sizes,
                       PaddingValueAttr:$value);
  let results = (outs StaticTensor:$result);
  let assemblyFormat = [{
    $x `dims` $dims `sizes` $sizes `offsets` `(` $offsets `)` `value` `(` custom<BareEnum>($value) `)` attr-dict
    `:` type($x) `->` type($result)
  }];
  let hasVerifier = 1;
  let hasFolder = 1;
}

#endif
