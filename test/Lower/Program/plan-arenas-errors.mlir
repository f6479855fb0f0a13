// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-plan-arenas

func.func @elementwise(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @below {{is not an op that a program can run; expected library calls, kernels, collectives and views}}
  %y = arith.addf %x, %x : tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// expected-error @below {{expected a program of one block}}
func.func @branches() {
  cf.br ^bb1
^bb1:
  return
}
