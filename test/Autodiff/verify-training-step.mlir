// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-verify-training-step

module {
  // expected-error @below {{expected no @forward beside the programs made of it}}
  func.func @forward() {
    return
  }
}

// -----

module {
  // expected-error @below {{expected both @accumulate and @update, or none}}
  func.func @accumulate() {
    return
  }
}

// -----

module attributes {heddle.micro_batches = 2 : i64} {
  // expected-error @below {{expected @step alone, or @accumulate and @update}}
  func.func @step() {
    return
  }
  func.func @accumulate() {
    return
  }
  func.func @update() {
    return
  }
}

// -----

module {
  // expected-error @below {{expected heddle.micro_batches of the module to be at least 2, got 1}}
  func.func @accumulate() {
    return
  }
  func.func @update() {
    return
  }
}

// -----

module attributes {heddle.micro_batches = 4 : i64} {
  // expected-error @below {{expected no heddle.micro_batches of the module: one call of @step is a step, got 4}}
  func.func @step() {
    return
  }
}

// -----

module {
  // expected-error @below {{expected a public function of one block}}
  func.func private @evaluate()
}

// -----

module {
  // expected-error @below {{expected 3 results, got 0}}
  func.func @evaluate() {
    return
  }
}

// -----

module {
  // expected-error @below {{expected heddle.name of result 1 to be 'grad_norm', got 'norm'}}
  func.func @step() -> (tensor<f32> {heddle.name = "loss"}, tensor<f32> {heddle.name = "norm"}, tensor<f32> {heddle.name = "learning_rate"}) {
    %x = arith.constant dense<0.0> : tensor<f32>
    return %x, %x, %x : tensor<f32>, tensor<f32>, tensor<f32>
  }
}

// -----

// There must be one gradient for each parameter, of its type.
module {
  heddle.variable @w : tensor<4xf32> parameter init(zeros)
  // expected-error @below {{expected grad.w to be 'tensor<4xf32>', got 'tensor<f32>'}}
  func.func @gradients() -> (tensor<f32> {heddle.name = "loss"}, tensor<2xf32> {heddle.name = "logits"}, tensor<f32> {heddle.name = "grad.w"}) {
    %x = arith.constant dense<0.0> : tensor<f32>
    %y = arith.constant dense<0.0> : tensor<2xf32>
    return %x, %y, %x : tensor<f32>, tensor<2xf32>, tensor<f32>
  }
}

// -----

module {
  func.func @evaluate(%x: tensor<4xf32>, %step: tensor<i64>) -> (tensor<f32> {heddle.name = "loss_sum"}, tensor<f32> {heddle.name = "count"}, tensor<4xf32> {heddle.name = "logits"}) {
    %zero = arith.constant dense<0.0> : tensor<f32>
    // expected-error @below {{expected no dropout in @evaluate}}
    %y = heddle.dropout "drop" %x, %step rate(0.5) : tensor<4xf32>, tensor<i64> -> tensor<4xf32>
    return %zero, %zero, %y : tensor<f32>, tensor<f32>, tensor<4xf32>
  }
}

// -----

module {
  // expected-error @below {{expected the parameter that it is kept for (state), as role optimizer_state has one}}
  heddle.variable @m : tensor<4xf32> optimizer_state init(zeros)
}

// -----

module {
  heddle.variable @w : tensor<4xf32> parameter init(zeros)
  // expected-error @below {{expected the type of @w, 'tensor<4xf32>', got 'tensor<2xf32>'}}
  heddle.variable @m : tensor<2xf32> optimizer_state init(zeros) state(<adamw_mean of @w>)
}

// -----

module attributes {heddle.micro_batches = 2 : i64} {
  // expected-error @below {{expected @accumulate to add to it and @update to zero it, got a store in @accumulate alone}}
  heddle.variable @loss_sum : tensor<f32> loss init(zeros)
  func.func @accumulate() {
    %x = heddle.load @loss_sum : tensor<f32>
    %y = arith.addf %x, %x : tensor<f32>
    heddle.store %y, @loss_sum : tensor<f32>
    return
  }
  func.func @update() -> (tensor<f32> {heddle.name = "loss"}, tensor<f32> {heddle.name = "grad_norm"}, tensor<f32> {heddle.name = "learning_rate"}) {
    %x = heddle.load @loss_sum : tensor<f32>
    return %x, %x, %x : tensor<f32>, tensor<f32>, tensor<f32>
  }
}
