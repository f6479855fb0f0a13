//===- Passes.td - Passes from a forward program to a step -*- tablegen -*-===//

#ifndef HEDDLE_AUTODIFF_PASSES
#define HEDDLE_AUTODIFF_PASSES

include "mlir/Pass/PassBase.td"

def ApplyMixedPrecisionPass
    : Pass<"heddle-apply-mixed-precision", "::mlir::ModuleOp"> {
  let summary = "computes products in bf16 and keeps sums and state in f32";
  let description = [{
    Input: a module with @forward in f32. Output: the same function with the
    types that torch.autocast would choose. The type of @forward does not
    change.

    Each op, in program order:
    - contractions and attention take bf16 operands and give bf16 results
      (sums inside are f32, and so is attention's lse);
    - ops that only move, scale or activate elements (broadcast, stack, unstack,
      gelu, silu, rotary, dropout; addf, subf, mulf, divf, negf, maximumf,
      minimumf and select of arith; expand_shape, collapse_shape, extract_slice
      and concat of tensor) give bf16 if an operand is bf16 and all other float
      operands are bf16, splat constants or biases; rotary's tables stay f32;
    - a bias (a variable that is broadcast and then added to a bf16 value) is
      cast to bf16;
    - cross-entropy, logsumexp and reduce read bf16 directly and give f32;
    - norms, embeddings, upstream math and every other op compute in f32, so the
      residual stream (bf16 + f32) is f32.

    Casts are arith.extf and arith.truncf, each next to its use, so that
    gradients of several uses are added in f32. Equal casts may be merged after
    autodiff. Variables keep their type: weights are cast after they are loaded.
    The gradient of a weight is not cast to f32: autodiff gives the product that
    computes it an f32 result.
  }];
  let options = [
    Option<"compute", "compute", "::heddle::ComputeType",
           "::heddle::ComputeType::BF16", "type of products: f32 changes nothing",
           [{::llvm::cl::values(
             clEnumValN(::heddle::ComputeType::F32, "f32", "32-bit floats"),
             clEnumValN(::heddle::ComputeType::BF16, "bf16", "bfloat16"))}]>
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::heddle::HeddleDialect"];
}

def BuildTrainingStepPass
    : Pass<"heddle-build-training-step", "::mlir::ModuleOp"> {
  let summary = "makes the training step, evaluation and gradients of @forward";
  let description = [{
    Input: a module with variables and a function @forward. The arguments and
    results of @forward, in any order, have these roles (`heddle.role`):

    - arguments: `features` and `labels`;
    - results: one `loss_sum`, the sum of the losses of all labels that count;
      one `label_count`, the number of these labels, which depends only on the
      labels (both tensor<f32>); any number of `output`.

    Output, without @forward:

    - with one micro-batch a step: @step, with the arguments of @forward and
      results of the roles `loss`, `gradient_norm` and `learning_rate`;
    - with several: @accumulate, called once a micro-batch with the arguments of
      @forward, and @update, without arguments, with the results of @step;
    - @evaluate, with the arguments and results of @forward;
    - @gradients, with the arguments of @forward and results of the roles `loss`,
      `output` (those of @forward) and `gradient`, one of each variable of role
      parameter.

    @evaluate and @gradients have no dropout. If there are several micro-batches,
    the module's attribute `heddle.micro_batches` is their number.

    **Loss.** loss = loss_sum / max(count, 1), both over all micro-batches, and
    gradients are those of this loss. With one micro-batch the backward pass
    starts from 1 / max(count, 1). With several it starts from 1, and
    @accumulate adds up gradients in variables of role gradient (`grad.X`), and
    loss_sum and count in variables of role loss (`loss_sum`, `count`). @update
    divides by the count and zeroes these variables.

    **Clipping** as torch.nn.utils.clip_grad_norm_: norm is the square root of
    the sum of the squares of all gradients, and gradients are multiplied by
    min(clip / (norm + 1e-6), 1). grad_norm is this norm, before clipping.

    **Schedule.** With t completed steps, warm-up w, total T, final ratio r:
    - t < w: lr = learning-rate * (t + 1) / w;
    - constant: lr = learning-rate;
    - cosine: p = min((t - w) / max(T - w, 1), 1) and
      lr = learning-rate * (r + (1 - r) * (1 + cos(pi * p)) / 2).

    **AdamW** as torch.optim.AdamW, with n = t + 1:
    m = m + (1 - beta1) (g - m); v = beta2 v + (1 - beta2) g^2;
    x = x (1 - lr weight-decay)
        - lr / (1 - beta1^n) * m / (sqrt(v) / sqrt(1 - beta2^n) + epsilon).
    State: `adamw.m.X`, `adamw.v.X`.
    **Adam** as torch.optim.Adam: as AdamW, but weight decay adds
    weight-decay x to g in place of the factor of x.
    **SGD** as torch.optim.SGD: g = g + weight-decay x; with momentum
    u = momentum u + g (`sgd.momentum.X`), else u = g; x = x - lr u.
    Weight decay applies to variables with at least two dimensions in the
    checkpoint (or in the program, if they are in no checkpoint): not to biases
    and norms.
    **Groups.** A parameter with `heddle.group` has the learning rate and the
    decay of its group, whatever the options and the parameter's dimensions. The
    step's result `learning_rate` is that of the first group.

    **Buffers** (variables of role buffer) are parts of the model without a
    gradient. @forward may store them (running statistics): @step and
    @accumulate do so too, @evaluate and @gradients do not.

    The learning rate and AdamW's corrections and decay are computed in f64 from
    the variable `steps` (i64, role counter), which counts completed steps. They
    are then cast to f32. The norm and the clip factor are computed in f32. All
    of these are tensors without dimensions. Updates broadcast the factors, so
    each parameter's update is one elementwise chain.

    **Dropout** depends on the step number. With several micro-batches that
    number is steps * micro-batches + the index of the micro-batch. @accumulate
    then has one more argument, that index: tensor<i64> of the role
    `micro_batch`.

    Errors: an op between a parameter and the loss that has no gradient; an
    argument or result of @forward of another role; a parameter that is not f32;
    a store in @forward to a variable that is no buffer; a group whose learning
    rate is no variable of role setting;
    a name that exists already.
  }];
  let options = [
    Option<"optimizer", "optimizer", "::heddle::OptimizerKind",
           "::heddle::OptimizerKind::AdamW", "how parameters are updated",
           [{::llvm::cl::values(
             clEnumValN(::heddle::OptimizerKind::AdamW, "adamw", "AdamW"),
             clEnumValN(::heddle::OptimizerKind::Adam, "adam", "Adam"),
             clEnumValN(::heddle::OptimizerKind::SGD, "sgd", "SGD"))}]>,
    Option<"learningRate", "learning-rate", "double", "3e-4",
           "the learning rate after warm-up">,
    Option<"beta1", "beta1", "double", "0.9", "AdamW: decay of the mean">,
    Option<"beta2", "beta2", "double", "0.999", "AdamW: decay of the square">,
    Option<"epsilon", "epsilon", "double", "1e-8", "AdamW: added to the root">,
    Option<"weightDecay", "weight-decay", "double", "0.01",
           "factor of weight decay; biases and norms have none">,
    Option<"momentum", "momentum", "double", "0.0",
           "SGD: the part of the momentum that a step keeps">,
    Option<"clip", "clip", "double", "1.0",
           "the limit on the norm of all gradients together; 0: no clipping">,
    Option<"schedule", "schedule", "::heddle::ScheduleKind",
           "::heddle::ScheduleKind::Constant", "the learning rate's course",
           [{::llvm::cl::values(
             clEnumValN(::heddle::ScheduleKind::Constant, "constant", "constant"),
             clEnumValN(::heddle::ScheduleKind::Cosine, "cosine", "cosine"))}]>,
    Option<"warmupSteps", "warmup-steps", "int64_t", "0",
           "steps of linear warm-up">,
    Option<"totalSteps", "total-steps", "int64_t", "0",
           "the step at which the cosine ends">,
    Option<"finalRatio", "final-ratio", "double", "0.1",
           "the cosine's final learning rate, as a fraction of learning-rate">,
    Option<"microBatches", "micro-batches", "int64_t", "1",
           "micro-batches a step">,
    Option<"dropout", "dropout", "bool", "true",
           "whether training uses dropout; false removes every dropout">,
    Option<"seed", "seed", "uint64_t", "0", "of dropout's random numbers">,
    Option<"train", "train", "bool", "true", "make the training step">,
    Option<"evaluate", "evaluate", "bool", "true", "make @evaluate">,
    Option<"gradients", "gradients", "bool", "false", "make @gradients">
  ];
  let dependentDialects = ["::mlir::arith::ArithDialect",
                           "::mlir::math::MathDialect",
                           "::mlir::tensor::TensorDialect",
                           "::mlir::func::FuncDialect",
                           "::heddle::HeddleDialect"];
}

def VerifyTrainingStepPass
    : Pass<"heddle-verify-training-step", "::mlir::ModuleOp"> {
  let summary = "checks the programs of training and their variables";
  let description = [{
    After the phase `autodiff`:
    - there is no `@forward`;
    - `@accumulate` and `@update` occur together, and not beside `@step`;
    - `heddle.micro_batches` is at least 2 with these two, and absent or 1 with
      `@step`;
    - `@step`, `@accumulate`, `@update`, `@evaluate` and `@gradients` are public
      functions of one block;
    - their arguments and results have the roles and types that
      `heddle-build-training-step` gives them;
    - `@evaluate` and `@gradients` have no dropout;
    - a variable of role gradient or optimizer state names its parameter, and
      has the parameter's type if the module has that parameter;
    - `@accumulate` and `@update` store the same sums over micro-batches
      (variables of role gradient or loss).
  }];
  let dependentDialects = ["::heddle::HeddleDialect"];
}

#endif
