// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-inline-calls=max-ops=10 --heddle-flatten-control-flow=max-ops=10 --heddle-outline-loops --heddle-spread-scalars

func.func @parallel(%x: tensor<4xf32>) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{cannot be compiled: only scf.for, scf.while, scf.if and calls can be}}
  %y = scf.index_switch %c0 -> tensor<4xf32>
  default {
    scf.yield %x : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

func.func @step(%x: tensor<4xf32>, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  // expected-error@+1 {{cannot be compiled: expected a positive step, got 0}}
  %y = scf.for %i = %c0 to %n step %c0 iter_args(%h = %x) -> tensor<4xf32> {
    scf.yield %h : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

heddle.variable @v : tensor<4xf32> parameter init(zeros)
func.func @store_in_loop(%x: tensor<4xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-note@+1 {{the loop is here}}
  scf.for %i = %c0 to %n step %c1 {
    // expected-error@+1 {{cannot be compiled in a loop whose length is not known, or that is too long to be written out: carry the value through the loop, and store what it returns}}
    heddle.store %x, @v : tensor<4xf32>
  }
  return
}

// -----

func.func @carried(%x: tensor<4xf32>, %c: i1, %v: vector<4xf32>) -> vector<4xf32> {
  // expected-error@+1 {{cannot be compiled: expected what a loop carries to be numbers and tensors of static shape, got 'vector<4xf32>' (number 0); make it a tensor}}
  %y = scf.while (%h = %v) : (vector<4xf32>) -> vector<4xf32> {
    scf.condition(%c) %h : vector<4xf32>
  } do {
  ^bb0(%g: vector<4xf32>):
    scf.yield %g : vector<4xf32>
  }
  return %y : vector<4xf32>
}

// -----

// A condition that differs between devices.
heddle.mesh @mesh <["x"=2]>
func.func @devices_disagree(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-note@+1 {{the place is asked for here}}
  %device = comm.axis_index @mesh <{"x"}>
  %c0 = arith.constant 0 : index
  %c = arith.cmpi eq, %device, %c0 : index
  %y = scf.while (%h = %x) : (tensor<4xf32>) -> tensor<4xf32> {
    // expected-error@+1 {{expected a condition that all devices agree on}}
    scf.condition(%c) %h : tensor<4xf32>
  } do {
  ^bb0(%g: tensor<4xf32>):
    scf.yield %g : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

func.func private @three(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = math.exp %x : tensor<4xf32>
  %b = math.exp %a : tensor<4xf32>
  %c = math.exp %b : tensor<4xf32>
  return %c : tensor<4xf32>
}
func.func @many_calls(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = call @three(%x) : (tensor<4xf32>) -> tensor<4xf32>
  %b = call @three(%a) : (tensor<4xf32>) -> tensor<4xf32>
  %c = call @three(%b) : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error@+1 {{written out, the function's calls and loops are more than 10 ops; raise max-ops}}
  %d = call @three(%c) : (tensor<4xf32>) -> tensor<4xf32>
  return %d : tensor<4xf32>
}

// -----

heddle.variable @v : tensor<4xf32> parameter init(zeros)
func.func @store(%x: tensor<4xf32>, %n: tensor<f32>) {
  %zero = arith.constant 0.0 : f32
  %number = tensor.extract %n[] : tensor<f32>
  %c = arith.cmpf ogt, %number, %zero : f32
  // expected-note@+1 {{the branch is here}}
  scf.if %c {
    // expected-error@+1 {{cannot be compiled in a branch whose condition is not constant}}
    heddle.store %x, @v : tensor<4xf32>
  }
  return
}

// -----

// Also in a function that a branch calls.
heddle.variable @v : tensor<4xf32> parameter init(zeros)
func.func private @inner(%x: tensor<4xf32>) {
  // expected-error@+1 {{cannot be compiled in a branch whose condition is not constant}}
  heddle.store %x, @v : tensor<4xf32>
  return
}
func.func private @outer(%x: tensor<4xf32>) {
  call @inner(%x) : (tensor<4xf32>) -> ()
  return
}
func.func @store_called(%x: tensor<4xf32>, %n: tensor<f32>) {
  %zero = arith.constant 0.0 : f32
  %number = tensor.extract %n[] : tensor<f32>
  %c = arith.cmpf ogt, %number, %zero : f32
  // expected-note@+1 {{the branch is here}}
  scf.if %c {
    func.call @outer(%x) : (tensor<4xf32>) -> ()
  }
  return
}

// -----

func.func @dynamic_in_loop(%x: tensor<?xf32>, %n: index) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error@+1 {{cannot be compiled: expected what a loop carries to be numbers and tensors of static shape, got 'tensor<?xf32>' (number 1); compile the program for the sizes that it runs with}}
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%h = %x) -> tensor<?xf32> {
    scf.yield %h : tensor<?xf32>
  }
  return %y : tensor<?xf32>
}

// -----

func.func @captured_memref(%x: tensor<4xf32>, %m: memref<f32>, %n: index) -> tensor<4xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  // expected-error@+1 {{cannot be compiled: expected what a loop reads from around it to be numbers and tensors of static shape, got 'memref<f32>'}}
  %y = scf.for %i = %c0 to %n step %c1 iter_args(%h = %x) -> tensor<4xf32> {
    %v = memref.load %m[] : memref<f32>
    %s = tensor.splat %v : tensor<4xf32>
    %z = arith.addf %h, %s : tensor<4xf32>
    scf.yield %z : tensor<4xf32>
  }
  return %y : tensor<4xf32>
}

// -----

// A scalar op that has no form on tensors.
func.func @unknown_scalar(%n: tensor<i32>) -> tensor<4xf32> {
  %a = tensor.extract %n[] : tensor<i32>
  // expected-note@+1 {{the scalar comes from here}}
  %i = index.casts %a : i32 to index
  %j = arith.index_cast %i : index to i32
  %f = arith.sitofp %j : i32 to f32
  // expected-error@+1 {{expected a scalar that is a constant or computed from tensors by arith and math, got one of 'index.casts'; lower that op first}}
  %s = tensor.splat %f : tensor<4xf32>
  return %s : tensor<4xf32>
}
