// RUN: heddle-opt %s --heddle-repeat-constants --heddle-propagate-shardings --heddle-materialize-pins --heddle-insert-reshards --heddle-verify-sharded --heddle-localize | FileCheck %s

// A tensor without elements is resharded like any other tensor.
heddle.mesh @mesh <["a"=4]>
// CHECK-LABEL: func.func @nothing
// CHECK: comm.slice {{.*}} : tensor<0x7x1x4xf32> -> tensor<0x2x1x4xf32>
func.func @nothing(%x: tensor<0x7x1x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {}, {"a"}, {}]>}) -> (tensor<0x7x1x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"a"}, {}, {}]>}, tensor<0x7x1x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"a"}, {}, {}, {}]>}) {
  return %x, %x : tensor<0x7x1x4xf32>, tensor<0x7x1x4xf32>
}
