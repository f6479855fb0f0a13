//===- CollectivePasses.td - Passes on collectives ---------*- tablegen -*-===//

#ifndef HEDDLE_SHARD_COLLECTIVEPASSES
#define HEDDLE_SHARD_COLLECTIVEPASSES

include "mlir/Pass/PassBase.td"

def CombineCollectivesPass
    : Pass<"heddle-combine-collectives", "::mlir::func::FuncOp"> {
  let summary = "Makes one collective of many small ones";
  let description = [{
    - All-reduces of the same kind, axes and tensor type, of at most `max-bytes`,
      are stacked, reduced together and unstacked.
    - All-reduces and reduce-scatters of gradients, of at most `max-weight`
      bytes, are flattened, joined and reduced in buckets of at most `bucket`
      bytes. A reduction is one of gradients if its result only reaches stores
      and results of the program, through ops that compute little.
    - All-gathers of values that depend on variables alone, of at most
      `max-weight` bytes, are gathered in buckets of at most `bucket` bytes.

    Collectives that are combined do not depend on each other. Equal tensors are
    sent once. Two all-reduces that are no gradients stay apart if each of them
    depends on a larger collective that the other one does not depend on. Such
    all-reduces belong to parts of the batch that run side by side. If they were
    combined, one part would wait for the other.

    A combined reduction runs at the place of its last collective: a bucket of
    gradients is reduced as soon as all of them are computed. Ops that depend on
    the earlier reductions move after it. So do ops that compute from variables
    only and whose results only the moved ops use. A combined gather runs at the
    place of its first collective.
  }];
  let options = [
    Option<"maxBytes", "max-bytes", "int64_t", /*default=*/"4096",
           "the largest tensor that is combined with others of its type">,
    Option<"maxWeight", "max-weight", "int64_t", /*default=*/"262144",
           "the largest gradient or weight that is combined with others">,
    Option<"bucket", "bucket", "int64_t", /*default=*/"4194304",
           "the most bytes of gradients or weights that are combined">,
  ];
  let dependentDialects = ["::heddle::HeddleDialect", "::heddle::comm::CommDialect",
                           "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect"];
}

def DecomposeCollectivesPass
    : Pass<"heddle-decompose-collectives", "::mlir::ModuleOp"> {
  let summary = "Makes collectives hierarchical, by levels of the topology";
  let description = [{
    A collective over axes of different levels (inside servers, between them)
    becomes several collectives, each over the axes of one level, if that takes
    less time on the cluster:
    - all_gather: between, then inside. Each group of axes gathers along a
      dimension of its own, so that the chunks get the order of the original
      collective;
    - reduce_scatter: inside, then between, with the same dimensions;
    - all_reduce: reduce_scatter inside, all_reduce of the parts between,
      all_gather inside, on the flattened tensor.

    The level of an axis is the outermost level that its members' messages
    cross. An axis that spans servers and the devices in them counts as between;
    give the mesh an axis for each. With "auto", axes of one level stay
    together. With "always", collectives are decomposed whatever time it takes;
    if all axes are of one level, each axis counts as a level of its own, the
    mesh's last axis innermost. An all_reduce of fewer elements than members
    inside stays whole. Collectives within `comm.start` are left alone.

    Input and output: a localized program.
  }];
  let options = [
    Option<"cluster", "cluster", "::heddle::ClusterChoice",
           "::heddle::ClusterChoice()",
           "preset or JSON file of the cluster; none: all devices are equally "
           "near">,
    Option<"hierarchy", "hierarchy", "std::string", /*default=*/"",
           "auto, always or never; none: as the plan says, else auto">,
  ];
  let dependentDialects = ["::heddle::HeddleDialect", "::heddle::comm::CommDialect",
                           "::mlir::arith::ArithDialect", "::mlir::tensor::TensorDialect"];
}

def PackCollectivesPass : Pass<"heddle-pack-collectives", "::mlir::ModuleOp"> {
  let summary = "Makes collectives contiguous by ops that pack and unpack";
  let description = [{
    In a contiguous collective among P members, each member exchanges one run of
    memory with each other member:
    - an all_gather along dimension 0 whose result has P times the operand's
      rows;
    - a reduce_scatter along dimension 0 whose operand has P times the result's
      rows;
    - an all_to_all of an operand [P, 1, ...] to a result [1, P, ...].

    Every other one of these collectives becomes contiguous, with ops before and
    after it:
    - `linalg.transpose` moves the parts along an inner dimension to the front
      and back. A reshape does if all dimensions before it have size 1.
    - A dimension that P does not divide is padded with zeros before it is split.
      After a gather, a slice drops the padding.

    Around a `comm.start`, the operand is packed before the start and the result
    is unpacked after the `comm.wait`. All-reduces, broadcasts and permutes are
    always contiguous.

    Input: a localized program. Output: the same, as `heddle-verify-localized`
    expects it.
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::heddle::comm::CommDialect",
                           "::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

#endif // HEDDLE_SHARD_COLLECTIVEPASSES
