//===- HeddleProductOps.td - Contraction and attention -----*- tablegen -*-===//

#ifndef HEDDLE_PRODUCT_OPS
#define HEDDLE_PRODUCT_OPS

include "dialects/Heddle/Ops/HeddleOpBase.td"

//===----------------------------------------------------------------------===//
// Products
//===----------------------------------------------------------------------===//

def ContractOp : Heddle_DifferentiableOp<"contract",
    [AttrSizedOperandSegments, DeclareOpInterfaceMethods<PrecisionOpInterface>]> {
  let summary = "a batched matrix product with named factors";
  let description = [{
    result[…] = sum of lhs[…] * rhs[…] over the letters that the result lacks.
    Sums are in f32 or wider. `pass` states the pass that the product belongs
    to: the forward pass, the gradient of the data or the gradient of the
    weight. `bias` is repeated along the result's other dimensions and added to
    the result. `accumulate` is added, too. Lowering fuses the additions into
    the product.

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

def AttentionMask : StaticRankedTensor<RankedTensorOf<[I1, F32]>>;

def AttentionOp : Heddle_DifferentiableOp<"attention", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<PrecisionOpInterface, ["keepsOperandWide", "keepsResultWide"]>], ["localize"]> {
  let summary = "scaled dot-product attention";
  let description = [{
    o = dropout(softmax(scale * q k^T + mask)) v. Queries are [batch, query,
    group, head size] or, with several query heads to a key/value head, [batch,
    query, group, member, head size]; keys and values are [batch, key, group,
    head size]; o has the queries' shape. `lse` is the log of the sum of the
    exponentials of the scaled, masked scores, f32, the queries' shape without
    the last dimension. Factors: b, s (query), t (key), n (group), r (member),
    d. With `causal` a query sees the keys at its own and earlier positions.
    With `window` it sees the keys whose position differs from its own by less
    than `window`. `mask` has the shape [batch, query, group, member, key]
    (without member if the queries have none). Any size may be 1; the mask is
    then repeated along that dimension. The size of `key` is that of the whole
    sequence. A mask of i1 is true for the keys that are seen. A mask of f32 is
    added to the scaled scores; a number of -1e30 or less hides the key. The
    gradient of an added mask needs the scores of this attention, and no
    dropout. `step` is the i64 step number for dropout. In one device's program,
    `offsets` are the global coordinates b, s, t, n, r of the first element
    (zeros if absent) and `global_shape` is the global [s, t, n, r]. Keys at
    global positions of t or more are padding and are not seen. A query that
    sees no key has the output 0 and the lse -infinity.

    If a factor is split over devices:
    - s: each device has its own queries and all keys;
    - t: each device computes outputs over its own keys, and the outputs are
      combined by their lse;
    - s and t over the same axes: keys and values go round a ring of the
      devices. With a causal mask, the sequence is redistributed so that each
      device has the same work.

    Constraints:
    - shapes agree as above; queries, keys, values and o have one element type;
    - 0 <= dropout < 1; dropout > 0 needs `step`;
    - a window is at least 1;
    - `offsets` holds none or 5 values; `global_shape` none or 4.

    Example: causal attention on a batch of padded sequences
    ```mlir
    %o, %lse = heddle.attention "h.0.attn" %q, %k, %v causal scale(0.125)
      mask(%seen : tensor<4x1x1x256xi1>)
      : tensor<4x256x12x64xf32>, tensor<4x256x12x64xf32>, tensor<4x256x12x64xf32>
      -> tensor<4x256x12x64xf32>, tensor<4x256x12xf32>
    ```
  }];
  let arguments = (ins FloatTensor:$query, FloatTensor:$key, FloatTensor:$value,
                       Optional<RankedTensorOf<[I64]>>:$step,
                       Optional<AttentionMask>:$mask,
                       Variadic<Index>:$offsets,
                       F64Attr:$scale, UnitAttr:$causal,
                       OptionalAttr<I64Attr>:$window,
                       DefaultValuedAttr<F64Attr, "0.0">:$dropout,
                       DefaultValuedAttr<I64Attr, "0">:$seed,
                       OptionalAttr<DenseI64ArrayAttr>:$global_shape,
                       OptionalAttr<StrAttr>:$op_name);
  let results = (outs FloatTensor:$output, Stats:$lse);
  let assemblyFormat = [{
    ($op_name^)? $query `,` $key `,` $value (`causal` $causal^)? (`window` `(` $window^ `)`)? `scale` `(` $scale `)`
    (`dropout` `(` $dropout^ `)`)? (`seed` `(` $seed^ `)`)? (`step` `(` $step^ `:` type($step) `)`)?
    (`mask` `(` $mask^ `:` type($mask) `)`)? (`offsets` `(` $offsets^ `)`)? (`global_shape` `(` $global_shape^ `)`)? attr-dict
    `:` type($query) `,` type($key) `,` type($value) `->` type($output) `,` type($lse)
  }];
  let extraClassDeclaration = [{
    /// The number of the operand `mask`, if there is one.
    unsigned getMaskIndex() { return getODSOperandIndexAndLength(4).first; }
  }];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

def AttentionGradOp : Heddle_ModelOp<"attention_grad", [AttrSizedOperandSegments], ["localize"]> {
  let summary = "gradients of attention with respect to query, key and value";
  let description = [{
    Recomputes the probabilities block by block from `lse`. Operands and
    attributes are as in `heddle.attention`. Constraints: those of
    `heddle.attention`; output_grad has the output's type.
  }];
  let arguments = (ins FloatTensor:$query, FloatTensor:$key, FloatTensor:$value,
                       FloatTensor:$output, Stats:$lse, FloatTensor:$output_grad,
                       Optional<RankedTensorOf<[I64]>>:$step,
                       Optional<AttentionMask>:$mask,
                       Variadic<Index>:$offsets,
                       F64Attr:$scale, UnitAttr:$causal,
                       OptionalAttr<I64Attr>:$window,
                       DefaultValuedAttr<F64Attr, "0.0">:$dropout,
                       DefaultValuedAttr<I64Attr, "0">:$seed,
                       OptionalAttr<DenseI64ArrayAttr>:$global_shape,
                       OptionalAttr<StrAttr>:$op_name);
  let results = (outs FloatTensor:$query_grad, FloatTensor:$key_grad, FloatTensor:$value_grad);
  let assemblyFormat = [{
    ($op_name^)? $query `,` $key `,` $value `,` $output `,` $lse `,` $output_grad
    (`causal` $causal^)? (`window` `(` $window^ `)`)? `scale` `(` $scale `)`
    (`dropout` `(` $dropout^ `)`)? (`seed` `(` $seed^ `)`)? (`step` `(` $step^ `:` type($step) `)`)?
    (`mask` `(` $mask^ `:` type($mask) `)`)? (`offsets` `(` $offsets^ `)`)? (`global_shape` `(` $global_shape^ `)`)? attr-dict
    `:` type($query) `,` type($key) `,` type($value) `,` type($output) `,` type($lse) `,` type($output_grad)
    `->` type($query_grad) `,` type($key_grad) `,` type($value_grad)
  }];
  let extraClassDeclaration = [{
    /// The number of the operand `mask`, if there is one.
    unsigned getMaskIndex() { return getODSOperandIndexAndLength(7).first; }
  }];
  let hasVerifier = 1;
  let hasCanonicalizer = 1;
}

#endif // HEDDLE_PRODUCT_OPS
