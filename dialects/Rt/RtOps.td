//===- RtOps.td - Programs and the calls they make ---------*- tablegen -*-===//

#ifndef RT_OPS
#define RT_OPS

include "dialects/Heddle/Ops/HeddleEpilogues.td"
include "dialects/Rt/RtAttrs.td"
include "dialects/Rt/RtInterfaces.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Rt_Op<string mnemonic, list<Trait> traits = []>
    : Op<RtDialect, mnemonic, traits>;

def Ports : TypedArrayAttrBase<PortAttr, "ports">;
def Loops : TypedArrayAttrBase<LoopAttr, "loops">;
def Buffers : TypedArrayAttrBase<BufferAttr, "buffers">;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

def ProgramOp : Rt_Op<"program", [Symbol, NoTerminator, SingleBlock,
    IsolatedFromAbove, NoRegionArguments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "the calls that every device makes, in order of issue";
  let description = [{
    Constraints:
    - `arena` is the program's arena in bytes, at least 0;
    - the body's ops are of this dialect, or index arithmetic;
    - every buffer lies within its memory: the arena, the constant, or the
      device's part of the variable, argument or result;
    - every stream is below `streams`, which is at most 8.

    Calls on one stream run in the order of the text; calls on two streams are
    ordered by `rt.record` and `rt.wait` alone. Stream 0 is the compute stream:
    the program begins and ends on it. Earlier uses of the memory end before the
    program's first call on stream 0 begins, and later uses wait for stream 0.
    `heddle-verify-executable` checks that this orders all calls that share
    bytes.

    Example:
    ```mlir
    rt.program @step arena(4096) results [#rt.port<"loss", tensor<f32>>] {
      rt.fill_zero result 0[0 : f32] serves <activation ["loss"]>
    }
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$arena,
                       DefaultValuedAttr<I32Attr, "1">:$streams,
                       DefaultValuedAttr<Ports, "{}">:$inputs,
                       DefaultValuedAttr<Ports, "{}">:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $sym_name `arena` `(` custom<Bytes>($arena) `)` (`streams` `(` $streams^ `)`)?
    (`arguments` $inputs^)? (`results` $outputs^)? attr-dict-with-keyword $body
  }];
}

def ExportOp : Rt_Op<"export", [Symbol]> {
  let summary = "a program that has become a function of the LLVM dialect";
  let description = [{
    Holds the facts about a program that the artifact's manifest needs.
    `rt.program` leaves it behind when it is lowered. Events are numbered below
    `events`. Constraint: `streams` is 1 to 8.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$function,
                       I64Attr:$arena, DefaultValuedAttr<I32Attr, "1">:$streams,
                       DefaultValuedAttr<I32Attr, "0">:$events,
                       DefaultValuedAttr<Ports, "{}">:$inputs,
                       DefaultValuedAttr<Ports, "{}">:$outputs);
  let assemblyFormat = [{
    $sym_name `as` $function `arena` `(` custom<Bytes>($arena) `)`
    (`streams` `(` $streams^ `)`)? (`events` `(` $events^ `)`)?
    (`arguments` $inputs^)? (`results` $outputs^)? attr-dict
  }];
  let hasVerifier = 1;
}

def ConstantOp : Rt_Op<"constant", [Symbol]> {
  let summary = "a constant tensor of the artifact";
  let arguments = (ins SymbolNameAttr:$sym_name, ElementsAttr:$value);
  let assemblyFormat = "$sym_name $value attr-dict";
}

def CoordinateOp : Rt_Op<"coordinate", [Pure,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "this device's index along a mesh axis";
  let arguments = (ins FlatSymbolRefAttr:$mesh, StrAttr:$axis);
  let results = (outs Index:$result);
  let assemblyFormat = "$mesh $axis attr-dict";
}

//===----------------------------------------------------------------------===//
// Compute
//===----------------------------------------------------------------------===//

/// An op that stands in a program, or in a loop of one.
def InProgram : ParentOneOf<["ProgramOp", "WhileOp"]>;

/// One call of the runtime, ordered on a stream. `serves` is required: profiles
/// and traces take the names of operators from it. `work` is a WorkKind.
class Rt_Call<string mnemonic, string work, dag extra, list<Trait> traits = []>
    : Rt_Op<mnemonic, !listconcat(
          [InProgram, DeclareOpInterfaceMethods<DeviceCallOpInterface>], traits)> {
  let arguments = !con(extra, (ins DefaultValuedAttr<I32Attr, "0">:$stream,
                                   ServesAttr:$serves));
  let extraClassDeclaration = "::heddle::rt::WorkKind getWorkKind() { "
                              "return ::heddle::rt::WorkKind::" # work # "; }";
}

def LaunchOp : Rt_Call<"launch", "Kernel",
    (ins FlatSymbolRefAttr:$kernel, Variadic<Index>:$indices,
         ArrayAttr:$operands_, Buffers:$results_),
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a kernel on all cores of the device";
  let description = [{
    `operands_` lists the kernel's operands in order: a buffer, or a unit where
    the kernel takes the next of `indices`. Both print as one list.

    Constraints: the kernel is a function with `heddle.kernel` whose operand and
    result types are those of the buffers. Once lowered, it is a function of the
    LLVM dialect with `heddle.blocks`.

    Example:
    ```mlir
    rt.launch @kernel_3 (arena[0 : 4x8xf32], %row) -> (arena[128 : 4x8xf32])
      serves <activation ["h.0.ln_1", "h.0.attn.c_attn"]>
    ```
  }];
  let assemblyFormat = [{
    (`stream` `(` $stream^ `)`)? $kernel
    custom<LaunchOperands>($indices, $operands_) `->` custom<BufferList>($results_) `serves` $serves attr-dict
  }];
}

def MatmulOp : Rt_Call<"matmul", "Matmul",
    (ins BufferAttr:$a, BufferAttr:$b, BufferAttr:$c, OptionalAttr<BufferAttr>:$bias,
         I64Attr:$m, I64Attr:$n, I64Attr:$k,
         DenseI64ArrayAttr:$a_strides, DenseI64ArrayAttr:$b_strides,
         I64Attr:$c_row_stride, UnitAttr:$accumulate,
         DefaultValuedAttr<Loops, "{}">:$loops,
         OptionalAttr<ProductEpilogue>:$epilogue, OptionalAttr<BufferAttr>:$extra)> {
  let summary = "C[m,n] = A[m,k] B[k,n] (+ C) (+ bias[n]), in loops";
  let description = [{
    Strides are [row, column] in elements; see heddle_rt_matmul_desc. Products
    of GPUs may have an `epilogue` with the buffer `extra`, as in
    `heddle.fused_contract` (lhs is A, rhs is B):
    - `gelu` writes its input to `extra`, in C's layout;
    - `gelu_grad` reads the input of gelu from `extra`, in C's layout;
    - `lhs_sums` writes the sums of A's rows to `extra`, and `rhs_sums` the sums
      of B's columns. Loops move `extra` on as they move a bias.
    Constraints:
    - one of A's two strides is 1, and one of B's;
    - at most 4 loops;
    - all elements that are read or written lie within the buffers;
    - C overlaps neither A nor B;
    - an epilogue has its buffer, and there is no such buffer without an
      epilogue;
    - `gelu` and `gelu_grad` have no loops;
    - a written `extra` overlaps no other buffer.
  }];
  let assemblyFormat = [{
    (`stream` `(` $stream^ `)`)? `m` `(` $m `)` `n` `(` $n `)` `k` `(` $k `)`
    `a` `(` custom<BareBuffer>($a) `strides` $a_strides `)`
    `b` `(` custom<BareBuffer>($b) `strides` $b_strides `)`
    `c` `(` custom<BareBuffer>($c) `stride` $c_row_stride `)`
    (`bias` `(` custom<BareBuffer>($bias)^ `)`)? (`accumulate` $accumulate^)?
    (`loops` $loops^)? (`epilogue` $epilogue^ custom<BareBuffer>($extra))?
    `serves` $serves attr-dict
  }];
  let hasVerifier = 1;
}

def AttentionOp : Rt_Call<"attention", "Attention",
    (ins BufferAttr:$q, BufferAttr:$k, BufferAttr:$v, BufferAttr:$o, BufferAttr:$lse,
         OptionalAttr<BufferAttr>:$step, OptionalAttr<BufferAttr>:$mask,
         Variadic<Index>:$offsets, F64Attr:$scale, UnitAttr:$causal,
         OptionalAttr<I64Attr>:$window,
         DefaultValuedAttr<F64Attr, "0.0">:$dropout,
         DefaultValuedAttr<I64Attr, "0">:$seed,
         OptionalAttr<DenseI64ArrayAttr>:$global_shape,
         OptionalAttr<StrAttr>:$op_name)> {
  let summary = "scaled dot-product attention";
  let description = [{
    Shapes, `window`, `mask`, `offsets` and `global_shape` are as in
    `heddle.attention`. All buffers are dense. `op_name` names the random stream
    of the dropout.
  }];
  let assemblyFormat = [{
    ($op_name^)? (`stream` `(` $stream^ `)`)? `q` `(` custom<BareBuffer>($q) `)`
    `k` `(` custom<BareBuffer>($k) `)` `v` `(` custom<BareBuffer>($v) `)`
    (`causal` $causal^)? (`window` `(` $window^ `)`)? `scale` `(` $scale `)`
    (`dropout` `(` $dropout^ `)`)? (`seed` `(` $seed^ `)`)?
    (`step` `(` custom<BareBuffer>($step)^ `)`)? (`mask` `(` custom<BareBuffer>($mask)^ `)`)?
    (`offsets` `(` $offsets^ `)`)? (`global_shape` `(` $global_shape^ `)`)?
    `->` `o` `(` custom<BareBuffer>($o) `)` `lse` `(` custom<BareBuffer>($lse) `)` `serves` $serves attr-dict
  }];
  let hasVerifier = 1;
}

def AttentionGradOp : Rt_Call<"attention_grad", "Attention",
    (ins BufferAttr:$q, BufferAttr:$k, BufferAttr:$v, BufferAttr:$o, BufferAttr:$lse,
         BufferAttr:$o_grad, BufferAttr:$q_grad, BufferAttr:$k_grad, BufferAttr:$v_grad,
         OptionalAttr<BufferAttr>:$step, OptionalAttr<BufferAttr>:$mask,
         Variadic<Index>:$offsets, F64Attr:$scale, UnitAttr:$causal,
         OptionalAttr<I64Attr>:$window,
         DefaultValuedAttr<F64Attr, "0.0">:$dropout,
         DefaultValuedAttr<I64Attr, "0">:$seed,
         OptionalAttr<DenseI64ArrayAttr>:$global_shape,
         OptionalAttr<StrAttr>:$op_name)> {
  let summary = "gradients of attention";
  let assemblyFormat = [{
    ($op_name^)? (`stream` `(` $stream^ `)`)? `q` `(` custom<BareBuffer>($q) `)`
    `k` `(` custom<BareBuffer>($k) `)` `v` `(` custom<BareBuffer>($v) `)`
    `o` `(` custom<BareBuffer>($o) `)` `lse` `(` custom<BareBuffer>($lse) `)`
    `o_grad` `(` custom<BareBuffer>($o_grad) `)`
    (`causal` $causal^)? (`window` `(` $window^ `)`)? `scale` `(` $scale `)`
    (`dropout` `(` $dropout^ `)`)? (`seed` `(` $seed^ `)`)?
    (`step` `(` custom<BareBuffer>($step)^ `)`)? (`mask` `(` custom<BareBuffer>($mask)^ `)`)?
    (`offsets` `(` $offsets^ `)`)? (`global_shape` `(` $global_shape^ `)`)?
    `->` `q` `(` custom<BareBuffer>($q_grad) `)` `k` `(` custom<BareBuffer>($k_grad) `)`
    `v` `(` custom<BareBuffer>($v_grad) `)` `serves` $serves attr-dict
  }];
  let hasVerifier = 1;
}

def EmbeddingGradOp : Rt_Call<"embedding_grad", "Kernel",
    (ins BufferAttr:$ids, BufferAttr:$rows, BufferAttr:$table,
         Optional<Index>:$first_row, UnitAttr:$accumulate)> {
  let summary = "adds rows into the gradient of a table";
  let description = [{
    table[ids[i] - first_row, :] (+)= rows[i, :]. Constraints: ids are i32; rows
    are ids' shape x width; the table is f32 [rows, width].
  }];
  let assemblyFormat = [{
    (`stream` `(` $stream^ `)`)? `ids` `(` custom<BareBuffer>($ids) `)`
    `rows` `(` custom<BareBuffer>($rows) `)` (`first_row` `(` $first_row^ `)`)?
    (`accumulate` $accumulate^)? `->` custom<BareBuffer>($table) `serves` $serves attr-dict
  }];
  let hasVerifier = 1;
}

def RotaryTableOp : Rt_Call<"rotary_table", "Kernel",
    (ins BufferAttr:$cos, BufferAttr:$sin, Optional<Index>:$first,
         DenseF64ArrayAttr:$frequencies)> {
  let summary = "cosines and sines of position * frequency";
  let assemblyFormat = [{
    (`stream` `(` $stream^ `)`)? (`first` `(` $first^ `)`)?
    `frequencies` `(` custom<ExactNumbers>($frequencies) `)`
    `->` custom<BareBuffer>($cos) `,` custom<BareBuffer>($sin) `serves` $serves attr-dict
  }];
  let hasVerifier = 1;
}

def CopyOp : Rt_Call<"copy", "Copy",
    (ins BufferAttr:$from, BufferAttr:$to,
         Optional<Index>:$from_offset, Optional<Index>:$bytes,
         DefaultValuedAttr<I64Attr, "1">:$blocks,
         DefaultValuedAttr<I64Attr, "0">:$from_stride,
         DefaultValuedAttr<I64Attr, "0">:$to_stride),
    [AttrSizedOperandSegments]> {
  let summary = "a two-level copy";
  let description = [{
    Copies `blocks` runs of `bytes` bytes. After each run `from` and `to` step
    by their strides, in bytes. `from_offset` is added to `from`'s address.
    Without `bytes` a run is the destination's size divided by `blocks`.
    Constraints: without dynamic values, all runs lie within the buffers.
  }];
  let assemblyFormat = [{
    (`stream` `(` $stream^ `)`)? custom<BareBuffer>($from)
    (`offset` `(` $from_offset^ `)`)? `->` custom<BareBuffer>($to)
    (`blocks` `(` $blocks^ `)`)? (`strides` `(` $from_stride^ `,` $to_stride `)`)?
    (`bytes` `(` $bytes^ `)`)? `serves` $serves attr-dict
  }];
  let hasVerifier = 1;
}

def FillZeroOp : Rt_Call<"fill_zero", "Copy", (ins BufferAttr:$to)> {
  let summary = "sets a buffer to zero";
  let assemblyFormat = "(`stream` `(` $stream^ `)`)? custom<BareBuffer>($to) `serves` $serves attr-dict";
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

/// A collective over the axes of a mesh. Common constraints: the mesh has the
/// axes; the buffers' element types are equal.
class Rt_Collective<string mnemonic, dag extra>
    : Rt_Call<mnemonic, "Collective",
              !con((ins BufferAttr:$in, BufferAttr:$out,
                        FlatSymbolRefAttr:$mesh, AxisListAttr:$axes), extra),
              [DeclareOpInterfaceMethods<SymbolUserOpInterface>]>;

def AllReduceOp : Rt_Collective<"all_reduce", (ins ReductionKindAttr:$kind)> {
  let summary = "sum or maximum over the group; may be in place";
  let description = [{Constraints: in and out have equal sizes.}];
  let assemblyFormat = [{
    (`stream` `(` $stream^ `)`)? custom<BareEnum>($kind) custom<BareBuffer>($in) `->` custom<BareBuffer>($out)
    `over` $mesh $axes `serves` $serves attr-dict
  }];
}

def AllGatherOp : Rt_Collective<"all_gather", (ins)> {
  let summary = "the members' buffers, one after the other";
  let description = [{
    Constraints: out has as many elements as in, times the number of members;
    both have one element type and do not overlap.
  }];
  let assemblyFormat = [{
    (`stream` `(` $stream^ `)`)? custom<BareBuffer>($in) `->` custom<BareBuffer>($out)
    `over` $mesh $axes `serves` $serves attr-dict
  }];
}

def ReduceScatterOp : Rt_Collective<"reduce_scatter", (ins ReductionKindAttr:$kind)> {
  let summary = "each member's run of the sum or maximum";
  let description = [{Constraints: those of `rt.all_gather`, reversed.}];
  let assemblyFormat = [{
    (`stream` `(` $stream^ `)`)? custom<BareEnum>($kind) custom<BareBuffer>($in) `->` custom<BareBuffer>($out)
    `over` $mesh $axes `serves` $serves attr-dict
  }];
}

def AllToAllOp : Rt_Collective<"all_to_all", (ins)> {
  let summary = "run i of member j becomes run j of member i";
  let description = [{
    Constraints: in and out have equal numbers of elements, which the number of
    members divides, and one element type. They do not overlap.
  }];
  let assemblyFormat = [{
    (`stream` `(` $stream^ `)`)? custom<BareBuffer>($in) `->` custom<BareBuffer>($out)
    `over` $mesh $axes `serves` $serves attr-dict
  }];
}

def BroadcastOp : Rt_Collective<"broadcast", (ins I64Attr:$root)> {
  let summary = "one member's buffer to every member";
  let assemblyFormat = [{
    (`stream` `(` $stream^ `)`)? custom<BareBuffer>($in) `->` custom<BareBuffer>($out)
    `root` $root `over` $mesh $axes `serves` $serves attr-dict
  }];
}

def PermuteOp : Rt_Collective<"permute", (ins DenseI64ArrayAttr:$sources)> {
  let summary = "member i receives the buffer of member sources[i]";
  let description = [{
    If sources[i] is -1, member i receives zeros. Constraints: in and out have
    equal types and do not overlap.
  }];
  let assemblyFormat = [{
    (`stream` `(` $stream^ `)`)? custom<BareBuffer>($in) `->` custom<BareBuffer>($out)
    `sources` $sources `over` $mesh $axes `serves` $serves attr-dict
  }];
}

class Rt_Transfer<string mnemonic> : Rt_Call<mnemonic, "Collective",
    (ins BufferAttr:$buffer, Index:$peer, FlatSymbolRefAttr:$mesh, AxisListAttr:$axes),
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let assemblyFormat = [{
    (`stream` `(` $stream^ `)`)? custom<BareBuffer>($buffer) `peer` `(` $peer `)`
    `over` $mesh $axes `serves` $serves attr-dict
  }];
}
def SendOp : Rt_Transfer<"send"> { let summary = "sends a buffer to a member"; }
def RecvOp : Rt_Transfer<"recv"> { let summary = "receives a buffer from a member"; }

//===----------------------------------------------------------------------===//
// Order
//===----------------------------------------------------------------------===//

class Rt_Event<string mnemonic> : Rt_Op<mnemonic, [InProgram]> {
  let arguments = (ins I32Attr:$event, DefaultValuedAttr<I32Attr, "0">:$stream);
  let assemblyFormat = "$event (`stream` `(` $stream^ `)`)? attr-dict";
}
def RecordOp : Rt_Event<"record"> {
  let summary = "an event that occurs when the stream's earlier calls are done";
}
def WaitOp : Rt_Event<"wait"> {
  let summary = "lets the stream go on when the event has occurred";
}

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

def WhileOp : Rt_Op<"while", [InProgram, NoTerminator, SingleBlock,
    NoRegionArguments]> {
  let summary = "alternates its two regions while the condition holds";
  let description = [{
    Runs `before`, and then `after` and `before` again while the condition is
    true. The host waits for all streams after `before` and reads the condition.

    Constraints: the condition is one i1; the regions may hold the same ops as a
    program.

    Example:
    ```mlir
    rt.while arena[64 : i1] before {
      rt.launch @kernel_0 (arena[0 : 4xf32]) -> (arena[64 : i1]) serves <activation ["close"]>
    } after {
      rt.launch @kernel_1 (arena[0 : 4xf32]) -> (arena[0 : 4xf32]) serves <activation ["halve"]>
    }
    ```
  }];
  let arguments = (ins BufferAttr:$condition);
  let regions = (region AnyRegion:$before, AnyRegion:$after);
  let assemblyFormat = [{
    custom<BareBuffer>($condition) `before` $before `after` $after attr-dict
  }];
  let hasVerifier = 1;
}

#endif // RT_OPS
