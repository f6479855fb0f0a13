// RUN: heddle-opt %s --heddle-build-training-step --split-input-file --verify-diagnostics
// RUN: not heddle-opt %s --heddle-build-training-step="beta1=1.0" 2>&1 | FileCheck %s --check-prefix=BETA
// RUN: not heddle-opt %s --heddle-build-training-step="schedule=cosine" 2>&1 | FileCheck %s --check-prefix=TOTAL
// RUN: not heddle-opt %s --heddle-build-training-step="micro-batches=0" 2>&1 | FileCheck %s --check-prefix=MICRO
// RUN: not heddle-opt %s --heddle-build-training-step="schedule=cosine warmup-steps=40 total-steps=20" 2>&1 | FileCheck %s --check-prefix=WARMUP
// BETA: expected beta1 in [0, 1), got 1{{$}}
// TOTAL: expected total-steps (--steps) of a cosine schedule of at least 1, for warmup-steps (--warmup) 0, got 0{{$}}
// WARMUP: expected total-steps (--steps) of a cosine schedule of at least 40, for warmup-steps (--warmup) 40, got 20{{$}}
// MICRO: expected micro-batches of at least 1, got 0{{$}}

// expected-error @below {{expected a function @forward}}
module {
}

// -----

module {
  // expected-error @below {{expected @forward to return the sum of the losses and the count of tokens, both tensor<f32>, and the logits, got}}
  func.func @forward(%tokens: tensor<2xi32>) -> tensor<2xi32> {
    return %tokens : tensor<2xi32>
  }
}

// -----

// An op without a gradient between a parameter and the loss.
module {
  heddle.variable @w : tensor<4xf32> parameter init(ones)
  func.func @forward(%tokens: tensor<2xi32>, %targets: tensor<2xi32>)
      -> (tensor<f32>, tensor<f32>, tensor<4xf32>) {
    %w = heddle.load @w : tensor<4xf32>
    // expected-error @below {{'math.floor' op has no gradient, but the loss depends on a parameter through it}}
    %x = math.floor %w : tensor<4xf32>
    %sum = heddle.reduce sum %x over [0] : tensor<4xf32> -> tensor<f32>
    %count = arith.constant dense<2.0> : tensor<f32>
    return %sum, %count, %x : tensor<f32>, tensor<f32>, tensor<4xf32>
  }
}

// -----

// The same op is no error if the loss does not depend on it.
module {
  heddle.variable @w : tensor<4xf32> parameter init(ones)
  func.func @forward(%tokens: tensor<2xi32>, %targets: tensor<2xi32>)
      -> (tensor<f32>, tensor<f32>, tensor<4xf32>) {
    %w = heddle.load @w : tensor<4xf32>
    %x = math.floor %w : tensor<4xf32>
    %sum = heddle.reduce sum %w over [0] : tensor<4xf32> -> tensor<f32>
    %count = arith.constant dense<2.0> : tensor<f32>
    return %sum, %count, %x : tensor<f32>, tensor<f32>, tensor<4xf32>
  }
}

// -----

module {
  heddle.variable @w : tensor<2x4xf32> parameter init(ones)
  func.func @forward(%tokens: tensor<2xi32>, %targets: tensor<2xi32>)
      -> (tensor<f32>, tensor<f32>, tensor<2x4xf32>) {
    %w = heddle.load @w : tensor<2x4xf32>
    %one = arith.constant dense<1.0> : tensor<4xf32>
    // expected-error @below {{'heddle.rms_norm' op expected the loss not to depend on rstd, whose gradient is not defined}}
    %y, %rstd = heddle.rms_norm %w, %one epsilon(1.0e-5)
      : (tensor<2x4xf32>, tensor<4xf32>) -> (tensor<2x4xf32>, tensor<2xf32>)
    %sum = heddle.reduce sum %rstd over [0] : tensor<2xf32> -> tensor<f32>
    %count = arith.constant dense<2.0> : tensor<f32>
    return %sum, %count, %y : tensor<f32>, tensor<f32>, tensor<2x4xf32>
  }
}

// -----

module {
  // expected-error @below {{expected a parameter of f32, got 'tensor<4xbf16>'}}
  heddle.variable @w : tensor<4xbf16> parameter init(ones)
  func.func @forward(%tokens: tensor<2xi32>, %targets: tensor<2xi32>)
      -> (tensor<f32>, tensor<f32>, tensor<f32>) {
    %sum = arith.constant dense<2.0> : tensor<f32>
    return %sum, %sum, %sum : tensor<f32>, tensor<f32>, tensor<f32>
  }
}

// -----

module {
  // expected-error @below {{expected @steps to be a variable of type 'tensor<i64>' and role counter, as the training step needs it}}
  heddle.variable @steps : tensor<4xf32> parameter init(ones)
  func.func @forward(%tokens: tensor<2xi32>, %targets: tensor<2xi32>)
      -> (tensor<f32>, tensor<f32>, tensor<f32>) {
    %sum = arith.constant dense<2.0> : tensor<f32>
    return %sum, %sum, %sum : tensor<f32>, tensor<f32>, tensor<f32>
  }
}

// -----

module {
  // expected-error @below {{expected a module with @forward alone, got @update}}
  func.func @update() {
    return
  }
  func.func @forward(%tokens: tensor<2xi32>, %targets: tensor<2xi32>)
      -> (tensor<f32>, tensor<f32>, tensor<f32>) {
    %sum = arith.constant dense<2.0> : tensor<f32>
    return %sum, %sum, %sum : tensor<f32>, tensor<f32>, tensor<f32>
  }
}
