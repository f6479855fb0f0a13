// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-verify-kernels

// A kernel and a program that calls it.
func.func @program(%x: tensor<4xf32>) -> tensor<4xf32> {
  %y = call @kernel_0(%x) : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}
func.func private @kernel_0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {heddle.kernel, heddle.row_dims = 0 : i64, heddle.inplace = [array<i64: 0>]} {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]}
      ins(%x : tensor<4xf32>) outs(%e : tensor<4xf32>) {
  ^bb0(%a: f32, %b: f32):
    %c = arith.addf %a, %a : f32
    linalg.yield %c : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// expected-error @below {{expected argument 0 of a kernel to be a tensor of static shape or an index, got 'tensor<?xf32>'}}
func.func private @kernel_0(%x: tensor<?xf32>) attributes {heddle.kernel} {
  return
}

// -----

// expected-error @below {{expected result 0 of a kernel to be a tensor of static shape, got 'index'}}
func.func private @kernel_0(%x: index) -> index attributes {heddle.kernel} {
  return %x : index
}

// -----

// expected-error @below {{expected a kernel of one block}}
func.func private @kernel_0(tensor<4xf32>) attributes {heddle.kernel}

// -----

func.func private @kernel_0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {heddle.kernel} {
  // expected-error @below {{expected linalg.generic or heddle.reduce_blocks in a kernel, and what these start from}}
  %y = math.exp %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func private @kernel_0(%n: index) attributes {heddle.kernel} {
  // expected-error @below {{expected tensors of static shape in a kernel, got 'tensor<?xf32>'}}
  %e = tensor.empty(%n) : tensor<?xf32>
  return
}

// -----

// expected-error @below {{expected heddle.row_dims of a kernel, a number of at least 0}}
func.func private @kernel_0() attributes {heddle.kernel, heddle.row_dims = -1 : i64} {
  return
}

// -----

// expected-error @below {{expected heddle.inplace of a kernel to hold 1 lists, one for each result, got 0}}
func.func private @kernel_0(%x: tensor<4xf32>) -> tensor<4xf32> attributes {heddle.kernel, heddle.row_dims = 0 : i64, heddle.inplace = []} {
  return %x : tensor<4xf32>
}

// -----

// expected-error @below {{expected heddle.inplace to name arguments of type 'tensor<4xf32>', got 1}}
func.func private @kernel_0(%x: tensor<4xf32>, %y: tensor<4xi32>) -> tensor<4xf32> attributes {heddle.kernel, heddle.row_dims = 0 : i64, heddle.inplace = [array<i64: 0, 1>]} {
  return %x : tensor<4xf32>
}

// -----

// expected-error @below {{expected a program of one block}}
func.func @branches() {
  cf.br ^bb1
^bb1:
  return
}

// -----

func.func @loop(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  // expected-error @below {{is not an op that a program can run}}
  %y = scf.for %i = %zero to %n step %one iter_args(%z = %x) -> tensor<4xf32> {
    scf.yield %z : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// Columns of a tensor are no contiguous view.
func.func @columns(%x: tensor<4x4xf32>) -> tensor<4x2xf32> {
  // expected-error @below {{is not an op that a program can run}}
  %y = tensor.extract_slice %x[0, 0] [4, 2] [1, 1] : tensor<4x4xf32> to tensor<4x2xf32>
  return %y : tensor<4x2xf32>
}

// -----

// expected-error @below {{expected arguments to be tensors of static shape, with an element at least, and of a type that the runtime has (f32, bf16, f16, f64, i1, i8, i32, i64), got 'tensor<?xf32>' (number 0)}}
func.func @argument(%x: tensor<?xf32>) {
  return
}

// -----

func.func @value() {
  // expected-error @below {{expected tensors of static shape, with an element at least, and of a type that the runtime has (f32, bf16, f16, f64, i1, i8, i32, i64), got 'tensor<2xindex>'; make its elements i64 (arith.index_cast)}}
  %x = arith.constant dense<0> : tensor<2xindex>
  return
}

// -----

func.func private @helper()
func.func @program() {
  // expected-error @below {{expected a call of a kernel, got @helper, which has no heddle.kernel}}
  call @helper() : () -> ()
  return
}
