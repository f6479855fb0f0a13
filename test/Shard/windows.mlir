// RUN: heddle-opt %s --split-input-file --heddle-shard-pipeline --heddle-localize | FileCheck %s

// A convolution of stride 2 over rows split in two: the last row that device 0
// reads is the first row of device 1.
heddle.mesh @mesh <["y"=2]>
// CHECK-LABEL: func.func @strided
// CHECK: %[[ROW:.*]] = tensor.extract_slice %arg0[0, 0, 0, 0] [1, 1, 5, 2] [1, 1, 1, 1]
// CHECK: %[[NEXT:.*]] = comm.permute %[[ROW]] sources [1, -1] over @mesh <{"y"}>
// CHECK: %[[ROWS:.*]] = tensor.concat dim(1) %arg0, %[[NEXT]] {{.*}} -> tensor<1x5x5x2xf32>
// CHECK: linalg.conv_2d_nhwc_hwcf {{.*}} ins(%[[ROWS]], %arg1 : tensor<1x5x5x2xf32>, tensor<3x3x2x4xf32>) {{.*}} -> tensor<1x2x2x4xf32>
func.func @strided(
    %x: tensor<1x8x5x2xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"y"}, {}, {}]>},
    %k: tensor<3x3x2x4xf32>, %init: tensor<1x3x2x4xf32>)
    -> (tensor<1x3x2x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"y"}, {}, {}]>}) {
  %y = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
      ins(%x, %k : tensor<1x8x5x2xf32>, tensor<3x3x2x4xf32>) outs(%init : tensor<1x3x2x4xf32>) -> tensor<1x3x2x4xf32>
  return %y : tensor<1x3x2x4xf32>
}

// -----

// A window larger than a part: the rows come in two hops from each direction.
heddle.mesh @mesh <["y"=4]>
// CHECK-LABEL: func.func @far
// CHECK: comm.permute {{.*}} sources [-1, -1, 0, 1]
// CHECK: comm.permute {{.*}} sources [-1, 0, 1, 2]
// CHECK: comm.permute {{.*}} sources [1, 2, 3, -1]
// CHECK: comm.permute {{.*}} sources [2, 3, -1, -1]
func.func @far(
    %x: tensor<12xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"y"}]>}, %k: tensor<9xf32>, %init: tensor<4xf32>)
    -> (tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"y"}]>}) {
  %y = linalg.conv_1d ins(%x, %k : tensor<12xf32>, tensor<9xf32>) outs(%init : tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

// 10 rows become 12. Every device makes six of them from its own five.
heddle.mesh @mesh <["y"=2]>
// CHECK-LABEL: func.func @pad
// CHECK-NOT: comm.{{permute|all_gather}}
// CHECK: %[[GLOBAL:.*]] = arith.addi %{{.*}}, %{{.*}} : index
// CHECK: arith.cmpi ult
// CHECK: return %{{.*}} : tensor<6x3xf32>
func.func @pad(
    %x: tensor<10x3xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"y"}, {}]>})
    -> (tensor<12x3xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"y"}, {}]>}) {
  %zero = arith.constant 0.0 : f32
  %y = tensor.pad %x low[1, 0] high[1, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<10x3xf32> to tensor<12x3xf32>
  return %y : tensor<12x3xf32>
}

// -----

// A tensor that the body reads at any index is gathered. The index is global.
heddle.mesh @mesh <["x"=2]>
// CHECK-LABEL: func.func @captured
// CHECK: %[[WHOLE:.*]] = comm.all_gather %arg1
// CHECK: linalg.index 0
// CHECK: arith.addi
// CHECK: tensor.extract %[[WHOLE]]
func.func @captured(
    %i: tensor<4xindex> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>},
    %table: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>})
    -> (tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>}) {
  %e = tensor.empty() : tensor<4xf32>
  %y = linalg.generic {
      indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>],
      iterator_types = ["parallel"]} ins(%i : tensor<4xindex>) outs(%e : tensor<4xf32>) {
  ^bb0(%at: index, %o: f32):
    %mine = linalg.index 0 : index
    %sum = arith.addi %at, %mine : index
    %v = tensor.extract %table[%sum] : tensor<8xf32>
    linalg.yield %v : f32
  } -> tensor<4xf32>
  return %y : tensor<4xf32>
}
