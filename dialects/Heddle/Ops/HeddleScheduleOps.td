//===- HeddleScheduleOps.td - Order of computations --------*- tablegen -*-===//

#ifndef HEDDLE_SCHEDULE_OPS
#define HEDDLE_SCHEDULE_OPS

include "dialects/Heddle/Ops/HeddleOpBase.td"

def BarrierOp : Heddle_Op<"barrier", [Pure, AttrSizedOperandSegments,
    InferTypeOpAdaptor, DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<PrecisionOpInterface>,
    DeclareOpInterfaceMethods<ShardingRuleOpInterface>,
    DeclareOpInterfaceMethods<WorkOpInterface>]> {
  let summary = "returns values, but only after other tensors are computed";
  let description = [{
    The results are the `values`, but no op that reads a result runs before all
    `values` and all tensors of `after` are computed. All passes treat a result
    and its value as different tensors: no fold, CSE or fusion looks through the
    op. So an op that reads a result is not merged with an equal op that reads
    the value. It computes the same tensor a second time, later.
    (StableHLO's optimization_barrier is such an op without `after`.) The op
    moves no data. It is removed when memory is planned, because the order of
    the program is final by then.
    Constraints: at least one value; the results have the types of the values.

    Example: `%y = heddle.barrier %x after %g : tensor<4x8xf32> after tensor<4x2xf32>`
  }];
  let arguments = (ins Variadic<StaticTensor>:$values,
                       Variadic<StaticTensor>:$after);
  let results = (outs Variadic<StaticTensor>:$results);
  let assemblyFormat = [{
    $values (`after` $after^)? attr-dict `:` type($values) (`after` type($after)^)?
  }];
  let hasVerifier = 1;
}

#endif // HEDDLE_SCHEDULE_OPS
