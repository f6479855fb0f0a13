//===- Passes.td - Passes of the partitioner ---------------*- tablegen -*-===//

#ifndef HEDDLE_SHARD_PASSES
#define HEDDLE_SHARD_PASSES

include "mlir/Pass/PassBase.td"

def ApplyPlanPass : Pass<"heddle-apply-plan", "::mlir::ModuleOp"> {
  let summary = "Annotates a program with a plan's entries";
  let description = [{
    Declares the plan's mesh (`heddle.mesh @mesh`), sets `heddle.factors` on
    every op that an entry of "operators" names, and `heddle.storage_axes` on
    every variable that an entry of "storage" names, `heddle.split` on every op
    that an entry of "splits" names, `heddle.pin` on the first op (of each
    function: the forward one) that an entry of "pins" names, and
    `heddle.priority` on those that an entry of "priorities" names; on the
    module `heddle.hierarchy` and `heddle.reduce_gradients`. All products of a
    module (forward, and the gradients of data and weight) have one name, so one
    entry assigns them alike. Of several entries that match a name and speak of
    the same factor, the one whose glob has the most literal characters decides.

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
    `slice` names the tensor that it is a part of, for initial values and
    checkpoints. The first k slices of a parameter keep `heddle.storage_axes`,
    the others lose it.

    An op is sliced as it would be localized, with a slice in the place of a
    device: operands that the factor runs over are sliced, results that it runs
    over are concatenated, other results are added up (in f32 where a product is
    narrower), each as soon as it is made. Other readers of a split variable,
    such as the embedding that is tied to a head, run in slices, too. An op that
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
    its inputs. A captured tensor is brought whole to every device. The table of
    a `tensor.gather` may be split: each device finds the rows that it has.

    An op becomes a gather if its loops are parallel, its result has the places
    of the inputs first and the table's other dimensions, whole and in order,
    after them, and the row is arithmetic on inputs and constants. Others stay,
    and so do ops with attributes that speak of their loops.

    Input: a global program. Output: the same.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def RepeatConstantsPass : Pass<"heddle-repeat-constants", "::mlir::ModuleOp"> {
  let summary = "Makes a constant of several uses one for each of them";
  let description = [{
    Constant tensors, empty tensors and broadcasts of scalars can be made in any
    sharding. With one for each use, uses that have nothing to do with each other
    do not have to agree on how it lies.

    Input: a global program with a mesh, before heddle-propagate-shardings.
    Output: the same. A program without a mesh stays as it is.
  }];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def ExplainShardingsPass
    : Pass<"heddle-explain-shardings", "::mlir::ModuleOp"> {
  let summary = "Remarks on what heddle-propagate-shardings will decide, and why";
  let description = [{
    First a remark where two ops claim an axis for different dimensions of a
    value, or one place of it for different axes: both, and the bytes that each
    device sends for it. Then a remark on each op and argument: how its value
    lies, and for each axis which op, argument, pin or variable it comes from
    and through which op it came.

    Input: as of heddle-propagate-shardings. Changes nothing.
  }];
  let options = [
    Option<"cluster", "cluster", "::heddle::ClusterChoice",
           "::heddle::ClusterChoice()",
           "preset or JSON file of the cluster that the bytes of conflicts are "
           "counted on; none: all devices are equally near">,
  ];
}

def PropagateShardingsPass
    : Pass<"heddle-propagate-shardings", "::mlir::ModuleOp"> {
  let summary = "Completes the assignment of mesh axes to all ops and values";
  let description = [{
    Every op has assigned axes for each of its factors, every value has wanted
    axes for each of its dimensions. Both only grow. In each round an op hears
    the values around it and a value the ops around it: an op that hears that
    `tp` splits dimension 1 of its operand splits the factor of this dimension
    over `tp`. All listen at once, so the order of ops in the text does not
    matter. Rounds repeat until nothing changes. All functions of a module are
    propagated together, because variables connect them.

    Axes start from three kinds of statements, each propagated to its end before
    the next one speaks:
    1. `heddle.factors` of ops. A factor that an op's entry names stays as it is;
       the others are open.
    2. `heddle.sharding` of function arguments and results.
    3. The storage of variables: the axes that their uses want, and after these
       (minor) the plan's own, `heddle.storage_axes`. Storage reaches only ops
       that no op of the forward or backward pass depends on: the optimizer's
       update and the norm of the gradients. So ZeRO-1 computes its update on
       shards, and a parameter that is stored over more axes than its uses want
       is gathered for each use.

    Where proposals contradict each other, an op or value takes the one that
    stands for the most bytes, which would have to be moved otherwise. A value
    hears its definition before its uses. Between equal proposals the one whose
    axes come first in the mesh wins. An axis splits one factor of an op and one
    dimension of a value; an op that goes without a proposed axis causes a
    reshard.

    Two decisions about partial sums come last:
    - An op that makes one partial sum of several, such as the sum of two
      gradients, gives up an axis that all of them are partial over, unless
      `heddle.factors` names one of its factors. One sum is then scattered in
      place of several.
    - A variable of role gradient or loss is stored as a partial sum if a program adds
      partial sums to it in one place, and all others only read it or set it to
      zero. The update, which reads it once for several micro-batches, sums over
      the devices. A gradient that is stored in parts over these axes is summed
      at once, and so are all gradients of a module with
      `heddle.reduce_gradients = #heddle.gradient_reduction<micro_batch>`.

    A user's `heddle.pin = #heddle.sharding<…>` on an op says exactly how its
    result lies (with several results: an array, `unit` for free ones). The ops
    around hear a pin as they hear any value; `heddle-materialize-pins` carries
    it out. With `heddle.priority = k : i64` on an op with factors or a pin, or
    on an argument or result with a sharding, others hear of it only when
    everything of lower priority (0 if absent) has been propagated to its end.

    Control flow (`scf.for`, `scf.if`, `scf.while` and other ops that implement
    RegionBranchOpInterface) and calls pass values on. The values that a loop
    carries from one iteration to the next have one sharding; so do the values
    that all branches yield, and the operands that all callers give to one
    argument. This sharding hears the values that flow in and those that use it,
    and they hear it; the value at the end of an iteration counts as a
    definition. Functions and regions have one block; recursion and calls of
    external functions are errors.

    A function that changes no IR decides all of this
    (`heddle/Sharding/ShardingAssignment.h`). The pass reads the attributes that
    it starts from and writes those that it comes to.

    Output: complete `heddle.factors`; `heddle.sharding` on ops, arguments and
    results, the storage of variables; `heddle.carried` on control flow, one
    sharding for each value that is carried. No `heddle.storage_axes`.
  }];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def WarnOfPaddingPass : Pass<"heddle-warn-of-padding", "::mlir::ModuleOp"> {
  let summary = "Warns where half of the devices hold nothing but padding";
  let description = [{
    A dimension or loop may be much smaller than the number of devices that it
    is split over. There is one warning for each size and list of axes, on the
    first variable, or else operator, or else op without a name or argument; the
    rest are counted.

    Input: the output of heddle-propagate-shardings. Changes nothing.
  }];
}

def MaterializePinsPass : Pass<"heddle-materialize-pins", "::mlir::ModuleOp"> {
  let summary = "Makes each pin a reshard after its op";
  let description = [{
    The reshard leads from how the op makes the value to how it is pinned, even
    where these are the same: no partial sum passes a pin.

    Input: the output of heddle-propagate-shardings. Output: no `heddle.pin`.
  }];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def InsertReshardsPass : Pass<"heddle-insert-reshards", "::mlir::ModuleOp"> {
  let summary = "Makes each mismatch of shardings an explicit op";
  let description = [{
    Inserts `heddle.reshard` wherever an operand does not lie as the factors of
    its op need.

    Several uses with the same need share one reshard. If uses need a value in
    different ways, either all of these are made from the value, or one of them
    first and the others from it, whichever takes less on the cluster. A value
    from outside a loop is resharded once, before the loop. A loaded value is
    resharded anew for each use, so that a gathered parameter does not live from
    the forward to the backward pass.

    Partial sums pass through ops that are linear and cheap: sums of two of them,
    products with replicated values, changes of shape. They do as long as all
    uses of a value agree, the value does not grow, and it stays in its region
    and function. Otherwise they are reduced at the first use.

    With `remark-bytes`, there is a remark for each reshard in which a device
    sends that many bytes or more: the operator and the tensor, the bytes and the
    time on the cluster, the collectives, and, as notes, the changes of the plan
    that would avoid it. Reshards that differ only in the numbers within names
    (the layers of a model) share one remark, which counts them.
    `heddle-localize` reports the bytes that ops send as they compute, such as
    the halos of a convolution.

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

def VerifyShardedPass : Pass<"heddle-verify-sharded", "::mlir::ModuleOp"> {
  let summary = "Checks that every tensor lies as its uses need it";
  let description = [{
    After sharding, in a module with a mesh:
    - no variable has `heddle.storage_axes`, and each has a storage;
    - every tensor argument and result of a function with a body has
      `heddle.sharding`, of its rank and over axes of the mesh;
    - no op has `heddle.split` or `heddle.pin`;
    - the factors that an op is split over (`heddle.factors`) are factors of it,
      over axes of the mesh, and split merged dimensions evenly;
    - `heddle.carried` of control flow has a sharding for each value that it
      carries;
    - `heddle.sharding` of an op says how its results come out: by its factors,
      by the storage of the variable that it loads, by what it carries or calls;
    - every operand lies as its op needs it: by its factors, as the variable is
      stored, as control flow and calls pass it on, as the function returns it,
      as the reshard expects. A partial sum only goes where its op passes it on;
    - a tensor that the region of an op reads is whole on every device.
  }];
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

    The elements beyond the end of a dimension (padding) are tracked as zero,
    finite or unknown for each dimension of each value. `heddle.mask_padding` is
    inserted where they would count: along summed and maximized dimensions, and
    before a store. Values that a loop carries or a call returns have unknown
    padding.

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
    - there is no `heddle.reshard`, and no op has `heddle.factors`,
      `heddle.sharding`, `heddle.priority`, `heddle.pin`, `heddle.carried` or
      `heddle.split`;
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
    together and unstacked; of equal tensors one stands for all. Ops that depend
    on the earlier all-reduces move after the last one, and so do ops that only
    serve these and read nothing but variables.
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
    "always" collectives are decomposed whatever it takes, and where all axes
    are of one level each counts as one of its own, the mesh's last innermost.
    An all_reduce of fewer elements than members inside stays whole. Collectives
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
    other on the cluster; then the sums of each function. An op in a loop counts
    once, however often it runs, and so does a function that is called.
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
