//===- Passes.td - The pass that cuts programs -------------*- tablegen -*-===//

#ifndef HEDDLE_STAGES_PASSES
#define HEDDLE_STAGES_PASSES

include "mlir/Pass/PassBase.td"

def CutStagesPass : Pass<"heddle-cut-stages", "::mlir::ModuleOp"> {
  let summary = "cuts programs into the stages of a pipeline";
  let description = [{
    Runs on the sharded program, where a value between two stages has a known
    sharding, if the module has `heddle.pipeline`. Otherwise it does nothing.

    Every op of a program gets a stage. An op of the forward pass (an op that the
    loss or an output depends on) gets the one that its `heddle.stage` says; an
    op without one gets that of its last operand. If no op of the module has a
    stage, the forward passes are cut where the stages take about the same time,
    forward and backward, by the cluster's roofline, and little crosses. If the
    batch runs in parts, both parts of an op are in one stage. An op of the backward
    pass gets the last stage that its gradients have reached and that has its other
    operands, but none before the first stage of a variable whose gradient it helps
    to compute: the variables of a stage are those that its forward pass reads. Ops
    that are cheap and read only arguments, or only variables, are repeated wherever
    they are needed.

    Then each function becomes one function for each stage and kind of work
    (`heddle.stage_program`): the forward pass; the backward pass; and, if the
    schedule splits the backward pass, what no other stage waits for. The last
    stage has its forward and backward pass in one function. The arguments and
    results of a function are those of the whole program that it uses, and the
    values that cross the cut, by the names of results. If a value is replicated
    over the other mesh axes, each device may send only a part of it, and the
    receiving stage gathers the parts. This is done where it takes less time on
    the cluster.

    A variable is stored on the devices whose stages read it (`heddle.ranks`). If
    there are several, each adds the gradients that arise in its own stages;
    functions of the kind `send_gradients` return these sums once a step, and the
    update adds them in the order of devices. The update becomes one function for
    each device, which updates the variables of the device. The sums that it needs
    of all devices (the loss, the number of labels, the norm) are one all-reduce.
    Without a barrier between steps (`heddle.no_step_barrier`), updates do not wait
    for each other: functions of the kind `report`, which run behind them, add up
    the norm from device to device.

    Errors: a step without micro-batches (`heddle.micro_batches`); a stage that
    reads a value of a later one; an op that needs the variables of two stages; a
    mesh without the pipeline's axis; a pipeline axis that splits a tensor.

    Input: a sharded program. Output: the same in parts, without `heddle.stage`.
  }];
  let options = [
    Option<"cluster", "cluster", "::heddle::ClusterChoice",
           /*default=*/"::heddle::ClusterChoice()",
           "the cluster whose times decide; by default, all devices are equally "
           "near">];
  let dependentDialects = ["::heddle::HeddleDialect",
                           "::mlir::arith::ArithDialect"];
}

#endif
