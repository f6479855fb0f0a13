// A function that states no sharding. Upstream crashes (mesh-spmdization, in
// shardedBlockArgumentTypes), also where a module has one such function among
// others. With Heddle every device computes all of it, unless a function that
// it calls, or that calls it, is sharded.

// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-shard-pipeline,heddle-localize-pipeline,heddle-verify-localized)' | FileCheck %s

heddle.mesh @mesh <["x"=2]>

// The caller's argument is split, so the callee's is split, too.
// CHECK-LABEL: func.func private @callee
// CHECK-SAME: tensor<4x6xf32>
func.func private @callee(%x: tensor<8x6xf32>) -> tensor<8x6xf32> {
  %y = linalg.exp ins(%x : tensor<8x6xf32>) outs(%x : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}

// CHECK-LABEL: func.func @main
// CHECK: call @callee(%{{.*}}) : (tensor<4x6xf32>) -> tensor<4x6xf32>
func.func @main(%x: tensor<8x6xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>},
                %w: tensor<8x6xf32> {heddle.name = "w"})
    -> (tensor<8x6xf32> {heddle.name = "sum"}) {
  %y = call @callee(%x) : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %sum = linalg.add ins(%y, %w : tensor<8x6xf32>, tensor<8x6xf32>) outs(%y : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %sum : tensor<8x6xf32>
}

// CHECK-LABEL: func.func @alone
// CHECK-SAME: tensor<8x6xf32>
func.func @alone(%x: tensor<8x6xf32> {heddle.name = "x"}) -> (tensor<8x6xf32> {heddle.name = "y"}) {
  // CHECK: linalg.exp ins(%{{.*}} : tensor<8x6xf32>)
  // CHECK-NOT: comm.
  %y = linalg.exp ins(%x : tensor<8x6xf32>) outs(%x : tensor<8x6xf32>) -> tensor<8x6xf32>
  return %y : tensor<8x6xf32>
}
