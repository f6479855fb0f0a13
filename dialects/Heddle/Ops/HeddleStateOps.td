//===- HeddleStateOps.td - Meshes, variables, shardings ----*- tablegen -*-===//

#ifndef HEDDLE_STATE_OPS
#define HEDDLE_STATE_OPS

include "dialects/Heddle/Ops/HeddleOpBase.td"
include "mlir/IR/SymbolInterfaces.td"

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

def VariableOp : Heddle_Op<"variable", [Symbol,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a tensor that lives from step to step";
  let description = [{
    The type is always the global one. `storage` is the sharding of the tensor
    between its uses; a use may need another sharding. The padding of every
    device's part is zero. `checkpoint` names the tensor of a checkpoint that
    holds the variable's values, possibly in another shape. `slice` states which
    part of a larger tensor the variable is; the checkpoint then names the
    larger tensor. `state` names the parameter that a gradient or optimizer
    state belongs to.

    Constraints:
    - the type has a static shape and elements that are numbers;
    - a slice lies within its tensor;
    - the checkpoint's tensor has as many elements as the variable, or as the
      whole tensor if the variable is a slice;
    - the storage has the type's rank;
    - the storage is partial only for a variable that sums over a step's
      micro-batches (role gradient or loss) and starts from zeros. Each device
      then has a sum of its own;
    - with `state`, the role is the one of the state's kind, and the state's
      parameter is a variable of role parameter.

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
                       OptionalAttr<CheckpointAttr>:$checkpoint,
                       OptionalAttr<SliceAttr>:$slice,
                       OptionalAttr<StateAttr>:$state);
  let assemblyFormat = [{
    $sym_name `:` $type custom<BareEnum>($role) `init` `(` custom<BareInit>($init) `)`
    (`storage` `(` $storage^ `)`)? (`checkpoint` `(` $checkpoint^ `)`)?
    (`slice` `(` $slice^ `)`)? (`state` `(` $state^ `)`)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() {
      return ::mlir::cast<::mlir::RankedTensorType>(getType());
    }
    /// Whether the variable sums over a step's micro-batches, and so is zero
    /// between steps.
    bool isSumOfStep() {
      return getRole() == VariableRole::Gradient ||
             getRole() == VariableRole::Loss;
    }
    /// Whether the variable belongs to the model, which reads it: a parameter
    /// or a buffer.
    bool isOfModel() {
      return getRole() == VariableRole::Parameter ||
             getRole() == VariableRole::Buffer;
    }
    /// The type of the tensor that this variable is a slice of, or the
    /// variable's own type if it is no slice.
    ::mlir::RankedTensorType getWholeType();
  }];
}

def LoadOp : Heddle_Op<"load", [MemoryEffects<[MemRead]>,
                                DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "reads the value of a variable";
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

#endif // HEDDLE_STATE_OPS
