// RUN: heddle-opt %s --split-input-file --heddle-shard-pipeline --heddle-localize-pipeline | FileCheck %s

// Every row moves by one: the last row of each part goes to the next device.
heddle.mesh @mesh <["s"=4]>
// CHECK-LABEL: func.func @shift
// CHECK-NOT: comm.all_gather
// CHECK: %[[LAST:.*]] = tensor.extract_slice %arg0[15, 0] [1, 8] [1, 1]
// CHECK: comm.permute %[[LAST]] sources [-1, 0, 1, 2] over @mesh <{"s"}> : tensor<1x8xf32>
// CHECK-NOT: comm.permute
func.func @shift(
    %x: tensor<64x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"s"}, {}]>})
    -> (tensor<64x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"s"}, {}]>}) {
  %zero = arith.constant 0.0 : f32
  %rows = tensor.extract_slice %x[0, 0] [63, 8] [1, 1] : tensor<64x8xf32> to tensor<63x8xf32>
  %y = tensor.pad %rows low[1, 0] high[0, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %zero : f32
  } : tensor<63x8xf32> to tensor<64x8xf32>
  return %y : tensor<64x8xf32>
}

// -----

// One row of many: the device that has it adds it, the others add nothing.
heddle.mesh @mesh <["s"=4]>
// CHECK-LABEL: func.func @first_token
// CHECK-NOT: comm.all_gather
// CHECK: arith.cmpi ult
// CHECK: comm.all_reduce sum %{{.*}} over @mesh <{"s"}> : tensor<2x8xf32>
func.func @first_token(
    %x: tensor<2x64x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"s"}, {}]>})
    -> (tensor<2x8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>}) {
  %y = tensor.extract_slice %x[0, 0, 0] [2, 1, 8] [1, 1, 1] : tensor<2x64x8xf32> to tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// -----

// A row of a cache of keys is written at an index that is read from a tensor:
// the device that has the row writes it, and nothing is sent.
heddle.mesh @mesh <["s"=4, "n"=2]>
// CHECK-LABEL: func.func @cache
// CHECK-NOT: comm.{{all|permute}}
// CHECK: %[[BEFORE:.*]] = tensor.extract %arg0
// CHECK: %[[AFTER:.*]] = tensor.extract %arg1
// CHECK: arith.select %{{.*}}, %[[AFTER]], %[[BEFORE]]
// CHECK: return %{{.*}} : tensor<32x4x16xf32>
func.func @cache(
    %cache: tensor<128x8x16xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"s"}, {"n"}, {}]>},
    %row: tensor<8x16xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"n"}, {}]>}, %place: tensor<i32>)
    -> (tensor<128x8x16xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"s"}, {"n"}, {}]>}) {
  %number = tensor.extract %place[] : tensor<i32>
  %i = arith.index_cast %number : i32 to index
  %y = tensor.insert_slice %row into %cache[%i, 0, 0] [1, 8, 16] [1, 1, 1] : tensor<8x16xf32> into tensor<128x8x16xf32>
  return %y : tensor<128x8x16xf32>
}

// -----

// Two joined tensors: device 0 holds all of %x in the end, and device 1 all of
// %y. Each device sends its part of the other tensor.
heddle.mesh @mesh <["x"=2]>
// CHECK-LABEL: func.func @join
// CHECK-NOT: comm.all_gather
// CHECK: comm.permute %arg0 sources [1, -1] over @mesh <{"x"}> : tensor<16x4xf32>
// CHECK: comm.permute %arg1 sources [-1, 0] over @mesh <{"x"}> : tensor<16x4xf32>
// CHECK-NOT: comm.permute
func.func @join(
    %x: tensor<32x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>},
    %y: tensor<32x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>})
    -> (tensor<64x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>}) {
  %z = tensor.concat dim(0) %x, %y : (tensor<32x4xf32>, tensor<32x4xf32>) -> tensor<64x4xf32>
  return %z : tensor<64x4xf32>
}

// -----

