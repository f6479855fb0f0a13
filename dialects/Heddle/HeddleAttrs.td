//===- HeddleAttrs.td - Meshes, shardings, contractions ----*- tablegen -*-===//

#ifndef HEDDLE_ATTRS
#define HEDDLE_ATTRS

include "dialects/Heddle/HeddleDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Heddle_Attr<string name, string mnemonic_> : AttrDef<HeddleDialect, name> {
  let mnemonic = mnemonic_;
}

//===----------------------------------------------------------------------===//
// Enums
//===----------------------------------------------------------------------===//

class Heddle_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::heddle";
  let genSpecializedAttr = 0;
}

def ReductionKind : Heddle_Enum<"ReductionKind", "how values are combined", [
  I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Max", 1, "max">]>;
def ReductionKindAttr : EnumAttr<HeddleDialect, ReductionKind, "reduction">;

// The cases and numbers are those of heddle_rt/roles.h.
def VariableRole : Heddle_Enum<"VariableRole", "what a variable is for", [
  I32EnumAttrCase<"Parameter", 0, "parameter">,
  I32EnumAttrCase<"OptimizerState", 1, "optimizer_state">,
  I32EnumAttrCase<"Gradient", 2, "gradient">,
  I32EnumAttrCase<"Counter", 3, "counter">,
  I32EnumAttrCase<"Loss", 4, "loss">,
  I32EnumAttrCase<"Buffer", 5, "buffer">,
  I32EnumAttrCase<"Setting", 6, "setting">]>;
def VariableRoleAttr : EnumAttr<HeddleDialect, VariableRole, "role">;

// The cases and numbers are those of heddle_rt/roles.h.
def PortRole : Heddle_Enum<"PortRole", "what an argument or result is for", [
  I32EnumAttrCase<"Features", 0, "features">,
  I32EnumAttrCase<"Labels", 1, "labels">,
  I32EnumAttrCase<"MicroBatch", 2, "micro_batch">,
  I32EnumAttrCase<"LossSum", 3, "loss_sum">,
  I32EnumAttrCase<"LabelCount", 4, "label_count">,
  I32EnumAttrCase<"Loss", 5, "loss">,
  I32EnumAttrCase<"GradientNorm", 6, "gradient_norm">,
  I32EnumAttrCase<"LearningRate", 7, "learning_rate">,
  I32EnumAttrCase<"Output", 8, "output">,
  I32EnumAttrCase<"Gradient", 9, "gradient">]>;

def ProgramRole : Heddle_Enum<"ProgramRole",
    "the purpose of a program in training: `step` trains a whole step; "
    "`accumulate` adds the gradients of one micro-batch, and `update` ends the "
    "step; `evaluate` computes the loss of a batch, `gradients` its gradients", [
  I32EnumAttrCase<"Step", 0, "step">,
  I32EnumAttrCase<"Accumulate", 1, "accumulate">,
  I32EnumAttrCase<"Update", 2, "update">,
  I32EnumAttrCase<"Evaluate", 3, "evaluate">,
  I32EnumAttrCase<"Gradients", 4, "gradients">]>;
def ProgramRoleAttr : EnumAttr<HeddleDialect, ProgramRole, "program_role"> {
  let assemblyFormat = "`<` $value `>`";
}

def StateKind : Heddle_Enum<"StateKind", "what training keeps for a parameter", [
  I32EnumAttrCase<"AdamWMean", 0, "adamw_mean">,
  I32EnumAttrCase<"AdamWSquare", 1, "adamw_square">,
  I32EnumAttrCase<"SGDMomentum", 2, "sgd_momentum">,
  I32EnumAttrCase<"Gradient", 3, "gradient">]>;

def InitKind : Heddle_Enum<"InitKind", "initial values", [
  I32EnumAttrCase<"Zeros", 0, "zeros">, I32EnumAttrCase<"Ones", 1, "ones">,
  I32EnumAttrCase<"Constant", 2, "constant">,
  I32EnumAttrCase<"Normal", 3, "normal">]>;

def ContractPass : Heddle_Enum<"ContractPass", "the pass that a contraction belongs to: the "
    "forward pass, the gradient of the data (`dgrad`), or the gradient of the "
    "weights (`wgrad`)", [
  I32EnumAttrCase<"Forward", 0, "forward">,
  I32EnumAttrCase<"DGrad", 1, "dgrad">,
  I32EnumAttrCase<"WGrad", 2, "wgrad">]>;
def ContractPassAttr : EnumAttr<HeddleDialect, ContractPass, "pass">;

def GeluApproximation : Heddle_Enum<"GeluApproximation", "form of GELU", [
  I32EnumAttrCase<"None", 0, "none">, I32EnumAttrCase<"Tanh", 1, "tanh">]>;
def GeluApproximationAttr
    : EnumAttr<HeddleDialect, GeluApproximation, "gelu_approximation">;

def PaddingValue : Heddle_Enum<"PaddingValue", "what padding is set to", [
  I32EnumAttrCase<"Zero", 0, "zero">, I32EnumAttrCase<"Lowest", 1, "lowest">]>;
def PaddingValueAttr : EnumAttr<HeddleDialect, PaddingValue, "padding_value">;

def DataKind : Heddle_Enum<"DataKind", "the kind of data that a call handles", [
  I32EnumAttrCase<"Activation", 0, "activation">,
  I32EnumAttrCase<"Gradient", 1, "gradient">,
  I32EnumAttrCase<"Parameter", 2, "parameter">,
  I32EnumAttrCase<"State", 3, "state">]>;
def DataKindAttr : EnumAttr<HeddleDialect, DataKind, "data_kind">;

def Hierarchy : Heddle_Enum<"Hierarchy",
    "whether a collective over several axes becomes one collective for each "
    "level of the topology: `auto` does so where it takes less time on the "
    "cluster", [
  I32EnumAttrCase<"Auto", 0, "auto">, I32EnumAttrCase<"Always", 1, "always">,
  I32EnumAttrCase<"Never", 2, "never">]>;
def HierarchyAttr : EnumAttr<HeddleDialect, Hierarchy, "hierarchy"> {
  let assemblyFormat = "`<` $value `>`";
}

def GradientReduction : Heddle_Enum<"GradientReduction",
    "when gradients are summed over the devices: `step` sums them once a step, "
    "in the update, and `micro_batch` after each micro-batch", [
  I32EnumAttrCase<"Step", 0, "step">,
  I32EnumAttrCase<"MicroBatch", 1, "micro_batch">]>;
def GradientReductionAttr
    : EnumAttr<HeddleDialect, GradientReduction, "gradient_reduction"> {
  let assemblyFormat = "`<` $value `>`";
}

def PipelineSchedule : Heddle_Enum<"PipelineSchedule",
    "the order in which the stages of a pipeline work on micro-batches", [
  I32EnumAttrCase<"GPipe", 0, "gpipe">,
  I32EnumAttrCase<"OneFOneB", 1, "one_f_one_b">,
  I32EnumAttrCase<"Interleaved", 2, "interleaved">,
  I32EnumAttrCase<"ZBH1", 3, "zb_h1">,
  I32EnumAttrCase<"ZBH2", 4, "zb_h2">,
  I32EnumAttrCase<"ZBV", 5, "zb_v">]>;

def StageWork : Heddle_Enum<"StageWork",
    "the work of a program of a pipeline: `forward`, `backward` and "
    "`backward_weights` work on one micro-batch; `send_gradients`, `update` and "
    "`report` run once a step", [
  I32EnumAttrCase<"Forward", 0, "forward">,
  I32EnumAttrCase<"Backward", 1, "backward">,
  I32EnumAttrCase<"BackwardWeights", 2, "backward_weights">,
  I32EnumAttrCase<"SendGradients", 3, "send_gradients">,
  I32EnumAttrCase<"Update", 4, "update">,
  I32EnumAttrCase<"Report", 5, "report">]>;

//===----------------------------------------------------------------------===//
// Meshes and shardings
//===----------------------------------------------------------------------===//

def MeshAxisAttr : Heddle_Attr<"MeshAxis", "axis"> {
  let summary = "a named axis of a mesh";
  let parameters = (ins "::mlir::StringAttr":$name, "int64_t":$size);
  let assemblyFormat = "$name `=` $size";
  let genVerifyDecl = 1;
}

def MeshAttr : Heddle_Attr<"Mesh", "mesh"> {
  let summary = "named axes over which devices are laid out";
  let description = [{
    Devices are numbered row-major: the last axis is the fastest. Constraints:
    - axis names are unique and not empty;
    - sizes are positive.

    Example: `#heddle.mesh<["dp"=2, "tp"=4]>` has 8 devices; device 5 has the
    coordinates dp=1, tp=1.
  }];
  let parameters = (ins ArrayRefParameter<"::heddle::MeshAxisAttr">:$axes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getNumDevices() const;
    /// The size of an axis, or 0 if there is none of that name.
    int64_t getAxisSize(::llvm::StringRef name) const;
    /// The product of the sizes of the axes.
    int64_t getSize(::llvm::ArrayRef<::mlir::StringAttr> axes) const;
  }];
}

