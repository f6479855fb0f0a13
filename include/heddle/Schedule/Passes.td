//===- Passes.td - Passes that order a device's program ----*- tablegen -*-===//

#ifndef HEDDLE_SCHEDULE_PASSES
#define HEDDLE_SCHEDULE_PASSES

include "mlir/Pass/PassBase.td"

def StartCollectivesPass : Pass<"heddle-start-collectives", "::mlir::ModuleOp"> {
  let summary = "lets every collective run beside the computations";
  let description = [{
    In program functions, when kernels are formed and before places are planned:
    each collective becomes a `comm.start` and a `comm.wait`, somewhere between
    the op that makes its operand and the first op that reads its result. The
    numbers stay the same.

    It knows no costs: it is a schedule for tests, which brings about all that
    streams can do to a program. Groups of devices are dealt to the streams 1 to
    `streams` in the order in which they appear, so all collectives of a group
    are on one stream, in one order on all devices. Sends and receives stay on
    the compute stream.
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
                        "start and wait anywhere between these"))}]>,
    Option<"seed", "seed", "uint64_t", /*default=*/"0", "of the order random">,
    Option<"streams", "streams", "int32_t", /*default=*/"2",
           "the number of communication streams, 1 to 7">];
  let dependentDialects = ["::heddle::comm::CommDialect"];
}

#endif
