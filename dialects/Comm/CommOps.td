//===- CommOps.td - Collectives over mesh axes -------------*- tablegen -*-===//

#ifndef COMM_OPS
#define COMM_OPS

include "dialects/Heddle/HeddleAttrs.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

def CommDialect : Dialect {
  let name = "comm";
  let cppNamespace = "::heddle::comm";
  let summary = "One device's program: collectives over mesh axes on local tensors";
  let description = [{
    Every device of the mesh runs the same program. An op over the axes
    {"a", "b"} is executed together by the devices that differ only in these
    coordinates. These devices are the op's members, numbered by their
    coordinates on the axes, the first axis slowest.

    Collectives have memory effects: they must not be merged, dropped, or
    reordered against each other, or the devices would wait for each other
    for ever.
  }];
  let useDefaultTypePrinterParser = 1;
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def TokenType : TypeDef<CommDialect, "Token"> {
  let mnemonic = "token";
  let summary = "the future result of a collective in flight";
  let parameters = (ins "::mlir::RankedTensorType":$value);
  let assemblyFormat = "`<` $value `>`";
}

class Comm_Op<string mnemonic, list<Trait> traits = []>
    : Op<CommDialect, mnemonic, traits>;

/// See Comm.h.
def Collective : NativeOpTrait<"Collective"> {
  let cppNamespace = "::heddle::comm";
}

/// A collective on one tensor over axes of a mesh. Common constraints: `mesh`
/// names a heddle.mesh; `axes` has at least one axis; each is an axis of the
/// mesh and occurs once.
class Comm_Collective<string mnemonic, dag extra = (ins), list<Trait> traits = []>
    : Comm_Op<mnemonic, !listconcat([Collective, MemoryEffects<[MemRead, MemWrite]>,
        DeclareOpInterfaceMethods<SymbolUserOpInterface>], traits)> {
  let arguments = !con((ins AnyRankedTensor:$input, FlatSymbolRefAttr:$mesh,
                            AxisListAttr:$axes), extra);
  let results = (outs AnyRankedTensor:$result);
}

def AllReduceOp : Comm_Collective<"all_reduce", (ins ReductionKindAttr:$kind),
                                  [SameOperandsAndResultType]> {
  let summary = "the sum or maximum over the members, on every member";
  let description = [{
    Example: `%p = comm.all_reduce sum %q over @mesh <{"tp"}> : tensor<4x8xf32>`
  }];
  let assemblyFormat = "custom<BareEnum>($kind) $input `over` $mesh $axes attr-dict `:` type($input)";
}

def AllGatherOp : Comm_Collective<"all_gather", (ins I64Attr:$dim)> {
  let summary = "the members' parts, one after the other, on every member";
  let description = [{
    Constraints: `dim` is within the rank; the operand's size along it is the
    result's divided by the number of members, rounded up (gathered rows beyond
    the result's size are dropped); all other sizes are equal.
  }];
  let assemblyFormat = "$input `dim` $dim `over` $mesh $axes attr-dict `:` type($input) `->` type($result)";
}

def ReduceScatterOp : Comm_Collective<"reduce_scatter",
    (ins ReductionKindAttr:$kind, I64Attr:$dim)> {
  let summary = "each member's part of the sum or maximum over the members";
  let description = [{
    Constraints: the result's size along `dim` is the operand's divided by the
    number of members, rounded up (rows beyond the operand's end are zero); all
    other sizes are equal.
  }];
  let assemblyFormat = "custom<BareEnum>($kind) $input `dim` $dim `over` $mesh $axes attr-dict `:` type($input) `->` type($result)";
}

def AllToAllOp : Comm_Collective<"all_to_all",
    (ins I64Attr:$split_dim, I64Attr:$concat_dim)> {
  let summary = "moves a split from one dimension to another";
  let description = [{
    The operand is whole along `split_dim` and this member's part along
    `concat_dim`. The result is this member's part along `split_dim` and whole
    along `concat_dim`. Constraints: the dimensions differ; the result's size
    along `split_dim` is the operand's divided by the number of members, rounded
    up; along `concat_dim` the operand's size is the result's divided by the
    number of members, rounded up.
  }];
  let assemblyFormat = "$input `split` $split_dim `concat` $concat_dim `over` $mesh $axes attr-dict `:` type($input) `->` type($result)";
}

def BroadcastOp : Comm_Collective<"broadcast", (ins I64Attr:$root),
                                  [SameOperandsAndResultType]> {
  let summary = "one member's value on every member";
  let description = [{Constraints: `root` is a member's index.}];
  let assemblyFormat = "$input `root` $root `over` $mesh $axes attr-dict `:` type($input)";
}

def PermuteOp : Comm_Collective<"permute", (ins DenseI64ArrayAttr:$sources),
                                [SameOperandsAndResultType]> {
  let summary = "member i receives the value of member sources[i]";
  let description = [{
    Constraints: `sources` has one entry for each member: the index of a member,
    or -1 to receive zeros.
  }];
  let assemblyFormat = "$input `sources` $sources `over` $mesh $axes attr-dict `:` type($input)";
}

def SendOp : Comm_Op<"send", [MemoryEffects<[MemRead, MemWrite]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "sends a tensor to the member at a fixed distance";
  let description = [{
    Member i sends to member (i + shift) modulo the number of members. Every
    send needs a matching `comm.recv` with the opposite shift; this is not
    verified.
  }];
  let arguments = (ins AnyRankedTensor:$input, FlatSymbolRefAttr:$mesh,
                       AxisListAttr:$axes, I64Attr:$shift);
  let assemblyFormat = "$input `shift` $shift `over` $mesh $axes attr-dict `:` type($input)";
}

def RecvOp : Comm_Op<"recv", [MemoryEffects<[MemRead, MemWrite]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "receives a tensor from the member at a fixed distance";
  let arguments = (ins FlatSymbolRefAttr:$mesh, AxisListAttr:$axes, I64Attr:$shift);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "`shift` $shift `over` $mesh $axes attr-dict `:` type($result)";
}

//===----------------------------------------------------------------------===//
// Local
//===----------------------------------------------------------------------===//

def AxisIndexOp : Comm_Op<"axis_index", [Pure,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "this device's index among the members";
  let description = [{
    Example: `%i = comm.axis_index @mesh <{"tp"}>`
  }];
  let arguments = (ins FlatSymbolRefAttr:$mesh, AxisListAttr:$axes);
  let results = (outs Index:$result);
  let assemblyFormat = "$mesh $axes attr-dict";
}

def SliceOp : Comm_Op<"slice", [Pure,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "this member's part of a replicated tensor";
  let description = [{
    Constraints: the result's size along `dim` is the operand's divided by the
    number of members, rounded up; rows beyond the operand's end are zero.
  }];
  let arguments = (ins AnyRankedTensor:$input, FlatSymbolRefAttr:$mesh,
                       AxisListAttr:$axes, I64Attr:$dim);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$input `dim` $dim `over` $mesh $axes attr-dict `:` type($input) `->` type($result)";
}

//===----------------------------------------------------------------------===//
// Asynchronous pairs
//===----------------------------------------------------------------------===//

def StartOp : Comm_Op<"start", [SingleBlock, MemoryEffects<[MemRead, MemWrite]>]> {
  let summary = "issues a collective without waiting for it";
  let description = [{
    The region holds one collective and yields its result. The collective runs
    on a communication stream, beside the ops that follow, until the
    `comm.wait`. Collectives of one stream run one after the other, in the order
    of the text. Constraints: the region's ops are one collective and the
    `comm.yield` of its result; the token's type is that of the yielded value;
    `stream` is 1 (the default) to 7, because computations run on stream 0.

    Example:
    ```mlir
    %t = comm.start stream(2) : !comm.token<tensor<8xf32>> {
      %s = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<8xf32>
      comm.yield %s : tensor<8xf32>
    }
    %y = comm.wait %t : !comm.token<tensor<8xf32>>
    ```
  }];
  let arguments = (ins DefaultValuedAttr<I32Attr, "1">:$stream);
  let regions = (region SizedRegion<1>:$body);
  let results = (outs TokenType:$token);
  let assemblyFormat = "(`stream` `(` $stream^ `)`)? attr-dict `:` type($token) $body";
  let extraClassDeclaration = [{
    /// The collective in flight.
    ::mlir::Operation *getCollective() { return &getBody().front().front(); }
  }];
  let hasVerifier = 1;
}

def YieldOp : Comm_Op<"yield", [Pure, Terminator, HasParent<"StartOp">]> {
  let summary = "ends the region of comm.start";
  let arguments = (ins AnyRankedTensor:$value);
  let assemblyFormat = "$value attr-dict `:` type($value)";
}

def WaitOp : Comm_Op<"wait", [MemoryEffects<[MemRead, MemWrite]>,
    TypesMatchWith<"the result is the token's value", "token", "result",
                   "::mlir::cast<::heddle::comm::TokenType>($_self).getValue()">]> {
  let summary = "waits for a collective in flight and returns its result";
  let arguments = (ins TokenType:$token);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "$token attr-dict `:` type($token)";
  let extraClassDeclaration = [{
    /// The start of the collective; null for a token of unknown origin.
    StartOp getStart() { return getToken().getDefiningOp<StartOp>(); }
  }];
}

#endif
