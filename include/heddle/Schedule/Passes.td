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

#endif
