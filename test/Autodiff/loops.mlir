// RUN: heddle-opt %s --heddle-build-training-step="evaluate=false" | FileCheck %s --check-prefix=LOOPS
// RUN: heddle-opt %s --heddle-build-training-step="train=false gradients=true" | FileCheck %s --check-prefix=STATE

// The loops that store what they carry replace the ones of the program, at each depth:
// the outer loop with the inner one, and the backward loop with the inner one and that
// one's backward loop. The loop of the buffer has no gradient and stays as it is.
// LOOPS: func.func @step
// LOOPS-COUNT-6: scf.for
// LOOPS-NOT: scf.for

// Programs that leave the model as it is do not store, in loops neither.
// STATE-NOT: heddle.store
// STATE: func.func @evaluate
// STATE-NOT: heddle.store
// STATE: func.func @gradients
// STATE-NOT: heddle.store
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
        %square = arith.mulf %g, %x : tensor<4xf32>
        scf.yield %square : tensor<4xf32>
      }
      scf.yield %next : tensor<4xf32>
    }
    scf.for %i = %c0 to %c3 step %c1 {
      %s = heddle.load @s : tensor<4xf32>
      %t = arith.addf %s, %x : tensor<4xf32>
      heddle.store %t, @s : tensor<4xf32>
    }
    %sum = heddle.reduce sum %y over [0] : tensor<4xf32> -> tensor<f32>
    return %sum, %count : tensor<f32>, tensor<f32>
  }
}
