//===- HeddleLoopOps.td - Loops of a device's program ------*- tablegen -*-===//

#ifndef HEDDLE_LOOP_OPS
#define HEDDLE_LOOP_OPS

include "dialects/Heddle/Ops/HeddleOpBase.td"
include "mlir/IR/SymbolInterfaces.td"

def WhileOp : Heddle_Op<"while", [AttrSizedOperandSegments,
    AttrSizedResultSegments, MemoryEffects<[MemRead, MemWrite]>,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "calls two functions in turn until the condition is false";
  let description = [{
    `scf.while` becomes this op in a device's program, and its two regions
    become functions. `carried` starts as `inits`. The op executes:
    ```
    condition, results = before(carried, captured)
    if condition: carried = after(results, captured), and again
    ```
    The results hold all the memory that the loop needs. Only `results` is read
    after the loop. `workspace` holds the intermediate tensors of the two
    functions, as bytes (i8); `heddle-plan-arenas` sets its size.

    Constraints:
    - both functions are private, have a body, and take and return the values
      written above;
    - the condition is the same on all devices. Otherwise some devices would
      leave the loop while the others wait for them in a collective.

    Example:
    ```mlir
    %y, %h, %c, %w = heddle.while @before, @after
      init(%x : tensor<4xf32>) captured(%a : tensor<4x4xf32>)
      -> (tensor<4xf32>) carried(tensor<4xf32>) condition tensor<i1> workspace tensor<1xi8>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$before, FlatSymbolRefAttr:$after,
                       Variadic<StaticTensor>:$inits,
                       Variadic<StaticTensor>:$captured);
  let results = (outs Variadic<StaticTensor>:$results,
                      Variadic<StaticTensor>:$carried,
                      0DTensorOf<[I1]>:$condition,
                      StaticRankedTensor<RankedTensorOf<[I8]>>:$workspace);
  let assemblyFormat = [{
    $before `,` $after `init` `(` ($inits^ `:` type($inits))? `)`
    (`captured` `(` $captured^ `:` type($captured) `)`)?
    (`->` `(` type($results)^ `)`)? (`carried` `(` type($carried)^ `)`)?
    `condition` type($condition) `workspace` type($workspace) attr-dict
  }];
}

#endif // HEDDLE_LOOP_OPS
