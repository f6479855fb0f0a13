// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-plan-arenas

func.func @elementwise(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{is not an op that a program can run; expected library calls, kernels, collectives and views (heddle-form-kernels makes kernels of the rest)}}
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @of_another_dialect(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{(heddle-form-kernels makes kernels of the rest); ops of 'tosa' have to become linalg, tensor, arith, math or scf first}}
  %y = tosa.tanh %x : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// expected-error @below {{expected a program of one block}}
func.func @branches() {
  cf.br ^bb1
^bb1:
  return
}

// -----

// expected-error @below {{expected arguments to be tensors of static shape, with an element at least, and of a type that the runtime has (f32, bf16, f16, f64, i1, i8, i32, i64), got 'tensor<4xcomplex<f32>>' (number 1)}}
func.func @type(%x: tensor<4xf32>, %y: tensor<4xcomplex<f32>>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// expected-error @below {{expected results to be tensors}}
func.func @result(%i: tensor<4xf32>) -> index {
  %c = arith.constant 3 : index
  return %c : index
}

// -----

func.func @loop(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y, %h, %c, %w = heddle.while @before, @after init(%x : tensor<4xf32>) -> (tensor<4xf32>) carried(tensor<4xf32>) condition tensor<i1> workspace tensor<1xi8>
  return %y : tensor<4xf32>
}
func.func private @before(%x: tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>) {
  %no = arith.constant dense<false> : tensor<i1>
  return %no, %x : tensor<i1>, tensor<4xf32>
}
// expected-error @below {{expected no loop to call itself}}
func.func private @after(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y, %h, %c, %w = heddle.while @before, @after init(%x : tensor<4xf32>) -> (tensor<4xf32>) carried(tensor<4xf32>) condition tensor<i1> workspace tensor<1xi8>
  return %y : tensor<4xf32>
}

// -----

// expected-error @below {{got 'tensor<4xindex>' (number 0); make its elements i64 (arith.index_cast)}}
func.func @indices(%x: tensor<4xindex>) {
  return
}