def AxisListAttr : Heddle_Attr<"AxisList", "axes"> {
  let summary = "the list of mesh axes that split one dimension, major to minor";
  let parameters = (ins OptionalArrayRefParameter<"::mlir::StringAttr">:$axes);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    bool empty() const { return getAxes().empty(); }
  }];
}

def ShardingAttr : Heddle_Attr<"Sharding", "sharding"> {
  let summary = "how a tensor lies on a mesh";
  let description = [{
    `dims` lists for each dimension the axes that split it, major to minor.
    `partialAxes` lists the axes over which the devices hold partial sums (or
    maxima) of the value. Over all other axes the value is replicated.

    A dimension of size S split over n devices has the local size ceil(S / n);
    device k holds rows [k * local, (k+1) * local) of the global tensor. Rows
    beyond S are padding, with unspecified content unless stated otherwise (the
    padding of a variable is zero).

    Constraints:
    - an axis occurs at most once, in the dimensions and the partial together;
    - every axis is an axis of the mesh (checked where the mesh is known).

    Example: `#heddle.sharding<@mesh, [{"dp"}, {}, {"tp"} ]>`,
    `#heddle.sharding<@mesh, [{}, {} ], partial = sum {"tp"}>`.
  }];
  let parameters = (ins
    "::mlir::FlatSymbolRefAttr":$mesh,
    OptionalArrayRefParameter<"::heddle::AxisListAttr">:$dims,
    "::heddle::ReductionKind":$partialKind,
    OptionalArrayRefParameter<"::mlir::StringAttr">:$partialAxes);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getRank() const { return getDims().size(); }
    bool isPartial() const { return !getPartialAxes().empty(); }
    /// Whether no dimension is split and nothing is partial.
    bool isReplicated() const;
    /// The same sharding without partial axes.
    ShardingAttr withoutPartial() const;
    /// A replicated sharding of that rank.
    static ShardingAttr getReplicated(::mlir::FlatSymbolRefAttr mesh,
                                      int64_t rank);
    /// The type that one device holds: ceil division of every dimension.
    ::mlir::RankedTensorType getLocalType(::mlir::RankedTensorType global,
                                          ::heddle::MeshAttr mesh) const;
  }];
}

