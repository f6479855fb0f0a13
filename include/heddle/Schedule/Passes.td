//===- Passes.td - Passes that order a device's program ----*- tablegen -*-===//

#ifndef HEDDLE_SCHEDULE_PASSES
#define HEDDLE_SCHEDULE_PASSES

include "mlir/Pass/PassBase.td"

def StartCollectivesPass : Pass<"heddle-start-collectives", "::mlir::ModuleOp"> {
  let summary = "lets every collective run beside the computations";
  let description = [{
    Runs after kernels are formed and before memory is planned. In program
    functions, each collective becomes a `comm.start` and a `comm.wait`. Both
    stand between the op that computes its operand and the first op that reads
    its result. The results of the program keep their bits.

    The pass considers no costs. It is a schedule for tests, and its options
    produce any order that the values allow. Groups of devices get the streams 1
    to `streams` in turn, in the order in which they appear. So all collectives
    of a group are on one stream, in one order on all devices. Sends and receives
    stay on the compute stream.
  }];
  let options = [
    Option<"order", "order", "::heddle::StartOrder",
           /*default=*/"::heddle::StartOrder::Earliest",
           "where collectives start and where they are waited for",
           [{::llvm::cl::values(
             clEnumValN(::heddle::StartOrder::Earliest, "earliest",
                        "start behind the operand, wait before the first reader"),
             clEnumValN(::heddle::StartOrder::Latest, "latest",
                        "start and wait before the first reader"),
             clEnumValN(::heddle::StartOrder::Random, "random",
                        "start and wait anywhere between the two"))}]>,
    Option<"seed", "seed", "uint64_t", /*default=*/"0",
           "the seed of the random order">,
    Option<"streams", "streams", "int32_t", /*default=*/"2",
           "the number of communication streams, 1 to 7">];
  let dependentDialects = ["::heddle::comm::CommDialect"];
}

def OrderProgramPass : Pass<"heddle-order-program", "::mlir::ModuleOp"> {
  let summary = "orders a device's program so that communication is hidden";
  let description = [{
    Runs after kernels are formed and before memory is planned. Chooses the order
    of the kernel calls, library calls and collectives of each program function
    that has collectives, and lets the collectives run beside the computations.
    The results of the program keep their bits.

    The order is that of the shortest of several schedules, by the cost model: a
    computation takes the time of a roofline of the cluster's device, a
    collective that of the cluster's links. The links of one level of the
    topology serve one collective at a time. If the live tensors of all schedules
    exceed the memory, the one that exceeds it least is taken. Tensors that
    share memory when it is planned count twice here, so the limit is a cautious
    one. In a pipeline, each program has the limit of its stage's device: what is
    left of its memory beside the variables, arguments and results of its
    programs and the values between stages, of all micro-batches in flight. If
    nothing is left, a warning says so, and the schedule with the fewest live
    bytes is taken.

    A product whose result only goes to an all-reduce may be cut into row chunks,
    and the all-reduce alike. Then the first rows are summed while the next ones
    are computed, so that even a product and a sum that depend on each other
    overlap. All such products of a program are cut into the same number of
    chunks, if that makes its schedule shorter.

    A collective starts right behind the op that computes its operand and is
    waited for before the first op that reads its result. If its operand is a
    megabyte larger than its result, and nothing else reads the operand later
    (the gradient of a weight that is scattered), the wait stands earlier: before
    the first computation that the schedule begins after twice the time of the
    collective. So the memory of the operand is free from there on. A collective whose
    operand needs no computation, such as the gather of a weight, starts at the
    time that the schedule gives it. At most `ahead` bytes of such results
    wait for their readers. Streams are chosen as by `heddle-start-collectives`.

    With the order `turns`, nothing is searched. The parts of the batch take
    turns: each part computes up to its next collective, then the next part
    does. The first part goes on after the last one. So one part's collective
    runs beside the other parts' computations, and recomputation beside the
    collective of the gradient that it serves.
  }];
  let options = [
    Option<"order", "order", "::heddle::ProgramOrder",
           /*default=*/"::heddle::ProgramOrder::Shortest", "the order",
           [{::llvm::cl::values(
             clEnumValN(::heddle::ProgramOrder::Turns, "turns",
                        "parts of the batch take turns at each collective"),
             clEnumValN(::heddle::ProgramOrder::Shortest, "shortest",
                        "the shortest of several orders"))}]>,
    Option<"cluster", "cluster", "::heddle::ClusterChoice",
           /*default=*/"::heddle::ClusterChoice()",
           "the cluster whose times decide; by default, all devices are equally "
           "near">,
    Option<"memory", "memory", "int64_t", /*default=*/"0",
           "the most bytes of live tensors; 0: what variables, arguments, "
           "results and values between stages leave of a device's memory">,
    Option<"reserve", "reserve", "int64_t", /*default=*/"0",
           "bytes by which the limit is lowered if `memory` is 0">,
    Option<"ahead", "ahead", "int64_t", /*default=*/"0",
           "the most bytes of results that need no computation and wait for "
           "their first reader; 0: those of the largest one">,
    Option<"chunks", "chunks", "int64_t", /*default=*/"8",
           "the most row chunks of a product; 1: products stay whole">,
    Option<"tries", "tries", "int64_t", /*default=*/"500",
           "the number of changes of the best order to try; fewer for a program "
           "of many thousand ops">,
    Option<"seed", "seed", "uint64_t", /*default=*/"0",
           "the seed of the schedules that are tried">,
    Option<"streams", "streams", "int32_t", /*default=*/"2",
           "the number of communication streams, 1 to 7">,
    Option<"report", "report", "bool", /*default=*/"false",
           "emit a remark with the predicted time of each program and its lower "
           "bounds">];
  let dependentDialects = ["::heddle::comm::CommDialect",
                           "::mlir::tensor::TensorDialect"];
}

