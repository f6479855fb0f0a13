//===- Passes.td - The pass that cuts programs -------------*- tablegen -*-===//

#ifndef HEDDLE_STAGES_PASSES
#define HEDDLE_STAGES_PASSES

include "mlir/Pass/PassBase.td"

def CutStagesPass : Pass<"heddle-cut-stages", "::mlir::ModuleOp"> {
  let summary = "cuts programs into the stages of a pipeline";
  let description = [{
    Does nothing if the module has no `heddle.pipeline`. Runs on the sharded
    program, because there a value between two stages has a known sharding.

    Every op of a program gets a stage. The forward pass consists of the ops
    that the loss or an output depends on. Such an op gets the stage that its
    `heddle.stage` says. Without this attribute, it gets the latest stage of its
    operands. If no op of the module has the attribute, the pass cuts the
    forward pass itself: all stages take about the same time, forward and
    backward together, by the cluster's roofline, and few bytes cross the cuts.
    If the batch runs in parts, the ops that do the same for different parts are
    in one stage.

    Gradients travel from the last stage to the first. An op of the backward
    pass gets the last stage that all its gradients reach and that has its other
    operands. (A stage has the variables that its forward pass reads.) But the
    op never gets a stage before the first stage of a variable whose gradient it
    helps to compute. Cheap ops that read only arguments, or only variables, are
    repeated wherever they are needed.

    Then each function becomes one function for each stage and kind of work
    (`heddle.stage_program`): the forward pass; the backward pass; and, if the
    schedule splits the backward pass, those of its ops that no other stage
    waits for. The last stage has its forward and backward pass in one function.
    A function has the arguments and results of the whole program that it uses.
    For each value that crosses a cut, one function has a result, and each
    function that reads the value has an argument of the same name. If a value
    is replicated over the other mesh axes, each device may send only a part of
    it, and the receiving stage gathers the parts. This is done where it takes
    less time on the cluster.

    A variable is stored on the devices whose stages read it (`heddle.ranks`).
    If there are several such devices, each adds the gradients that arise in its
    own stages. Functions of the kind `send_gradients` return these sums once a
    step, and the update adds them in the order of devices. The update becomes
    one function for each device, which updates the variables of the device. It
    also needs sums over all devices (the loss, the number of labels, the norm).
    One all-reduce computes all of them. Without a barrier between steps
    (`heddle.no_step_barrier`), the updates of different devices do not wait for
    each other: functions of the kind `report`, which run after them, add up the
    norm from device to device.

    Errors: a step without micro-batches (`heddle.micro_batches`); a stage that
    reads a value of a later one; an op that needs the variables of two stages; a
    mesh without the pipeline's axis; a pipeline axis that splits a tensor.

    Input: a sharded program. Output: the functions of its stages, without
    `heddle.stage`.
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