def CoordinatesAttr : Heddle_Attr<"Coordinates", "coordinates"> {
  let summary = "some of the coordinates along one mesh axis";
  let parameters = (ins "::mlir::StringAttr":$axis,
                        ArrayRefParameter<"int64_t">:$values);
  let assemblyFormat = "`` $axis `=` `[` $values `]`";
}

def RanksAttr : Heddle_Attr<"Ranks", "ranks"> {
  let summary = "a set of ranks, by their coordinates on a mesh";
  let description = [{
    The set of all ranks whose coordinate along each listed axis is one of the
    listed values. An axis that is not listed may have any coordinate. A
    variable, function or port without `heddle.ranks` belongs to all ranks.

    Constraints:
    - at least one axis is listed, each once, and the mesh has it;
    - coordinates ascend and lie within the axis.

    Example: `#heddle.ranks<@mesh, {"pp" = [0, 3]}>`
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$mesh,
                        ArrayRefParameter<"::heddle::CoordinatesAttr">:$where);
  let assemblyFormat = "`<` $mesh `,` `{` $where `}` `>`";
  let genVerifyDecl = 1;
}

def FactorAxesAttr : Heddle_Attr<"FactorAxes", "factor_axes"> {
  let summary = "the axes that split one factor";
  let parameters = (ins "::mlir::StringAttr":$factor, "::heddle::AxisListAttr":$axes);
  let assemblyFormat = "$factor `=` custom<BareAxisList>($axes)";
}

def FactorShardingAttr : Heddle_Attr<"FactorSharding", "factors"> {
  let summary = "an op's assignment of mesh axes to its factors";
  let description = [{
    A plan's assignment for one op. Unnamed factors are written by their index
    in the op's rule.

    Example: `#heddle.factors<["b" = {"dp"}, "f" = {"tp"} ]>`.
  }];
  let parameters = (ins OptionalArrayRefParameter<"::heddle::FactorAxesAttr">:$factors);
  let assemblyFormat = "`<` `[` (`]`) : ($factors^ `]`)? `>`";
}

def SplitAttr : Heddle_Attr<"Split", "split"> {
  let summary = "the slices in which an op runs, one after another";
  let description = [{
    A plan's slicing of one op (`heddle.split`). The factor is cut into `slices`
    parts of nearly equal size, and so is every variable that the factor runs
    over. The first `sharded` slices of a variable keep the variable's own
    storage; the other slices are stored in the sharding that their uses need.
    Constraints: slices >= 2; 0 <= sharded <= slices.

    Example: `#heddle.split<"h", 4, sharded 2>`.
  }];
  let parameters = (ins "::mlir::StringAttr":$factor, "int64_t":$slices,
                        "int64_t":$sharded);
  let assemblyFormat = "`<` $factor `,` $slices `,` `sharded` $sharded `>`";
  let genVerifyDecl = 1;
}

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

def PipelineAttr : Heddle_Attr<"Pipeline", "pipeline"> {
  let summary = "the pipeline in which a module's programs run";
  let description = [{
    The programs are cut into `stages`, which lie on the devices along the mesh
    axis `axis`. The schedule orders their work on micro-batches. Each device has
    stages / (size of the axis) stages. The schedule chooses which stages these
    are.

    Constraints: at least one stage.

    Example: `#heddle.pipeline<"pp", one_f_one_b, stages 4>`
  }];
  let parameters = (ins "::mlir::StringAttr":$axis,
                        EnumParameter<PipelineSchedule>:$schedule,
                        "int64_t":$stages);
  let assemblyFormat = "`<` $axis `,` $schedule `,` `stages` $stages `>`";
  let genVerifyDecl = 1;
}

def StageProgramAttr : Heddle_Attr<"StageProgram", "stage_program"> {
  let summary = "the stage and the work of a program of a pipeline";
  let description = [{
    A pipeline cuts an entry point `entry` ("step", "evaluate") into programs.
    This program does the part `work`, for the stage `stage`. The programs
    `send_gradients`, `update` and `report` run once a step, in this order. They
    belong to a device instead of a stage: `stage` is the device's coordinate
    along the pipeline's axis. A result of one program is passed to the
    arguments of the same name of the entry point's other programs.

    Example: `#heddle.stage_program<"step", backward, stage 1>`
  }];
  let parameters = (ins "::mlir::StringAttr":$entry,
                        EnumParameter<StageWork>:$work, "int64_t":$stage);
  let assemblyFormat = "`<` $entry `,` $work `,` `stage` $stage `>`";
}

//===----------------------------------------------------------------------===//
// Names that survive
//===----------------------------------------------------------------------===//

def ServesAttr : Heddle_Attr<"Serves", "serves"> {
  let summary = "the operators that a call serves, and the kind of its data";
  let description = [{
    Every kernel, library call, collective and copy of one device's program
    lists the operators that it was made of, in program order. A call that
    belongs to no operator lists the variables that it moves or updates.

    The kind is that of the data that the call handles:
    - `activation`: data between operators, forward (an activation) or backward
      (its gradient), and results of the program;
    - `gradient`: the gradient of a parameter, from the operator that computes
      it to the update, and values computed from gradients alone (their norm);
    - `parameter`: values of parameters, loaded for operators (casts, gathers) or
      updated;
    - `state`: optimizer state and counters, and values computed from them alone
      (the learning rate).

    An operator or call with data of several kinds has the kind that comes first
    in this list. The list has roughly the order in which other calls wait for
    data of these kinds.
    For example, the whole backward pass of a norm is `activation`, including a
    kernel that only finishes the sum of the weight's gradient.

    Constraints: at least one name; no name is empty or occurs twice.

    Example: `#heddle.serves<activation ["h.0.mlp.c_fc", "h.0.mlp.gelu"]>`
  }];
  let parameters = (ins "::heddle::DataKind":$kind,
                        ArrayRefParameter<"::mlir::StringAttr">:$names);
  let assemblyFormat = "`<` $kind ` ` `[` $names `]` `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The names of all parts, in order, each once; null if no part has names.
    /// A part may be null.
    static ServesAttr getUnion(::heddle::DataKind kind,
                               ::llvm::ArrayRef<ServesAttr> parts);
  }];
}

