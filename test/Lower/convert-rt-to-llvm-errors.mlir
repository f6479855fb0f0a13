// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-convert-rt-to-llvm

func.func private @kernel_0(tensor<4xf32>) -> tensor<4xf32> attributes {heddle.kernel}
rt.program @step arena(64) {
  // expected-error @below {{expected @kernel_0 to be an llvm.func with heddle.blocks and heddle.grain; run heddle-lower-kernels first}}
  rt.launch @kernel_0 (arena[0 : 4xf32]) -> (arena[16 : 4xf32]) serves <activation ["x"]>
}

// -----

rt.program @step arena(64) {
  // expected-error @below {{is not index arithmetic that programs can do}}
  %c = arith.constant 1.0 : f32
}
