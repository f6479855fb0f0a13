//===- Toy.td - A dialect that Heddle knows nothing of -----*- tablegen -*-===//

#ifndef TOY
#define TOY

include "dialects/Interfaces/ShardingRuleOpInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

def ToyDialect : Dialect {
  let name = "toy";
  let cppNamespace = "::toy";
}

class Toy_Op<string mnemonic, list<string> methods = [],
             list<Trait> traits = []>
    : Op<ToyDialect, mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<ShardingRuleOpInterface, methods>], traits)>;

def Matrix : 2DTensorOf<[F32]>;
def Vector : 1DTensorOf<[F32]>;

def Toy_DenseOp : Toy_Op<"dense"> {
  let summary = "x w: rows times a matrix of inputs x outputs";
  let arguments = (ins Matrix:$x, Matrix:$w);
  let results = (outs Matrix:$y);
  let assemblyFormat = "$x `,` $w attr-dict `:` functional-type(operands, results)";
}

def Toy_ReluOp : Toy_Op<"relu", [], [SameOperandsAndResultType]> {
  let summary = "max(x, 0)";
  let arguments = (ins Matrix:$x);
  let results = (outs Matrix:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def Toy_NormalizeOp
    : Toy_Op<"normalize", ["localize"], [SameOperandsAndResultType]> {
  let summary = "divides each row by its length";
  let description = [{
    y = x / sqrt(sum of squares of the row). When rows are cut over devices,
    each device needs the whole row's sum: the op localizes itself to
    `toy.sum_squares`, an all-reduce and `toy.divide`.
  }];
  let arguments = (ins Matrix:$x);
  let results = (outs Matrix:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def Toy_SumSquaresOp : Toy_Op<"sum_squares"> {
  let summary = "the sum of squares of each row";
  let arguments = (ins Matrix:$x);
  let results = (outs Vector:$sums);
  let assemblyFormat = "$x attr-dict `:` type($x) `->` type($sums)";
}

def Toy_DivideOp : Toy_Op<"divide"> {
  let summary = "divides each row by the square root of its number";
  let arguments = (ins Matrix:$x, Vector:$sums);
  let results = (outs Matrix:$y);
  let assemblyFormat = "$x `,` $sums attr-dict `:` functional-type(operands, results)";
}

#endif
