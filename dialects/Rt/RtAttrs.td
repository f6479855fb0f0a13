//===- RtAttrs.td - Places of buffers, ports, loops --------*- tablegen -*-===//

#ifndef RT_ATTRS
#define RT_ATTRS

include "dialects/Heddle/HeddleAttrs.td"
include "mlir/IR/AttrTypeBase.td"

def RtDialect : Dialect {
  let name = "rt";
  let cppNamespace = "::heddle::rt";
  let summary = "Executable programs: calls of the runtime on placed buffers";
  let description = [{
    The program of one device, call by call, in terms of
    runtime/include/heddle_rt/abi.h. Every buffer is written with its place, so
    the text says which bytes a call reads and writes; nothing is allocated
    while a program runs. The only SSA values are indices (`rt.coordinate` and
    `arith` on it).
  }];
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::heddle::HeddleDialect",
                           "::mlir::arith::ArithDialect"];
  let extraClassDeclaration = [{
    void registerAttributes();
  }];
}

class Rt_Attr<string name, string mnemonic_> : AttrDef<RtDialect, name> {
  let mnemonic = mnemonic_;
}

def BufferAttr : Rt_Attr<"Buffer", "buffer"> {
  let summary = "a dense tensor at a place in memory";
  let description = [{
    The buffer lies in one of these memories:
    - `arena[OFFSET : SHAPE]`: the program's arena;
    - `variable @x[OFFSET : SHAPE]`: this device's part of a variable;
    - `argument N[…]`, `result N[…]`: the program's N-th argument or result;
    - `constant @c[…]`: an `rt.constant`.

    OFFSET counts bytes. The tensor is dense and row-major.

    Example: `#rt.buffer<arena[3145728 : 4x256x768xf32]>`; inside an op
    `arena[3145728 : 4x256x768xf32]`.
  }];
  let parameters = (ins "::heddle::rt::Space":$space,
                        "::mlir::FlatSymbolRefAttr":$symbol, "int64_t":$index,
                        "int64_t":$offset, "::mlir::RankedTensorType":$type);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getBytes() const;
    int64_t getNumElements() const { return getType().getNumElements(); }
    /// The buffer of this type that begins `offset` bytes after this one.
    BufferAttr getView(int64_t offset, ::mlir::RankedTensorType type) const;
    /// Whether both buffers lie in the same memory, such as the arena.
    bool sameMemory(BufferAttr other) const;
    /// Whether the two buffers have a byte in common.
    bool overlaps(BufferAttr other) const;
  }];
}

def PortAttr : Rt_Attr<"Port", "port"> {
  let summary = "an argument or result of a program, as the whole mesh sees it";
  let description = [{
    Holds the port's name, its global type, its sharding (replicated if absent),
    its role, and the ranks that have it (all if absent).

    Example: `#rt.port<"tokens", tensor<8x128xi32>, <@mesh, [{"dp"}, {} ]>
    as <features>>`, `#rt.port<"x", tensor<4xf32> in <@mesh, {"pp" = [0]}>>`
  }];
  let parameters = (ins "::mlir::StringAttr":$name,
                        "::mlir::RankedTensorType":$type,
                        OptionalParameter<"::heddle::ShardingAttr">:$sharding,
                        OptionalParameter<"::heddle::PortRoleAttr">:$role,
                        OptionalParameter<"::heddle::RanksAttr">:$ranks);
  let assemblyFormat = [{
    `<` $name `,` $type (`,` $sharding^)? (`as` $role^)? (`in` $ranks^)? `>`
  }];
}

def LoopAttr : Rt_Attr<"Loop", "loop"> {
  let summary = "a loop around a matrix product";
  let description = [{
    A loop of `extent` iterations. Each iteration moves the operands A, B, C and
    the bias on by `a`, `b`, `c` and `bias` elements. With `c = 0` and an extent
    above 1, the loop is a sum: all iterations add to the same C.
  }];
  let parameters = (ins "int64_t":$extent, "int64_t":$a, "int64_t":$b,
                        "int64_t":$c, DefaultValuedParameter<"int64_t", "0">:$bias);
  let assemblyFormat = [{
    `<` $extent `,` `a` `=` $a `,` `b` `=` $b `,` `c` `=` $c (`,` `bias` `=` $bias^)? `>`
  }];
}

def WorkAttr : Rt_Attr<"Work", "work"> {
  let summary = "the work of one launch of a kernel";
  let description = [{
    States the FLOPs (a multiply-add counts as two), and the bytes that any
    execution must read and write. A kernel that is lowered to the LLVM dialect
    has this attribute as `rt.work`.

    Example: `#rt.work<flops = 800, bytes = 1600>`.
  }];
  let parameters = (ins "int64_t":$flops, "int64_t":$bytes);
  let assemblyFormat = "`<` `flops` `=` $flops `,` `bytes` `=` $bytes `>`";
}

#endif // RT_ATTRS
