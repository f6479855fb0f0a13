// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-decompose-ops

func.func @dynamic(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  // expected-error@+1 {{cannot be compiled: expected static shapes, got 'tensor<?x4xf32>'; compile the program for the sizes that it runs with}}
  %y = arith.addf %x, %x : tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}

// -----

func.func @nothing(%x: tensor<0x4xf32>) -> tensor<0x4xf32> {
  // expected-error@+1 {{cannot be compiled: expected tensors with an element at least, got 'tensor<0x4xf32>'}}
  %0 = math.exp %x : tensor<0x4xf32>
  return %0 : tensor<0x4xf32>
}

// -----

func.func @constant_place(%x: tensor<4xf32>, %y: tensor<4x8xf32>) -> tensor<4x8xf32> {
  // expected-error@+1 {{expected the result's indexing map to be a projected permutation, got affine_map<(d0) -> (d0, 3)>}}
  %0 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i, 3)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%y : tensor<4x8xf32>) {
  ^bb0(%a: f32, %b: f32):
    linalg.yield %a : f32
  } -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @beyond(%x: tensor<4x8xf32>) -> tensor<2x8xf32> {
  // expected-error@+1 {{cannot be compiled: expected places of dimension 0 from 0 to 3, got 2 from 3 by steps of 1}}
  %0 = tensor.extract_slice %x[3, 0] [2, 8] [1, 1] : tensor<4x8xf32> to tensor<2x8xf32>
  return %0 : tensor<2x8xf32>
}

// -----

func.func @before(%x: tensor<4x8xf32>, %y: tensor<4x4xf32>) -> tensor<4x8xf32> {
  // expected-error@+1 {{cannot be compiled: expected places of dimension 1 from 0 to 7, got 4 from 2 by steps of -1}}
  %0 = tensor.insert_slice %y into %x[0, 2] [4, 4] [1, -1] : tensor<4x4xf32> into tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

func.func @complex(%x: tensor<4x3xcomplex<f32>>, %start: tensor<3xcomplex<f32>>) -> tensor<3xcomplex<f32>> {
  // expected-error @+1 {{'linalg.reduce' op cannot be compiled: expected floats or integers, got 'tensor<4x3xcomplex<f32>>'; keep real and imaginary parts in tensors of their own}}
  %y = linalg.reduce { complex.add } ins(%x : tensor<4x3xcomplex<f32>>) outs(%start : tensor<3xcomplex<f32>>) dimensions = [0]
  return %y : tensor<3xcomplex<f32>>
}
