// A loop. Upstream cannot shard ops that pass values on.

// RUN: %{mlir-opt} %s --pass-pipeline='builtin.module(heddle-shard-pipeline,heddle-localize-pipeline,heddle-verify-localized)' | FileCheck %s
// RUN: not mlir-opt %S/Inputs/scf-for.mlir --pass-pipeline='builtin.module(func.func(sharding-propagation,mesh-spmdization))' 2>&1 | FileCheck %s --check-prefix=UPSTREAM
// UPSTREAM: error: 'scf.for' op sharding interface is not implemented

heddle.mesh @mesh <["x"=2]>

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<7x6xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>},
                %w: tensor<6x6xf32> {heddle.name = "w"})
    -> (tensor<7x6xf32> {heddle.name = "y"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant dense<0.0> : tensor<7x6xf32>
  // CHECK: scf.for {{.*}} iter_args(%[[S:.*]] = %{{.*}}) -> (tensor<4x6xf32>)
  %y = scf.for %i = %c0 to %c3 step %c1 iter_args(%s = %x) -> tensor<7x6xf32> {
    // CHECK: linalg.matmul ins(%[[S]], %{{.*}} : tensor<4x6xf32>, tensor<6x6xf32>)
    %p = linalg.matmul ins(%s, %w : tensor<7x6xf32>, tensor<6x6xf32>) outs(%zero : tensor<7x6xf32>) -> tensor<7x6xf32>
    %t = math.tanh %p : tensor<7x6xf32>
    scf.yield %t : tensor<7x6xf32>
  }
  return %y : tensor<7x6xf32>
}
