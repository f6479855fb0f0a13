//===- Passes.td - Passes of the partitioner ---------------*- tablegen -*-===//

#ifndef HEDDLE_SHARD_PASSES
#define HEDDLE_SHARD_PASSES

include "mlir/Pass/PassBase.td"

def ApplyPlanPass : Pass<"heddle-apply-plan", "::mlir::ModuleOp"> {
  let summary = "Annotates a program with what a plan says of it";
  let description = [{
    Declares the plan's mesh (`heddle.mesh @mesh`), sets `heddle.factors` on
    every op that an entry of "operators" names, and `heddle.storage_axes` on
    every variable that an entry of "storage" names, `heddle.split` on every op
    that an entry of "splits" names, `heddle.pin` on the first op (of each
    function: the forward one) that an entry of "pins" names, and
    `heddle.priority` on those that an entry of "priorities" names; on the module
    `heddle.hierarchy` and `heddle.reduce_gradients`. All products of a module
    (forward, and the gradients of data and weight) have one name, so one entry
    assigns them alike. Of several entries that match a name and speak of the
    same factor, the one whose glob has the most literal characters decides.

    If a factor of groups (n: key/value heads) is no multiple of its axis, in an
    op that also has a factor of their members (r: query heads of a group), the
    axis is refined into two: mesh axis "tp"=4 becomes "tp.0"=2, "tp.1"=2, and
    whatever else is on tp is then on both. The groups take the first and the
    members the second, if that splits both evenly. Otherwise the groups are
    padded, as any other factor that does not divide. Which factors are groups
    and members is said by the op's sharding rule (FactorRole).

    Nothing is split by this pass. Errors have the plan's line and JSON path: a
    glob that matches nothing (with the nearest name), a factor that no matching
    op has (with those that they have), a factor that must not be split, an axis
    used for two factors of an op, a mesh of more devices than there are.

    Input: a global program. Output: the same, annotated.
  }];
  let options = [
    Option<"planFile", "plan", "std::string", /*default=*/"",
           "the plan's JSON file">,
    Option<"meshText", "mesh", "std::string", /*default=*/"",
           "instead of a file: a standard plan for the mesh, as dp=2,tp=4">,
    Option<"zero", "zero", "unsigned", /*default=*/"0",
           "with `mesh`: ZeRO level, 0 to 3">,
    Option<"devices", "devices", "int64_t", /*default=*/"0",
           "the number of devices that there are; 0: not checked">,
  ];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def SplitOperatorsPass : Pass<"heddle-split-operators", "::mlir::ModuleOp"> {
  let summary = "Runs large operators slice by slice";
  let description = [{
    Every op with `heddle.split<factor, slices, sharded k>` runs as that many
    ops, each on a part of the factor, so that only one part of a gathered
    weight has to be there at a time. The parameters that the factor runs over
    become variables of their own, one a slice (`X.slice0`, ...; sizes differ by
    at most one), and so does what is computed from them element by element and
    stored: accumulated gradients and the optimizer's state. A variable's
    `slice` says what it is a part of, for initial values and checkpoints. Of a
    parameter's slices the first k keep `heddle.storage_axes`, the others lose
    it.

    An op is sliced as it would be localized, with a slice in the place of a
    device: operands that the factor runs over are sliced, results that it runs
    over are concatenated, other results are added up (in f32 where a product is
    narrower), each as soon as it is made. Other readers of a split variable,
    such as the embedding that is tied to a head, run in slices, too; what
    cannot gets the slices concatenated. A load or a cast of a slice is made
    anew for each use; elementwise updates run slice by slice.

    Input: a global program, after heddle-apply-plan and before
    heddle-propagate-shardings. Output: the same, without `heddle.split`.

    Errors, on the op: a factor that the op lacks, that it needs whole, that
    runs over no parameter of the operator, or over one that another operator
    cuts otherwise; more slices than the factor's size.
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def RaiseGathersPass : Pass<"heddle-raise-gathers", "::mlir::ModuleOp"> {
  let summary = "Makes structured ops that look rows of a table up gathers";
  let description = [{
    Other compilers write an embedding as a `linalg.generic` whose body reads a
    table that it captures, by `tensor.extract` at a row that it computes from
    its inputs. A captured tensor is brought whole to every device; of a
    `tensor.gather`, devices that have a part of the table find the rows that
    they have.

    An op becomes one if its loops are parallel, its result has the places of
    the inputs first and the table's other dimensions, whole and in order, after
    them, and the row is arithmetic on inputs and constants. Others stay, and so
    do ops with attributes that speak of their loops.

    Input: a global program. Output: the same.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def PropagateShardingsPass
    : Pass<"heddle-propagate-shardings", "::mlir::ModuleOp"> {
  let summary = "Completes the assignment of mesh axes to all ops and values";
  let description = [{
    Works on factors, over all functions of the module at once, because
    variables connect them. Every value has wanted axes for each dimension,
    every op assigned axes for each factor; both only grow. In a round, each op
    hears the values around it and each value the ops around it, all at once, so
    the order of ops in the text does not matter; rounds repeat until nothing
    changes.

    Seeds, each propagated to its end before the next: (1) `heddle.factors`,
    which stay as they are (factors that an op's entry does not name are open);
    (2) `heddle.sharding` of function arguments and results; (3) the storage of
    variables: what the uses want, plus the plan's own axes, minor. It reaches
    only ops that no op of the model's forward or backward pass depends on (the
    optimizer's update, the norm of the gradients), so that ZeRO-1 updates are
    computed on shards, and parameters stored over more axes than their uses
    want are gathered for each use.

    Conflicts: an op or value takes the proposal that stands for the most bytes
    (those that would be moved otherwise); a value hears its definition first;
    between equals, the one whose axes come first in the mesh. An axis is used
    for one factor of an op, one dimension of a value. Where an op goes without
    a proposed axis, a reshard follows.

    In the end an op that makes one partial sum of several (the sum of two
    gradients) gives up an axis that these are partial over, unless
    `heddle.factors` named one of its factors: one sum is then scattered in
    place of several. And a variable of role gradient or loss, to which a program
    only adds a partial sum and which others only read or set to zero, is stored
    as a partial sum itself: what reads it (the update, once for several
    micro-batches) sums over devices. Not where it is stored in parts over these
    axes, nor where the module has
    `heddle.reduce_gradients = #heddle.gradient_reduction<micro_batch>`.

    By the user: `heddle.pin = #heddle.sharding<…>` on an op says how its result
    lies, exactly (several results: an array, `unit` for free ones); it becomes a
    reshard after the op, and the ops around hear it as any value. With
    `heddle.priority = k : i64` on an op with factors or a pin, or on an argument
    or result with a sharding, others hear of it only when everything of lower
    priority (0 if absent) has been propagated to its end.

    Constants and broadcasts of scalars with several uses are first repeated for
    each use, for they can be made in any sharding.

    Control flow (`scf.for`, `scf.if`, `scf.while` and other ops that implement
    RegionBranchOpInterface) and calls pass values on: what a loop carries, what
    branches yield, what all callers give to an argument and take from a result
    has one sharding. It hears what flows in and its uses, and they hear it; of
    what flows in, the end of an iteration counts as a definition. Functions and
    regions have one block; recursion and calls of external functions are errors.

    Output: complete `heddle.factors`; `heddle.sharding` on ops, arguments and
    results, the storage of variables; `heddle.carried` on control flow, one
    sharding for each value that is carried. `heddle.storage_axes` is gone.
    Warnings name variables and ops of which half of the devices or more hold
    nothing but padding, once for each size and list of axes.
  }];
  let options = [
    Option<"explain", "explain", "bool", /*default=*/"false",
           "a remark on each op and argument: how its value lies, and for each "
           "axis which op, argument, pin or variable it comes from and through "
           "which op it came">,
    Option<"remarkConflicts", "remark-conflicts", "bool", /*default=*/"false",
           "a remark where two ops claim an axis for different dimensions of a "
           "value, or one place of it for different axes: both, and the bytes "
           "that each device sends for it">,
    Option<"cluster", "cluster", "::heddle::ClusterChoice",
           "::heddle::ClusterChoice()",
           "preset or JSON file of the cluster that these bytes are counted on">,
  ];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def InsertReshardsPass : Pass<"heddle-insert-reshards", "::mlir::ModuleOp"> {
  let summary = "Makes each mismatch of shardings an explicit op";
  let description = [{
    Inserts `heddle.reshard` wherever an operand does not lie as the factors of
    its op need. Partial sums pass through ops that are linear and cheap (sums
    of two of them, products with replicated values, changes of shape) as long
    as all uses of a value agree and the value does not grow, and are reduced
    after that, at the first use. Several uses with the same need share one
    reshard; a value that was loaded is resharded anew for each use, so that a
    gathered parameter does not live from the forward to the backward pass.
    Where uses have different needs, all are made from the value, or one first
    and the others from it, whatever takes less on the cluster. Partial
    sums do not leave a region or function. A value from outside a loop is
    resharded before the loop, once; what is loaded, at its use.

    With `remark-bytes`, a remark for each reshard in which a device sends that
    many bytes or more: the operator and the tensor, the bytes and the time on
    the cluster, the collectives, and, as notes, what in the plan would avoid it.
    Reshards that are alike but for the numbers in names (the layers of a model)
    get one remark, with their number. What ops send as they compute (the halos
    of a convolution) `heddle-localize` reports.

    Input: complete `heddle.factors`, shardings of arguments and results.
    Output: every operand has the sharding that its op needs; `heddle.sharding`
    of ops are exact.
  }];
  let options = [
    Option<"cluster", "cluster", "::heddle::ClusterChoice",
           "::heddle::ClusterChoice()",
           "preset or JSON file of the cluster that communication is weighed "
           "on; none: all devices are equally near">,
    Option<"remarkBytes", "remark-bytes", "int64_t", /*default=*/"-1",
           "remarks on reshards in which a device sends at least so many "
           "bytes; -1: none">,
  ];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def LocalizePass : Pass<"heddle-localize", "::mlir::ModuleOp"> {
  let summary = "Turns the global program into that of one device";
  let description = [{
    Every tensor takes its local type: each dimension is divided by the number
    of devices that split it, rounded up. Each op localizes itself
    (`ShardingRuleOpInterface`). A reshard becomes the sequence of slices,
    reduce-scatters, all-reduces, all-to-alls, all-gathers and permutes that
    takes least on the cluster: a shortest path over all shardings of the tensor
    (`heddle/Cost/Resharding.h`). Parts that do not nest, where sizes do not
    divide, are never cut from each other.

    What lies beyond the end of a dimension is tracked as zero, finite or
    unknown for each dimension of each value. `heddle.mask_padding` is inserted
    where it would count: along summed and maximized dimensions, and before a
    store. What a loop carries and what a call returns has unknown padding.

    Arguments and results keep `heddle.sharding` and gain `heddle.global_type`.
    Input: the output of heddle-insert-reshards. Output: local types, `comm`
    ops, no reshards, no factors.

    With `remark-bytes`, a remark for each op whose localization sends that many
    bytes or more of its own (the halos of a convolution, the keys and values of
    a ring, sums of parts), with the factors that would avoid it.
  }];
  let options = [
    Option<"cluster", "cluster", "::heddle::ClusterChoice",
           "::heddle::ClusterChoice()",
           "preset or JSON file of the cluster that communication is weighed "
           "on; none: all devices are equally near">,
    Option<"remarkBytes", "remark-bytes", "int64_t", /*default=*/"-1",
           "remarks on ops of which a device sends at least so many bytes as "
           "they compute; -1: none">,
  ];
  let dependentDialects = ["::heddle::HeddleDialect", "::heddle::comm::CommDialect",
                           "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect"];
}

def VerifyLocalizedPass : Pass<"heddle-verify-localized", "::mlir::ModuleOp"> {
  let summary = "Checks that the module is one device's program";
  let description = [{
    After localization:
    - there is no `heddle.reshard`, and no op has `heddle.factors` or
      `heddle.sharding`;
    - every load and store has the local type of its variable's storage;
    - every tensor argument and result of a public function has
      `heddle.global_type` and `heddle.sharding`, and the local type of the two;
    - a module that declares no mesh has no `comm` ops.
  }];
}

def CombineCollectivesPass
    : Pass<"heddle-combine-collectives", "::mlir::func::FuncOp"> {
  let summary = "Makes many small all-reduces one";
  let description = [{
    All-reduces of the same kind over the same axes, of tensors of one type of
    at most `max-bytes`, none of which depends on another, are stacked, reduced
    together and unstacked; of equal tensors one stands for all. What depends on the earlier ones moves after the
    last, and so does what is made of variables for it alone.
  }];
  let options = [
    Option<"maxBytes", "max-bytes", "int64_t", /*default=*/"4096",
           "the largest tensor that is combined with others">,
  ];
  let dependentDialects = ["::heddle::HeddleDialect", "::heddle::comm::CommDialect"];
}

def DecomposeCollectivesPass
    : Pass<"heddle-decompose-collectives", "::mlir::ModuleOp"> {
  let summary = "Makes collectives hierarchical, by levels of the topology";
  let description = [{
    A collective over axes of different levels (within servers, between them)
    becomes several over the axes of one level each, where that takes less on
    the cluster:
    - all_gather: between, then inside. The parts are gathered along a dimension
      for each group of axes, so that the chunks are in the order of the one
      collective;
    - reduce_scatter: inside, then between; likewise;
    - all_reduce: reduce_scatter inside, all_reduce of the parts between,
      all_gather inside, on the tensor as a row of elements.

    The level of an axis is the outermost that its members' messages cross; an
    axis that spans servers and the devices in them counts as between: give the
    mesh an axis for each. With "auto", axes of one level stay together; with
    "always" collectives are decomposed whatever it takes, and where all axes are
    of one level each counts as one of its own, the mesh's last innermost. An
    all_reduce of fewer elements than members inside stays whole. Collectives
    within `comm.start` are left alone.

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

def ReportCommunicationPass
    : Pass<"heddle-report-communication", "::mlir::ModuleOp"> {
  let summary = "Prints what a device sends, and how long that takes";
  let description = [{
    To standard error, a line for each function, collective and set of axes: how
    many there are, the bytes that the device that sends most sends (by the ring
    algorithms of `heddle/Cost/CollectiveCost.h`), and the time one after the
    other on the cluster; then the sums of each function. What stands in a loop
    counts once, however often it runs, and so does a function that is called.
    Example:
    `@step all_reduce {"tp"}: 10 ops, 20480 bytes, 0.1208 ms`.

    Input: a localized program. Changes nothing.
  }];
  let options = [
    Option<"cluster", "cluster", "::heddle::ClusterChoice",
           "::heddle::ClusterChoice()",
           "preset or JSON file of the cluster; none: all devices are equally "
           "near">,
  ];
}

#endif