def ChunkExchangesPass
    : Pass<"heddle-chunk-exchanges", "::mlir::func::FuncOp"> {
  let summary = "cuts products and the gathers and scatters beside them";
  let description = [{
    Runs on one device's program, before collectives are packed. A product whose
    result only goes to a reduce-scatter is cut into `chunks` chunks of rows, and
    the reduce-scatter alike: the first rows are sent while the next ones are
    computed. An all-gather is cut with the products that read its rows: the
    first rows are multiplied while the next ones are gathered. What else reads
    the gathered tensor reads all chunks, joined.

    Rows are those of the outermost dimension, such as samples. The exchange must
    run along another dimension, such as the sequence, so that no row moves.
    Products and exchanges whose rows do not divide stay whole. Sums keep their
    bits, as each element is summed as before.
    ```
    %p = heddle.contract [bsh, hf -> bsf] %x, %w : (8x512x1024, 1024x64) -> 8x512x64
    %y = comm.reduce_scatter sum %p dim 1 : 8x512x64 -> 8x256x64
    ```
    becomes, with two chunks, a product of `%x[0:4]` and its reduce-scatter to
    4x256x64, another one of `%x[4:8]`, and a `heddle.stack` of both results.
  }];
  let options = [
    Option<"chunks", "chunks", "int64_t", /*default=*/"2",
           "the number of chunks, at least 2">];
  let dependentDialects = ["::heddle::HeddleDialect",
                           "::mlir::tensor::TensorDialect"];
}

