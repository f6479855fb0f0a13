//===- Passes.td - Passes of the partitioner ---------------*- tablegen -*-===//

#ifndef HEDDLE_SHARD_PASSES
#define HEDDLE_SHARD_PASSES

include "mlir/Pass/PassBase.td"

def ApplyPlanPass : Pass<"heddle-apply-plan", "::mlir::ModuleOp"> {
  let summary = "Annotates a program with a plan's entries";
  let description = [{
    Declares the plan's mesh (`heddle.mesh @mesh`) and sets these attributes:
    - `heddle.factors` on every op that an entry of "operators" names;
    - `heddle.storage_axes` on every variable that an entry of "storage" names;
    - `heddle.split` on every op that an entry of "splits" names;
    - `heddle.pin` on the first op of each function (the forward one) that an
      entry of "pins" names;
    - `heddle.priority` on every op that an entry of "priorities" names;
    - `heddle.hierarchy`, `heddle.reduce_gradients` and `heddle.sub_batches` on
      the module.

    All products of a module (the forward one, and the gradients of data and
    weight) have one name, so one entry assigns them alike. If several entries
    match a name and a factor, the entry whose glob has the most literal
    characters decides.

    If the size of a factor of groups (n: key/value heads) is no multiple of the
    size of its axis, and the op also has a factor of the groups' members (r:
    query heads of a group), the axis is refined into two. Example: mesh axis
    "tp"=4 becomes "tp.0"=2 and "tp.1"=2, and every other use of "tp" becomes
    both. The groups take the first and the members the second, if that splits
    both evenly. Otherwise the groups are padded, as any factor whose size does
    not divide. The op's sharding rule says which factors are groups and members
    (FactorRole).

    This pass splits nothing. An error has the plan's line and JSON path. Errors
    are a glob that matches nothing (with the nearest name), a factor that no
    matching op has (with the factors that the ops have), a factor that must not
    be split, an axis for two factors of an op, and a mesh of more devices than
    there are.

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

def SplitBatchPass : Pass<"heddle-split-batch", "::mlir::ModuleOp"> {
  let summary = "Runs a program on parts of its batch";
  let description = [{
    Writes a program so that its batch runs in parts (sub-batches) that do not
    depend on each other. Then the collectives of one part can run beside the
    computations of another one. `heddle.sub_batches = n` on the module, which a
    plan sets, or the option says in how many parts. Their sizes differ by at
    most one sample. `heddle.sub_batches = array<i64: 3, 1>` states the samples
    of each part.

    A sub-batch is a device in time. The batch is the first dimension of
    arguments with the role features or labels. heddle-propagate-shardings'
    function decides which factor of each op runs over the batch, as it does for
    an axis of a mesh. Each of these ops is written n times, as it would be
    localized, with a part in the place of a device: on parts of its operands,
    and with the offsets of its part where it draws random numbers or knows
    positions. Ops that do not see the batch (casts of weights, positions, the
    optimizer's update) stay single.

    A sum over the batch (the gradient of a weight, the sum of losses, the
    number of labels) becomes the sum of the parts' sums, added up as soon as
    they are made, in f32 if the product is narrower. An op that adds such a sum
    to another one, as the embedding's gradient of a tied table does, does so
    part by part. An op that cannot run in parts gets them joined, with a
    warning. Other users of joined parts (a result, control flow) do, too.

    The parts are written one after the other: the forward pass of each, then,
    after the sum of their losses is known, the backward pass of each.

    Input: a global program, after heddle-apply-plan and before
    heddle-split-operators. Output: the same, without `heddle.sub_batches`.

    Errors: no argument has a batch; it has fewer samples than parts, or others
    than the stated sizes add up to; no op can run in parts.
  }];
  let options = [
    Option<"subBatches", "sub-batches", "int64_t", /*default=*/"0",
           "the number of parts; 0: as the module says">,
  ];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def SplitOperatorsPass : Pass<"heddle-split-operators", "::mlir::ModuleOp"> {
  let summary = "Runs large operators slice by slice";
  let description = [{
    Every op with `heddle.split<factor, slices, sharded k>` runs as `slices`
    ops, each on a part of the factor. So only one part of a gathered weight
    exists at a time. A parameter that the factor runs over becomes one variable
    a slice (`X.slice0`, ...; sizes differ by at most one). So do the variables
    that elementwise ops connect with it: accumulated gradients and the
    optimizer's state. A variable's `slice` names the tensor that it is a part
    of, for initial values and checkpoints. The first k slices of a parameter
    keep `heddle.storage_axes`; the others lose it.

    An op is sliced as it would be localized, with a slice in the place of a
    device. Operands that the factor runs over are sliced. Results that it runs
    over are concatenated. Other results are added up, each slice as soon as it
    is made, and in f32 if the product is narrower. Other readers of a split
    variable, such as the embedding that shares its weight with the head, run in
    slices, too. An op that cannot run in slices gets them concatenated. A load
    or a cast of a slice is repeated for each use. Elementwise updates run slice
    by slice.

    Input: a global program, after heddle-apply-plan and before
    heddle-propagate-shardings. Output: the same, without `heddle.split`.

    Errors, on the op: it lacks the factor or needs it whole; the factor runs
    over no parameter of the operator, or over one that another operator cuts in
    another way; there are more slices than the factor's size.
  }];
  let dependentDialects = ["::heddle::HeddleDialect", "::mlir::arith::ArithDialect",
                           "::mlir::tensor::TensorDialect"];
}

def RaiseGathersPass : Pass<"heddle-raise-gathers", "::mlir::ModuleOp"> {
  let summary = "Makes gathers of structured ops that look up rows of a table";
  let description = [{
    Other compilers write an embedding as a `linalg.generic` whose body captures
    a table. The body reads the table by `tensor.extract`, at a row that it
    computes from its inputs. A captured tensor is brought whole to every
    device. But the table of a `tensor.gather` may be split: each device finds
    the rows that it has.

    An op becomes a gather if its loops are parallel, the row is arithmetic on
    inputs and constants, and the result has the dimensions of the inputs first
    and then the table's other dimensions, whole and in order. Other ops stay as
    they are, and so do ops with discardable attributes, which may refer to
    loops.

    Input: a global program. Output: the same.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::linalg::LinalgDialect",
                           "::mlir::tensor::TensorDialect"];
}

def RepeatConstantsPass : Pass<"heddle-repeat-constants", "::mlir::ModuleOp"> {
  let summary = "Gives each use of a constant tensor its own copy";
  let description = [{
    Constant tensors, empty tensors and broadcasts of scalars can be made in any
    sharding. If each use has its own copy, unrelated uses need not agree on one
    sharding.

    Input: a global program with a mesh, before heddle-propagate-shardings.
    Output: the same. A program without a mesh stays as it is.
  }];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def ExplainShardingsPass
    : Pass<"heddle-explain-shardings", "::mlir::ModuleOp"> {
  let summary = "Remarks on what heddle-propagate-shardings will decide, and why";
  let description = [{
    First emits a remark for each conflict: two ops claim one axis for different
    dimensions of a value, or one place of a value for different axes. The
    remark names both claims and the bytes that each device sends because of
    them. Then emits a remark on each op and argument: the sharding of its value
    and, for each axis, the op, argument, pin or variable that it comes from and
    the op that passed it on.

    Input: as for heddle-propagate-shardings. Changes nothing.
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
    Every op has assigned axes for each of its factors. Every value has wanted
    axes for each of its dimensions. Axes are added to both and never removed.
    In each round, an op takes axes from the values around it and a value takes
    axes from the ops around it. Example: if `tp` splits dimension 1 of an
    operand, the op splits the factor of this dimension over `tp`. In a round,
    all ops and values see the state after the previous round, so the order of
    ops in the text does not matter. Rounds repeat until a fixed point. All
    functions of a module are propagated together, because variables connect
    them.

    Axes come from three kinds of seeds. Each kind is propagated until nothing
    changes before the next kind is added:
    1. `heddle.factors` of ops. A factor that an op's attribute names keeps its
       axes; the op's other factors are open.
    2. `heddle.sharding` of function arguments and results.
    3. The storage of variables: the axes that their uses want, and after these
       (minor) the plan's own axes, `heddle.storage_axes`. Storage reaches only
       ops that no op of the forward or backward pass depends on: the
       optimizer's update and the norm of the gradients. So ZeRO-1 computes its
       update on shards. A parameter that is stored over more axes than its uses
       want is gathered for each use.

    If proposals contradict each other, an op or value takes the proposal with
    the most bytes behind it, because these would have to move otherwise. For a
    value, its definition counts more than its uses. Of equal proposals, the one
    whose axes come first in the mesh wins. An axis splits one factor of an op
    and one dimension of a value. An op that does not take a proposed axis
    causes a reshard.

    Two decisions about partial sums come last:
    - An op that makes one partial sum of several, such as the sum of two
      gradients, gives up an axis over which all of them are partial, unless
      `heddle.factors` names one of its factors. Then one sum is scattered in
      place of several.
    - A variable of role gradient or loss is stored as a partial sum if one
      place of a program adds partial sums to it, and all others only read it or
      set it to zero. The update, which reads it once for several micro-batches,
      sums over the devices. But a gradient that is stored in parts over these
      axes is summed at once, and so are all gradients of a module with
      `heddle.reduce_gradients = #heddle.gradient_reduction<micro_batch>`.

    A user's `heddle.pin = #heddle.sharding<…>` on an op fixes the sharding of
    its result (with several results: an array, `unit` for free ones). The ops
    around it take axes from a pinned value as from any other;
    `heddle-materialize-pins` makes the pin a reshard. An op with factors or a
    pin, and an argument or result with a sharding, may have a
    `heddle.priority = k : i64`. Its axes are propagated only after everything
    of lower priority (0 if absent).

    Control flow (`scf.for`, `scf.if`, `scf.while` and other ops that implement
    RegionBranchOpInterface) and calls pass values on. The values that a loop
    carries from one iteration to the next have one sharding. So do the values
    that all branches yield, and the operands that all callers give to one
    argument. Such values exchange axes with the values that flow in and with
    the ops that use them, in both directions. The value at the end of an
    iteration counts as a definition. Functions and regions have one block;
    recursion and calls of external functions are errors.

    `propagateShardings` (`heddle/Sharding/ShardingAssignment.h`) decides all of
    this and changes no IR. The pass reads the attributes from which it starts
    and writes its decisions as attributes.

    Output: complete `heddle.factors`; `heddle.sharding` on ops, arguments and
    results, the storage of variables; `heddle.carried` on control flow, one
    sharding for each value that is carried. No `heddle.storage_axes`.
  }];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def ReadStoredRowsPass : Pass<"heddle-read-stored-rows", "::mlir::ModuleOp"> {
  let summary = "Reads rows of a parameter on the devices that store them";
  let description = [{
    An op that reads few rows of a parameter (the lookup in an embedding table)
    needs no gathered parameter: each device finds the rows that it stores, and
    the results are summed. So if the storage of a parameter differs from what
    such an op needs, the axes of the storage move to the factors of the
    parameter's dimensions, provided that gathering the other operands and
    reducing the results takes less time on the cluster than gathering the
    parameter.

    Example: a table of 50257 x 768 over "dp", ids of 4 x 128 over "dp". The axis
    moves from factor "b" of the lookup to "v". Instead of 154 MB of table, 2 kB
    of ids are gathered, and 1.6 MB of rows are reduced and scattered.

    Input: the output of heddle-propagate-shardings. Constraint: the op states
    its work, and reads fewer bytes than the parameter has.
  }];
  let options = [
    Option<"cluster", "cluster", "::heddle::ClusterChoice",
           "::heddle::ClusterChoice()",
           "preset or JSON file of the cluster that communication is weighed "
           "on; none: all devices are equally near">,
  ];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def CastStoredPass : Pass<"heddle-cast-stored", "::mlir::ModuleOp"> {
  let summary = "Casts parameters to narrower types where they are stored";
  let description = [{
    With bf16 products, a parameter of f32 is cast before its uses. If it is
    stored in more parts than it is used, the cast of each device's part is
    gathered, which takes half of the bytes of the parameter itself. So an op that
    casts a loaded parameter to a type of fewer bytes is split as the parameter is
    stored. heddle-insert-reshards then gathers the result of the cast for each
    use. A cast or a load with a pin stays as it is.

    Example: a parameter of 1024 x 768 f32, stored over "dp". The cast gets the
    factors "0" = "dp", and 1.6 MB are gathered instead of 3.1 MB.

    Input: the output of heddle-propagate-shardings. Constraints: the op is
    elementwise, and has one operand, a load, and one result of fewer bytes.
    Errors: those of `heddle.factors` that do not fit the op.
  }];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def ScatterSumsPass : Pass<"heddle-scatter-sums", "::mlir::ModuleOp"> {
  let summary = "Splits cheap work behind sums over the devices that sum";
  let description = [{
    Devices that sum a value by an all-reduce repeat all work behind it. Instead,
    the sum may be scattered along a dimension, and the work run on a part of
    it. Its results are gathered where ops need them whole. A reduce-scatter and
    an all-gather send as much as an all-reduce, and the work between them takes
    the time and memory of a part.

    Around the sums over an axis, the pass finds the cheap ops that could split
    a factor over the axis, if the axis divides the factor. An op is cheap if it
    visits each element of its largest tensor once (elementwise ops, norms,
    dropout). Of the dimensions of a sum, the pass takes the one along which the
    most bytes could be split. A least cut then decides which of the ops are
    split, by the times of collectives and of memory traffic on the cluster. Ops
    that pass partial sums on stay whole, and so do ops whose results only the
    optimizer reads. No axis is added to an op that already uses the axis.

    Example, with tp over f: `x1 = x0 + contract [bsf, fh -> bsh]`, a norm of x1,
    a product of it. The sum is scattered along s, the addition and the norm run
    on a part of s, and the norm's result is gathered.

    Input: complete `heddle.factors`, as of heddle-propagate-shardings. Output:
    the same; heddle-insert-reshards makes the collectives.
  }];
  let options = [
    Option<"cluster", "cluster", "::heddle::ClusterChoice",
           "::heddle::ClusterChoice()",
           "preset or JSON file of the cluster that communication is weighed "
           "on; none: all devices are equally near">,
  ];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def WarnOfPaddingPass : Pass<"heddle-warn-of-padding", "::mlir::ModuleOp"> {
  let summary = "Warns where half of the devices hold nothing but padding";
  let description = [{
    Warns of a dimension or loop if half or more of the devices that split it
    hold nothing but padding. There is one warning for each size and list of
    axes. It is on the first variable, otherwise on the first operator,
    otherwise on the first op without a name or argument; it counts the other
    variables and operators.

    Input: the output of heddle-propagate-shardings. Changes nothing.
  }];
}

def MaterializePinsPass : Pass<"heddle-materialize-pins", "::mlir::ModuleOp"> {
  let summary = "Makes each pin a reshard after its op";
  let description = [{
    Inserts a reshard from the sharding in which the op makes the value to the
    pinned one, even if both are the same: no partial sum passes a pin.

    Input: the output of heddle-propagate-shardings. Output: no `heddle.pin`.
  }];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

def InsertReshardsPass : Pass<"heddle-insert-reshards", "::mlir::ModuleOp"> {
  let summary = "Makes each mismatch of shardings an explicit op";
  let description = [{
    Inserts `heddle.reshard` for every operand whose sharding differs from the
    one that its op's factors need.

    Several uses with the same need share one reshard. If uses need different
    shardings, either all of these are made from the value, or one is made first
    and the others from it, whichever takes less time on the cluster. A value
    from outside a loop is resharded once, before the loop. A loaded value is
    resharded at its use, so that a gathered parameter does not live from the
    forward to the backward pass. Uses in one block share the reshard if hardly
    any other parameter is gathered between them: at most an eighth of its bytes.

    Partial sums pass through ops that are linear and cheap: sums of two of
    them, products with replicated values, changes of shape. They pass if all
    uses of a value agree, the value does not grow, and it stays in its region
    and function. Otherwise they are reduced at the first use.

    With `remark-bytes`, there is a remark for each reshard in which a device
    sends that many bytes or more. It names the operator and the tensor, the
    bytes and the time on the cluster, and the collectives. Notes name the
    changes of the plan that would avoid the reshard. Reshards that differ only
    in the numbers within names (the layers of a model) share one remark, which
    counts them. `heddle-localize` reports the bytes that ops send while they
    compute, such as the halos of a convolution.

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
    Checks, in a module with a mesh:
    - no variable has `heddle.storage_axes`, and each has a storage;
    - every tensor argument and result of a function with a body has
      `heddle.sharding`, of its rank and over axes of the mesh;
    - no op has `heddle.split` or `heddle.pin`;
    - the factors that an op is split over (`heddle.factors`) are factors of it,
      over axes of the mesh, and split merged dimensions evenly;
    - `heddle.carried` of control flow has a sharding for each value that it
      carries;
    - `heddle.sharding` of an op is the sharding of its results, which follows
      from its factors, the variable that it loads, or the values that it
      carries or gets from a call;
    - every operand has the sharding that its op needs, which follows from the
      op's factors, the variable that it stores to, the control flow, call or
      return that passes the operand on, or the reshard. A partial sum only goes
      where its op passes it on;
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
    takes the least time on the cluster: a shortest path over all shardings of
    the tensor (`heddle/Cost/Resharding.h`). If sizes do not divide, parts may
    not nest; such parts are never cut from each other.

    The elements beyond the end of a dimension (padding) are tracked as zero,
    finite or unknown for each dimension of each value. `heddle.mask_padding` is
    inserted where padding would count: along summed and maximized dimensions,
    and before a store. Values that a loop carries or a call returns have
    unknown padding.

    Arguments and results keep `heddle.sharding` and gain `heddle.global_type`.
    Input: the output of heddle-insert-reshards. Output: local types, `comm`
    ops, no reshards, no factors.

    With `remark-bytes`, there is a remark for each op that sends that many
    bytes or more while it computes (the halos of a convolution, the keys and
    values of a ring, sums of parts), with the factors that would avoid it.
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
    Checks, after localization:
    - there is no `heddle.reshard`, and no op has `heddle.factors`,
      `heddle.sharding`, `heddle.priority`, `heddle.pin`, `heddle.carried` or
      `heddle.split`;
    - every load and store has the local type of its variable's storage;
    - every tensor argument and result of a public function has
      `heddle.global_type` and `heddle.sharding`, and the local type of the two;
    - a module that declares no mesh has no `comm` ops;
    - all gathers, reduce-scatters and all-to-alls are contiguous, as
      `heddle-pack-collectives` makes them.
  }];
}

include "include/heddle/Shard/CollectivePasses.td"

def ReportCommunicationPass
    : Pass<"heddle-report-communication", "::mlir::ModuleOp"> {
  let summary = "Prints what a device sends, and how long that takes";
  let description = [{
    Prints to standard error a line for each function, collective and set of
    axes: the number of ops, the bytes sent by the device that sends most (by
    the ring algorithms of `heddle/Cost/CollectiveCost.h`), and the time that
    the ops take on the cluster one after the other. Then prints the sums of
    each function. An op in a loop counts once, however often it runs, and so
    does a function that is called. Example:
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