// A third of a joint projection. The second device's part of it lies on the
// first device, which sends only this part.
heddle.mesh @mesh <["x"=2]>
// CHECK-LABEL: func.func @third
// CHECK-NOT: comm.all_gather
// CHECK: %[[PART:.*]] = tensor.extract_slice %arg0[0, 8] [4, 8] [1, 1] : tensor<4x24xf32> to tensor<4x8xf32>
// CHECK: comm.permute %[[PART]] sources [-1, 0] over @mesh <{"x"}> : tensor<4x8xf32>
// CHECK-NOT: comm.permute
// CHECK: return %{{.*}} : tensor<4x8xf32>
func.func @third(
    %x: tensor<4x48xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>})
    -> (tensor<4x16xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>}) {
  %y = tensor.extract_slice %x[0, 0] [4, 16] [1, 1] : tensor<4x48xf32> to tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// -----

// A slice of most of a tensor at an unknown offset, and slices of unknown
// strides: the tensor is gathered.
heddle.mesh @mesh <["x"=2]>
// CHECK-LABEL: func.func @unknown
// CHECK: comm.all_gather %arg0
// CHECK: tensor.extract_slice
// CHECK: tensor.extract_slice
func.func @unknown(
    %x: tensor<10x3xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>},
    %i: index, %step: index) -> (tensor<9x3xf32>, tensor<2x3xf32>) {
  %y = tensor.extract_slice %x[%i, 0] [9, 3] [1, 1] : tensor<10x3xf32> to tensor<9x3xf32>
  %z = tensor.extract_slice %x[0, 0] [2, 3] [%step, 1] : tensor<10x3xf32> to tensor<2x3xf32>
  return %y, %z : tensor<9x3xf32>, tensor<2x3xf32>
}

// -----

// The same on eight devices: each part of the second third lies on one device,
// as do those of two or three others. One exchange of one part, instead of
// seven.
heddle.mesh @mesh <["x"=8]>
// CHECK-LABEL: func.func @middle
// CHECK-NOT: comm.all_gather
// CHECK: comm.permute %arg0 sources [2, 3, 3, 3, 4, 4, 4, 5] over @mesh <{"x"}> : tensor<4x6xf32>
// CHECK-NOT: comm.permute
// CHECK: return %{{.*}} : tensor<4x2xf32>
func.func @middle(
    %x: tensor<4x48xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>})
    -> (tensor<4x16xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>}) {
  %y = tensor.extract_slice %x[0, 16] [4, 16] [1, 1] : tensor<4x48xf32> to tensor<4x16xf32>
  return %y : tensor<4x16xf32>
}

// -----

// Complex numbers. Windows are filled with complex zeros. A slice that would be
// selected and summed is gathered, because no op selects complex zeros.
heddle.mesh @mesh <["x"=2]>
// CHECK-LABEL: func.func @complex
// CHECK: arith.constant dense<(0.000000e+00,0.000000e+00)> : tensor<2xcomplex<f32>>
// CHECK: %[[ALL:.*]] = comm.all_gather %arg0
// CHECK: tensor.extract_slice %[[ALL]]
// CHECK: tensor.pad %[[ALL]]
func.func @complex(
    %x: tensor<4xcomplex<f32>> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>}, %i: index)
    -> (tensor<8xcomplex<f32>> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>}, tensor<2xcomplex<f32>>,
        tensor<6xcomplex<f32>>) {
  %c = complex.constant [1.0 : f32, 0.0 : f32] : complex<f32>
  %y = tensor.concat dim(0) %x, %x : (tensor<4xcomplex<f32>>, tensor<4xcomplex<f32>>) -> tensor<8xcomplex<f32>>
  %z = tensor.extract_slice %x[%i] [2] [1] : tensor<4xcomplex<f32>> to tensor<2xcomplex<f32>>
  %p = tensor.pad %x low[1] high[1] {
  ^bb0(%j: index):
    tensor.yield %c : complex<f32>
  } : tensor<4xcomplex<f32>> to tensor<6xcomplex<f32>>
  return %y, %z, %p : tensor<8xcomplex<f32>>, tensor<2xcomplex<f32>>, tensor<6xcomplex<f32>>
}

// -----

// Strides so large that their sum overflows reach beyond the tensor, so no
// exchange of rows is looked for.
heddle.mesh @mesh <["x"=2]>
// CHECK-LABEL: func.func @far
// CHECK: %[[ALL:.*]] = comm.all_gather %arg0
// CHECK: tensor.extract_slice %[[ALL]][0] [5] [4611686018427387904]
func.func @far(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>}) -> tensor<5xf32> {
  %y = tensor.extract_slice %x[0] [5] [4611686018427387904] : tensor<8xf32> to tensor<5xf32>
  return %y : tensor<5xf32>
}
