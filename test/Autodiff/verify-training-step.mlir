// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-verify-training-step

module {
  // expected-error @below {{expected no @forward beside the programs made of it}}
  func.func @forward() {
    return
  }
}

// -----

module {
  func.func @evaluate() attributes {heddle.role = #heddle.program_role<evaluate>} {
    return
  }
  // expected-error @below {{expected one function of role #heddle.program_role<evaluate>, got @evaluate and @again}}
  func.func @again() attributes {heddle.role = #heddle.program_role<evaluate>} {
    return
  }
}

// -----

module {
  // expected-error @below {{expected both @accumulate and @update, or none}}
  func.func @accumulate() attributes {heddle.role = #heddle.program_role<accumulate>} {
    return
  }
}

// -----

module attributes {heddle.micro_batches = 2 : i64} {
  // expected-error @below {{expected @step alone, or @accumulate and @update}}
  func.func @step() attributes {heddle.role = #heddle.program_role<step>} {
    return
  }
  func.func @accumulate() attributes {heddle.role = #heddle.program_role<accumulate>} {
    return
  }
  func.func @update() attributes {heddle.role = #heddle.program_role<update>} {
    return
  }
}

// -----

module {
  // expected-error @below {{expected heddle.micro_batches of the module to be at least 2, got 1}}
  func.func @accumulate() attributes {heddle.role = #heddle.program_role<accumulate>} {
    return
  }
  func.func @update() attributes {heddle.role = #heddle.program_role<update>} {
    return
  }
}

// -----

module attributes {heddle.micro_batches = 4 : i64} {
  // expected-error @below {{expected no heddle.micro_batches of the module: one call of @step is a step, got 4}}
  func.func @step() attributes {heddle.role = #heddle.program_role<step>} {
    return
  }
}

// -----

module {
  // expected-error @below {{expected a public function of one block}}
  func.func private @evaluate() attributes {heddle.role = #heddle.program_role<evaluate>}
}

// -----

module {
  // expected-error @below {{expected a result of role #heddle.port_role<loss_sum>, got none}}
  func.func @evaluate() attributes {heddle.role = #heddle.program_role<evaluate>} {
    return
  }
}

// -----

module {
  // expected-error @below {{expected heddle.role of result 1 to be one of #heddle.port_role<loss>, #heddle.port_role<gradient_norm>, #heddle.port_role<learning_rate>, each once, got #heddle.port_role<loss>}}
  func.func @step() -> (tensor<f32> {heddle.role = #heddle.port_role<loss>}, tensor<f32> {heddle.role = #heddle.port_role<loss>}, tensor<f32> {heddle.role = #heddle.port_role<learning_rate>}) attributes {heddle.role = #heddle.program_role<step>} {
    %x = arith.constant dense<0.0> : tensor<f32>
    return %x, %x, %x : tensor<f32>, tensor<f32>, tensor<f32>
  }
}

// -----

// There must be one gradient for each parameter, of its type.
module {
  heddle.variable @w : tensor<4xf32> parameter init(zeros)
  // expected-error @below {{expected the result of role #heddle.port_role<gradient of "w"> to be 'tensor<4xf32>', got 'tensor<f32>'}}
  func.func @gradients() -> (tensor<f32> {heddle.role = #heddle.port_role<loss>}, tensor<2xf32> {heddle.role = #heddle.port_role<output>}, tensor<f32> {heddle.role = #heddle.port_role<gradient of "w">}) attributes {heddle.role = #heddle.program_role<gradients>} {
    %x = arith.constant dense<0.0> : tensor<f32>
    %y = arith.constant dense<0.0> : tensor<2xf32>
    return %x, %y, %x : tensor<f32>, tensor<2xf32>, tensor<f32>
  }
}

// -----

module {
  func.func @evaluate(%x: tensor<4xf32> {heddle.role = #heddle.port_role<features>}, %step: tensor<i64> {heddle.role = #heddle.port_role<features>}) -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}, tensor<4xf32> {heddle.role = #heddle.port_role<output>}) attributes {heddle.role = #heddle.program_role<evaluate>} {
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
  // expected-error @below {{expected heddle.role of argument 0 to be features or labels, got #heddle.port_role<micro_batch>}}
  func.func @step(%n: tensor<i64> {heddle.role = #heddle.port_role<micro_batch>}) attributes {heddle.role = #heddle.program_role<step>} {
    return
  }
}

// -----

module attributes {heddle.micro_batches = 2 : i64} {
  // expected-error @below {{expected the number of the micro-batch to be 'tensor<i64>', got 'tensor<i32>'}}
  func.func @accumulate(%n: tensor<i32> {heddle.role = #heddle.port_role<micro_batch>}) attributes {heddle.role = #heddle.program_role<accumulate>} {
    return
  }
  func.func @update() attributes {heddle.role = #heddle.program_role<update>} {
    return
  }
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
  func.func @accumulate() attributes {heddle.role = #heddle.program_role<accumulate>} {
    %x = heddle.load @loss_sum : tensor<f32>
    %y = arith.addf %x, %x : tensor<f32>
    heddle.store %y, @loss_sum : tensor<f32>
    return
  }
  func.func @update() -> (tensor<f32> {heddle.role = #heddle.port_role<loss>}, tensor<f32> {heddle.role = #heddle.port_role<gradient_norm>}, tensor<f32> {heddle.role = #heddle.port_role<learning_rate>}) attributes {heddle.role = #heddle.program_role<update>} {
    %x = heddle.load @loss_sum : tensor<f32>
    return %x, %x, %x : tensor<f32>, tensor<f32>, tensor<f32>
  }
}