//===----------------------------------------------------------------------===//
// Variables and contractions
//===----------------------------------------------------------------------===//

def InitAttr : Heddle_Attr<"Init", "init"> {
  let summary = "the initial values of a variable";
  let description = [{
    `zeros`, `ones`, `constant<value>` or `normal<standard deviation>` (mean 0,
    drawn by counter-based random numbers over the global element index).
  }];
  let parameters = (ins "::heddle::InitKind":$kind,
                        OptionalParameter<"::mlir::FloatAttr">:$value);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

def CheckpointAttr : Heddle_Attr<"Checkpoint", "checkpoint"> {
  let summary = "the tensor of a checkpoint that holds a variable's values";
  let parameters = (ins "::mlir::StringAttr":$name,
                        ArrayRefParameter<"int64_t">:$shape);
  let assemblyFormat = "`<` $name `,` `[` $shape `]` `>`";
}

def SliceAttr : Heddle_Attr<"Slice", "slice"> {
  let summary = "the tensor that a variable is a slice of";
  let description = [{
    Along dimension `dim`, the tensor `of` has `size` rows. The variable is the
    rows [offset, offset + n) of it, where n is the variable's size along `dim`.
    The initial values of these rows are those that the whole tensor would have,
    and checkpoints hold the whole tensor.
    Constraints: dim and offset are not negative; size is positive.

    Example: `#heddle.slice<"h.0.mlp.c_fc.weight", dim 0, 192 of 768>`.
  }];
  let parameters = (ins "::mlir::StringAttr":$of, "int64_t":$dim,
                        "int64_t":$offset, "int64_t":$size);
  let assemblyFormat = "`<` $of `,` `dim` $dim `,` $offset `of` $size `>`";
  let genVerifyDecl = 1;
}

def StateAttr : Heddle_Attr<"State", "state"> {
  let summary = "which parameter's state a variable holds, and of which kind";
  let description = [{
    The variable has the role `gradient` if the kind is `gradient`, otherwise
    the role `optimizer_state`. If the variable is a slice, its parameter is the
    same slice of the whole parameter.

    Example: `#heddle.state<adamw_mean of @h.0.mlp.c_fc.weight>`.
  }];
  let parameters = (ins EnumParameter<StateKind>:$kind,
                        "::mlir::FlatSymbolRefAttr":$parameter);
  let assemblyFormat = "`<` $kind `of` $parameter `>`";
  let extraClassDeclaration = [{
    /// The role of a variable with this state.
    VariableRole getRole() const {
      return getKind() == StateKind::Gradient ? VariableRole::Gradient
                                              : VariableRole::OptimizerState;
    }
  }];
}

def GroupAttr : Heddle_Attr<"Group", "group"> {
  let summary = "how the optimizer updates one parameter";
  let description = [{
    The learning rate is the value of a variable (tensor<f64>, role setting),
    which the caller may set before each step. The decay is the factor of weight
    decay, whatever the parameter's number of dimensions.
    Constraint: the decay is finite and at least 0.

    Example: `#heddle.group<@learning_rate.0, decay 1.0e-02>`.
  }];
  let parameters = (ins "::mlir::FlatSymbolRefAttr":$learningRate,
                        "::mlir::FloatAttr":$decay);
  let assemblyFormat = "`<` $learningRate `,` `decay` custom<BareDecay>($decay) `>`";
  let genVerifyDecl = 1;
}

def PortRoleAttr : Heddle_Attr<"PortRole", "port_role"> {
  let summary = "what an argument or result of a program is for";
  let description = [{
    Training and evaluation find arguments and results by these roles, not by
    their names or order:
    - arguments: `features` (what the model reads), `labels` (what it should
      answer; a label of -100 is ignored), `micro_batch` (the number of the
      micro-batch within the step, from 0; tensor<i64>);
    - results: `loss_sum` and `label_count` (the sum of the losses of all labels
      that count, and their number), `loss` (their quotient), `gradient_norm`,
      `learning_rate` (all of them tensor<f32>), `output` (what the model
      answers), `gradient of "NAME"` (of the loss, by the parameter NAME).

    Constraint: only a gradient names a parameter, and each one does.

    Example: `#heddle.port_role<features>`,
    `#heddle.port_role<gradient of "wte.weight">`.
  }];
  let parameters = (ins EnumParameter<PortRole>:$role,
                        OptionalParameter<"::mlir::StringAttr">:$of);
  let assemblyFormat = "`<` $role (`of` $of^)? `>`";
  let genVerifyDecl = 1;
  let builders = [AttrBuilder<(ins "::heddle::PortRole":$role), [{
    return $_get($_ctxt, role, ::mlir::StringAttr());
  }]>];
}

def ContractionAttr : Heddle_Attr<"Contraction", "contraction"> {
  let summary = "the factors of a contraction, one letter a dimension";
  let description = [{
    `[bsh, hf -> bsf]` lists the factors of the two operands and the result, one
    letter a dimension. A letter in all three lists is a batch factor. A letter
    in one operand and the result is a parallel factor. A letter in both
    operands, but not in the result, is summed over.
    Constraints:
    - letters are a-z or A-Z and occur once in each list;
    - every letter of the result occurs in an operand;
    - a letter of only one operand occurs in the result.
  }];
  let parameters = (ins "::mlir::StringAttr":$lhs, "::mlir::StringAttr":$rhs,
                        "::mlir::StringAttr":$result);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
}

#endif
