// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-decompose-ops

func.func @dynamic(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  // expected-error@+1 {{cannot be compiled: expected static shapes, got 'tensor<?x4xf32>'; compile the program for the sizes that it runs with}}
  %y = arith.addf %x, %x : tensor<?x4xf32>
  return %y : tensor<?x4xf32>
}