def RingExchangesPass : Pass<"heddle-ring-exchanges", "::mlir::ModuleOp"> {
  let summary = "cuts products and exchanges of their rows into steps of a ring";
  let description = [{
    Runs on one device's program, before collectives are packed. For exchanges
    along the rows of a product, which heddle-chunk-exchanges leaves whole.

    - An all-gather and the products that read its rows: each member multiplies
      its own rows first, while the next member's rows are on their way to it
      (`comm.permute`). A ring of n members has n - 1 transfers.
    - A product and the reduce-scatter of its result: each member computes its
      part of one member's rows, and adds it to what it receives, while the next
      part is computed. The sums have another order of members for each block of
      rows.
    - An all-reduce that alone reads a product is a reduce-scatter and an
      all-gather, and each is cut as above where it can be.

    The dimensions before the rows must have size 1, so that blocks of rows are
    runs of memory; the members must divide the rows; the product has neither
    bias nor accumulator. Other products and exchanges stay whole, and so do
    those in the bodies of loops and branches.
    ```
    %g = comm.all_gather %x dim 0 : 4x64 -> 8x64
    %p = heddle.contract [bh, hf -> bf] %g, %w : (8x64, 64x32) -> 8x32
    ```
    becomes, among two members, `%y = comm.permute %x sources [1, 0]`, a product
    of %x and one of %y. Member 0 has the rows in this order, member 1 in the
    reverse one, so the products are joined at places that depend on the member.
  }];
  let dependentDialects = ["::heddle::HeddleDialect",
                           "::heddle::comm::CommDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def RecomputePass : Pass<"heddle-recompute", "::mlir::ModuleOp"> {
  let summary = "computes values of the forward pass again in the backward pass";
  let description = [{
    Runs on one device's program, before collectives are combined. In functions
    that compute a loss and read values of the forward pass behind it, values
    are computed again instead of being kept. Random numbers are the same again,
    as functions of seed, step and position. Results may differ in the last bits,
    because copies are fused with other ops than their originals.

    The forward pass is cut into segments. Where its ops repeat, as the layers of
    a network do, a segment is one period, cut where the fewest bytes are live.
    (Names and kinds of ops do not matter.) A forward pass that does not repeat
    is cut where fewer bytes are live than around. Values that cross a cut are
    kept. Ops before the first and behind the last layer are not computed again.
    Within a segment, a least cut of its graph decides:
    - `layer`: the fewest bytes are kept;
    - `communication`: no collective runs again. Of the values between the
      collectives and what the backward pass reads, the fewest bytes are kept;
    - `optimal`: each kept byte has a price in seconds. The cut minimizes the
      time of the recomputed ops plus the price of the kept bytes. The price is
      the lowest one at which the program fits into the memory. Within these
      segments, no choice that keeps as few bytes recomputes in less time. Then
      as few segments as possible use the cut of this price. The other segments
      use the cut of the next lower price. Live bytes are counted before ops are
      fused, as if values that are only scattered were scattered at once. The
      arena is mostly smaller, but gathers that run ahead may add to it. If no
      choice fits, the fewest bytes are kept, and a warning states the least
      memory that would suffice; with a stated `memory`, `report` states it. With
      a `depth` above 1, what the segments keep counts `depth` times, all
      segments use the same cut, and the module gets the attribute
      `schedule.live_bytes`.

    A recomputed op reads the kept values through a `heddle.barrier`. The
    barrier waits for the gradient that the first reader of the recomputed
    values needs. If a collective makes this gradient, the barrier waits for the
    collective's operand instead, so that the recomputation can run beside the
    collective. Copies that do not depend on each other have barriers of their
    own. The copy of a gather, which reads only variables, waits for none. A
    weight that is gathered for the forward pass and for the backward pass is
    not gathered a third time: copies read what the backward pass gathers.
  }];
  let options = [
    Option<"mode", "mode", "::heddle::RecomputeMode",
           /*default=*/"::heddle::RecomputeMode::Layer", "what is kept",
           [{::llvm::cl::values(
             clEnumValN(::heddle::RecomputeMode::None, "none", "all values"),
             clEnumValN(::heddle::RecomputeMode::Layer, "layer",
                        "values that cross from layer to layer"),
             clEnumValN(::heddle::RecomputeMode::Communication, "communication",
                        "these, and what spares collectives"),
             clEnumValN(::heddle::RecomputeMode::Optimal, "optimal",
                        "what recomputes least within the memory"))}]>,
    Option<"memory", "memory", "int64_t", /*default=*/"0",
           "for optimal: the most bytes of live tensors; 0: what variables, "
           "arguments and results leave of a device's memory">,
    Option<"depth", "depth", "double", /*default=*/"1",
           "for optimal: the program stands for one with this many times as "
           "many layers, and what these keep counts as often; from 1 to 1e6">,
    Option<"exceeds", "exceeds", "bool", /*default=*/"false",
           "for a depth above 1, where equal layers change their choice "
           "together: the choice that exceeds the memory instead of the one "
           "that fits">,
    Option<"whole", "whole", "bool", /*default=*/"false",
           "all collectives of a segment run again, also those whose results no "
           "gradient needs, as in Megatron-LM">,
    Option<"cluster", "cluster", "::heddle::ClusterChoice",
           /*default=*/"::heddle::ClusterChoice()",
           "the cluster whose times decide; by default, all devices are equally "
           "near">,
    Option<"report", "report", "bool", /*default=*/"false",
           "emit a remark with the number of ops that run again, and one if no "
           "choice fits into a stated `memory`">];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def VerifyScheduledPass : Pass<"heddle-verify-scheduled", "::mlir::ModuleOp"> {
  let summary = "checks the collectives in flight of phase `scheduled`";
  let description = [{
    In program functions:
    - a `comm.start` is waited for once, in its own block. Otherwise its result
      would be read too early, or its memory given away too early;
    - all collectives of a group of devices that are in flight are on one stream.
      On two streams, a group would need two communicators.
  }];
}

#endif
