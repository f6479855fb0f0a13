//===- HeddleNetworkOps.td - Layers of neural networks -----*- tablegen -*-===//

#ifndef HEDDLE_NETWORK_OPS
#define HEDDLE_NETWORK_OPS

include "dialects/Heddle/Ops/HeddleOpBase.td"

//===----------------------------------------------------------------------===//
// Normalization
//===----------------------------------------------------------------------===//

def LayerNormOp : Heddle_DifferentiableOp<"layer_norm", [NormalizationOp], ["localize"]> {
  let summary = "layer normalization over the last dimension";
  let description = [{
    y = (x - mean) * rstd * weight + bias with rstd = 1 / sqrt(variance + epsilon)
    (biased variance, as in PyTorch). `mean` and `rstd` are f32 and have x's
    shape without the last dimension. Constraints: weight and bias are [last
    dimension of x]; y has x's shape.
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

def LayerNormGradOp : Heddle_ModelOp<"layer_norm_grad", [NormalizationOp], ["localize"]> {
  let summary = "gradients of layer normalization";
  let description = [{
    Computes the gradients of x (of x's type), weight and bias (both f32 [last
    dimension of x]) from the gradient of y. Constraints: shapes as in
    `heddle.layer_norm`.
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

def RmsNormOp : Heddle_DifferentiableOp<"rms_norm", [NormalizationOp], ["localize"]> {
  let summary = "root-mean-square normalization over the last dimension";
  let description = [{
    y = x * rstd * weight with rstd = 1 / sqrt(mean(x^2) + epsilon). `rstd` is
    f32 and has x's shape without the last dimension. Constraints: as for
    `heddle.layer_norm`.
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

def RmsNormGradOp : Heddle_ModelOp<"rms_norm_grad", [NormalizationOp], ["localize"]> {
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
    the table. Factors: v and h (rows and columns of the table) and b, s (the
    ids). The factor v is summed over: a device contributes zeros for the rows
    that it does not hold. Constraints: the result has the dimensions of ids,
    followed by h.
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

def CrossEntropyOp : Heddle_DifferentiableOp<"cross_entropy",
    [DeclareOpInterfaceMethods<PrecisionOpInterface>], ["localize"]> {
  let summary = "per-token cross-entropy";
  let description = [{
    loss[…] = lse[…] - logits[…, targets[…]], and 0 where the target is
    `ignore_index`; lse[…] = log(sum(exp(logits[…, :]))). Both are f32.
    Factors: b, s, v. Constraints: targets, loss and lse have logits' shape
    without the last dimension.
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
    logits_grad[…, v] = (exp(logits[…, v] - lse[…]) - hit) * loss_grad[…], where
    hit is 1 if v + offset = targets[…], else 0. It is 0 where the target is
    `ignore_index`. The result may share the logits' memory.
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

def LogSumExpOp : Heddle_DifferentiableOp<"logsumexp",
    [DeclareOpInterfaceMethods<PrecisionOpInterface>], ["localize"]> {
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
    row. The factor v is summed over. Constraints: as for
    `heddle.cross_entropy`.
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
// Elementwise and positional
//===----------------------------------------------------------------------===//

class Heddle_Activation<string mnemonic, list<Trait> traits = []>
    : Heddle_ModelOp<mnemonic, !listconcat([SameOperandsAndResultType], traits)> {
  let results = (outs FloatTensor:$result);
}

def GeluOp : Heddle_Activation<"gelu",
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>,
     DeclareOpInterfaceMethods<PrecisionOpInterface>]> {
  let summary = "Gaussian error linear unit";
  let description = [{
    The result is x * Phi(x), where Phi is the normal distribution function. With
    the approximation `tanh` it is
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
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>,
     DeclareOpInterfaceMethods<PrecisionOpInterface>]> {
  let summary = "x / (1 + exp(-x))";
  let arguments = (ins FloatTensor:$x, OptionalAttr<StrAttr>:$op_name);
  let assemblyFormat = "($op_name^)? $x attr-dict `:` type($x)";
}

def SiluGradOp : Heddle_Activation<"silu_grad"> {
  let summary = "silu'(x) * y_grad";
  let arguments = (ins FloatTensor:$x, FloatTensor:$y_grad, OptionalAttr<StrAttr>:$op_name);
  let assemblyFormat = "($op_name^)? $x `,` $y_grad attr-dict `:` type($x)";
}

def DropoutOp : Heddle_DifferentiableOp<"dropout",
    [DeclareOpInterfaceMethods<PrecisionOpInterface>], ["localize"]> {
  let summary = "zeroes elements at random and scales the others";
  let description = [{
    y = x / (1 - rate) if the element is kept, else 0. An element is kept if the
    first 32-bit word of Philox4x32-10 is at least rate * 2^32. The counter is
    (linear global index low, high, step, 32-bit FNV-1a of op_name), the key is
    `seed`. So the same elements are dropped under every sharding, and the
    gradient is the same op on the gradient. In one device's program, `offsets`
    are the global coordinates of the tensor's first element (zeros if absent)
    and `global_shape` is the shape of the global tensor.
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

def RotaryOp : Heddle_DifferentiableOp<"rotary",
    [DeclareOpInterfaceMethods<PrecisionOpInterface, ["keepsOperandWide"]>]> {
  let summary = "rotary position embedding, in halves";
  let description = [{
    x = [x1, x2] is cut into halves along the last dimension. Its second
    dimension is the position. y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin.
    `inverse` negates sin, which gives the gradient. Factors: b, s, n, r, d (d
    must not be split).
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

#endif // HEDDLE_NETWORK_OPS
