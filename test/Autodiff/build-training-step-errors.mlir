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
  // expected-error @below {{expected heddle.role of argument 0 of @forward to be features or labels, got none}}
  func.func @forward(%tokens: tensor<2xi32>) -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}) {
    %x = arith.constant dense<1.0> : tensor<f32>
    return %x : tensor<f32>
  }
}

// -----

module {
  // expected-error @below {{expected heddle.role of result 0 of @forward to be loss_sum, label_count or output, got none}}
  func.func @forward(%tokens: tensor<2xi32> {heddle.role = #heddle.port_role<features>}) -> (tensor<f32>) {
    %x = arith.constant dense<1.0> : tensor<f32>
    return %x : tensor<f32>
  }
}

// -----

module {
  // expected-error @below {{expected heddle.role of result 1 of @forward to be loss_sum, label_count or output, got loss}}
  func.func @forward(%tokens: tensor<2xi32> {heddle.role = #heddle.port_role<features>}) -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<loss>}) {
    %x = arith.constant dense<1.0> : tensor<f32>
    return %x, %x : tensor<f32>, tensor<f32>
  }
}

// -----

module {
  // expected-error @below {{expected @forward to return the sum of the losses and the number of labels (heddle.role loss_sum and label_count), got no label_count}}
  func.func @forward(%tokens: tensor<2xi32> {heddle.role = #heddle.port_role<features>}) -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}) {
    %x = arith.constant dense<1.0> : tensor<f32>
    return %x : tensor<f32>
  }
}

// -----

module {
  // expected-error @below {{expected one result of @forward of the role loss_sum, got results 0 and 1}}
  func.func @forward(%tokens: tensor<2xi32> {heddle.role = #heddle.port_role<features>}) -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}) {
    %x = arith.constant dense<1.0> : tensor<f32>
    return %x, %x : tensor<f32>, tensor<f32>
  }
}

// -----

module {
  // expected-error @below {{expected result 0 of @forward, its loss_sum, to be tensor<f32>, got 'tensor<2xi32>'}}
  func.func @forward(%tokens: tensor<2xi32> {heddle.role = #heddle.port_role<features>}) -> (tensor<2xi32> {heddle.role = #heddle.port_role<loss_sum>}) {
    return %tokens : tensor<2xi32>
  }
}

// -----

// An op without a gradient between a parameter and the loss.
module {
  heddle.variable @w : tensor<4xf32> parameter init(ones)
  func.func @forward(%tokens: tensor<2xi32> {heddle.role = #heddle.port_role<features>}, %targets: tensor<2xi32> {heddle.role = #heddle.port_role<labels>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}, tensor<4xf32> {heddle.role = #heddle.port_role<output>}) {
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
  func.func @forward(%tokens: tensor<2xi32> {heddle.role = #heddle.port_role<features>}, %targets: tensor<2xi32> {heddle.role = #heddle.port_role<labels>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}, tensor<4xf32> {heddle.role = #heddle.port_role<output>}) {
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
  func.func @forward(%tokens: tensor<2xi32> {heddle.role = #heddle.port_role<features>}, %targets: tensor<2xi32> {heddle.role = #heddle.port_role<labels>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}, tensor<2x4xf32> {heddle.role = #heddle.port_role<output>}) {
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
  func.func @forward(%tokens: tensor<2xi32> {heddle.role = #heddle.port_role<features>}, %targets: tensor<2xi32> {heddle.role = #heddle.port_role<labels>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}, tensor<f32> {heddle.role = #heddle.port_role<output>}) {
    %sum = arith.constant dense<2.0> : tensor<f32>
    return %sum, %sum, %sum : tensor<f32>, tensor<f32>, tensor<f32>
  }
}

// -----

module {
  // expected-error @below {{expected @steps to be a variable of type 'tensor<i64>' and role counter, as the training step needs it}}
  heddle.variable @steps : tensor<4xf32> parameter init(ones)
  func.func @forward(%tokens: tensor<2xi32> {heddle.role = #heddle.port_role<features>}, %targets: tensor<2xi32> {heddle.role = #heddle.port_role<labels>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}, tensor<f32> {heddle.role = #heddle.port_role<output>}) {
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
  func.func @forward(%tokens: tensor<2xi32> {heddle.role = #heddle.port_role<features>}, %targets: tensor<2xi32> {heddle.role = #heddle.port_role<labels>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}, tensor<f32> {heddle.role = #heddle.port_role<output>}) {
    %sum = arith.constant dense<2.0> : tensor<f32>
    return %sum, %sum, %sum : tensor<f32>, tensor<f32>, tensor<f32>
  }
}

// -----

// A loop whose length is computed.
module {
  heddle.variable @w : tensor<4xf32> parameter init(ones)
  func.func @forward(%n: tensor<i32> {heddle.role = #heddle.port_role<features>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}) {
    %w = heddle.load @w : tensor<4xf32>
    %count = arith.constant dense<2.0> : tensor<f32>
    %c0 = arith.constant 0 : i32
    %c1 = arith.constant 1 : i32
    %number = tensor.extract %n[] : tensor<i32>
    // expected-error @below {{'scf.for' op expected constant bounds and a constant step: the gradient of a loop of another length is not defined}}
    %y = scf.for %i = %c0 to %number step %c1 iter_args(%h = %w) -> tensor<4xf32> : i32 {
      %square = arith.mulf %h, %h : tensor<4xf32>
      scf.yield %square : tensor<4xf32>
    }
    %sum = heddle.reduce sum %y over [0] : tensor<4xf32> -> tensor<f32>
    return %sum, %count : tensor<f32>, tensor<f32>
  }
}

// -----

module {
  heddle.variable @w : tensor<4xf32> parameter init(ones)
  func.func @forward(%x: tensor<4xf32> {heddle.role = #heddle.port_role<features>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}) {
    %w = heddle.load @w : tensor<4xf32>
    %count = arith.constant dense<2.0> : tensor<f32>
    %zero = arith.constant 0.0 : f32
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    // expected-error @below {{'scf.for' op expected it to carry tensors of static shapes, got 'f32': the gradient of another loop is not defined}}
    %y = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %zero) -> f32 {
      %e = tensor.extract %w[%i] : tensor<4xf32>
      %next = arith.addf %h, %e : f32
      scf.yield %next : f32
    }
    %sum = tensor.splat %y : tensor<f32>
    %all = heddle.reduce sum %w over [0] : tensor<4xf32> -> tensor<f32>
    %total = arith.addf %sum, %all : tensor<f32>
    return %total, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// A branch uses a value that depends on a parameter, which is no operand of it.
module {
  heddle.variable @w : tensor<4xf32> parameter init(ones)
  func.func @forward(%x: tensor<i1> {heddle.role = #heddle.port_role<features>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}) {
    %w = heddle.load @w : tensor<4xf32>
    %count = arith.constant dense<2.0> : tensor<f32>
    %which = tensor.extract %x[] : tensor<i1>
    // expected-error @below {{'scf.if' op has no gradient, but the loss depends on a parameter through it}}
    %y = scf.if %which -> tensor<4xf32> {
      %square = arith.mulf %w, %w : tensor<4xf32>
      scf.yield %square : tensor<4xf32>
    } else {
      scf.yield %w : tensor<4xf32>
    }
    %sum = heddle.reduce sum %y over [0] : tensor<4xf32> -> tensor<f32>
    return %sum, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// A structured op whose body reads a tensor that is no operand of it.
module {
  heddle.variable @w : tensor<4xf32> parameter init(ones)
  func.func @forward(%x: tensor<4xi32> {heddle.role = #heddle.port_role<features>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}) {
    %w = heddle.load @w : tensor<4xf32>
    %count = arith.constant dense<2.0> : tensor<f32>
    %empty = tensor.empty() : tensor<4xf32>
    // expected-error @below {{'linalg.generic' op has no gradient of a value that its region uses, but the loss depends on a parameter through it; expected the value as an operand}}
    %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
        ins(%x : tensor<4xi32>) outs(%empty : tensor<4xf32>) {
    ^bb0(%id: i32, %out: f32):
      %at = arith.index_cast %id : i32 to index
      %element = tensor.extract %w[%at] : tensor<4xf32>
      linalg.yield %element : f32
    } -> tensor<4xf32>
    %sum = heddle.reduce sum %y over [0] : tensor<4xf32> -> tensor<f32>
    return %sum, %count : tensor<f32>, tensor<f32>
  }
}

// -----

module {
  heddle.variable @w : tensor<4xf32> parameter init(ones)
  func.func @forward(%x: tensor<4xf32> {heddle.role = #heddle.port_role<features>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}) {
    %count = arith.constant dense<2.0> : tensor<f32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %y = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %x) -> tensor<4xf32> {
      // expected-error @below {{expected a parameter to be loaded outside of loops and branches}}
      %w = heddle.load @w : tensor<4xf32>
      %next = arith.mulf %h, %w : tensor<4xf32>
      scf.yield %next : tensor<4xf32>
    }
    %sum = heddle.reduce sum %y over [0] : tensor<4xf32> -> tensor<f32>
    return %sum, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// The body of a loop that has a gradient runs again in the backward pass.
module {
  heddle.variable @w : tensor<4xf32> parameter init(ones)
  heddle.variable @s : tensor<4xf32> buffer init(ones)
  func.func @forward(%x: tensor<4xf32> {heddle.role = #heddle.port_role<features>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}) {
    %w = heddle.load @w : tensor<4xf32>
    %count = arith.constant dense<2.0> : tensor<f32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %y = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %w) -> tensor<4xf32> {
      // expected-error @below {{'heddle.store' op expected it after the loop, of a value that the loop carries: the loop has a gradient, so the backward pass repeats its body}}
      heddle.store %h, @s : tensor<4xf32>
      %next = arith.mulf %h, %h : tensor<4xf32>
      scf.yield %next : tensor<4xf32>
    }
    %sum = heddle.reduce sum %y over [0] : tensor<4xf32> -> tensor<f32>
    return %sum, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// The buffer may have another value by then.
module {
  heddle.variable @w : tensor<4xf32> parameter init(ones)
  heddle.variable @s : tensor<4xf32> buffer init(ones)
  func.func @forward(%x: tensor<4xf32> {heddle.role = #heddle.port_role<features>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}) {
    %w = heddle.load @w : tensor<4xf32>
    %count = arith.constant dense<2.0> : tensor<f32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %y = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %w) -> tensor<4xf32> {
      // expected-error @below {{'heddle.load' op expected it before the loop: the loop has a gradient, so the backward pass repeats its body}}
      %s = heddle.load @s : tensor<4xf32>
      %next = arith.mulf %h, %s : tensor<4xf32>
      scf.yield %next : tensor<4xf32>
    }
    %sum = heddle.reduce sum %y over [0] : tensor<4xf32> -> tensor<f32>
    return %sum, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// The same in a loop that is in the body.
module {
  heddle.variable @w : tensor<4xf32> parameter init(ones)
  heddle.variable @s : tensor<4xf32> buffer init(ones)
  func.func @forward(%x: tensor<4xf32> {heddle.role = #heddle.port_role<features>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}) {
    %w = heddle.load @w : tensor<4xf32>
    %count = arith.constant dense<2.0> : tensor<f32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %y = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %w) -> tensor<4xf32> {
      %next = scf.for %j = %c0 to %c3 step %c1 iter_args(%g = %h) -> tensor<4xf32> {
        // expected-error @below {{'heddle.store' op expected it after the loop, of a value that the loop carries: the loop has a gradient, so the backward pass repeats its body}}
        heddle.store %g, @s : tensor<4xf32>
        %square = arith.mulf %g, %g : tensor<4xf32>
        scf.yield %square : tensor<4xf32>
      }
      scf.yield %next : tensor<4xf32>
    }
    %sum = heddle.reduce sum %y over [0] : tensor<4xf32> -> tensor<f32>
    return %sum, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// Any other side effect.
module {
  heddle.variable @w : tensor<4xf32> parameter init(ones)
  heddle.variable @s : tensor<4xf32> buffer init(ones)
  func.func @forward(%x: tensor<4xf32> {heddle.role = #heddle.port_role<features>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}) {
    %w = heddle.load @w : tensor<4xf32>
    %count = arith.constant dense<2.0> : tensor<f32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c3 = arith.constant 3 : index
    %y = scf.for %i = %c0 to %c3 step %c1 iter_args(%h = %w) -> tensor<4xf32> {
      // expected-error @below {{'memref.alloc' op expected no side effect in a loop: the loop has a gradient, so the backward pass repeats its body}}
      %memory = memref.alloc() : memref<4xf32>
      %next = arith.mulf %h, %h : tensor<4xf32>
      scf.yield %next : tensor<4xf32>
    }
    %sum = heddle.reduce sum %y over [0] : tensor<4xf32> -> tensor<f32>
    return %sum, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// A parameter that is stored in a loop.
module {
  heddle.variable @w : tensor<4xf32> parameter init(ones)
  func.func @forward(%x: tensor<4xf32> {heddle.role = #heddle.port_role<features>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}) {
    %count = arith.constant dense<2.0> : tensor<f32>
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    scf.for %i = %c0 to %c1 step %c1 {
      // expected-error @below {{expected @forward to store variables of role buffer alone, got @w}}
      heddle.store %x, @w : tensor<4xf32>
    }
    return %count, %count : tensor<f32>, tensor<f32>
  }
}

// -----

// A gather of more slices than an i32 can number.
module {
  heddle.variable @w : tensor<65536x65536xf32> parameter init(ones)
  func.func @forward(%x: tensor<3x2xi32> {heddle.role = #heddle.port_role<features>})
      -> (tensor<f32> {heddle.role = #heddle.port_role<loss_sum>}, tensor<f32> {heddle.role = #heddle.port_role<label_count>}) {
    %w = heddle.load @w : tensor<65536x65536xf32>
    %count = arith.constant dense<2.0> : tensor<f32>
    // expected-error @below {{'tensor.gather' op expected at most 2147483647 slices, whose numbers are i32, got 4294967296: its gradient is not defined}}
    %y = tensor.gather %w[%x] gather_dims([0, 1]) : (tensor<65536x65536xf32>, tensor<3x2xi32>) -> tensor<3xf32>
    %sum = heddle.reduce sum %y over [0] : tensor<3xf32> -> tensor<f32>
    return %sum, %count : tensor<f32>, tensor<f32>
  }
}
