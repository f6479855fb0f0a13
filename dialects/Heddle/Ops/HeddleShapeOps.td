//===- HeddleShapeOps.td - Shapes and reductions -----------*- tablegen -*-===//

#ifndef HEDDLE_SHAPE_OPS
#define HEDDLE_SHAPE_OPS

include "dialects/Heddle/Ops/HeddleOpBase.td"

//===----------------------------------------------------------------------===//
// Shapes and reductions
//===----------------------------------------------------------------------===//

def ReduceOp : Heddle_ShapeOp<"reduce", [DeclareOpInterfaceMethods<PrecisionOpInterface>]> {
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
    The first stage of a reduction over rows. The rows are the first `row_dims`
    dimensions, collapsed. result[i, …] is the sum (maximum) over the rows
    [i * block, min((i + 1) * block, rows)). The blocks follow from the shape
    alone, so the result does not depend on the number of threads. Sums are in
    the result's type.
    Constraints: 1 <= row_dims <= rank; block is positive; the result is
    [ceil(rows / block), the dimensions after `row_dims`], of the operand's
    element type or f32.

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

def BroadcastOp : Heddle_ShapeOp<"broadcast", [DeclareOpInterfaceMethods<PrecisionOpInterface>]> {
  let summary = "repeats a tensor along new dimensions";
  let description = [{
    `along` lists, in increasing order, the result dimension of each operand
    dimension; the value is repeated along all other result dimensions.
    Constraints: `along` has one entry for each operand dimension; the two
    dimensions have equal sizes.

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

def UnstackOp : Heddle_ShapeOp<"unstack", [DeclareOpInterfaceMethods<PrecisionOpInterface>]> {
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

def StackOp : Heddle_ShapeOp<"stack", [DeclareOpInterfaceMethods<PrecisionOpInterface>]> {
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

#endif // HEDDLE_SHAPE_OPS
