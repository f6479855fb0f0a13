// RUN: heddle-opt %s --split-input-file --heddle-decompose-collectives="cluster=%S/Inputs/two-servers.json" | FileCheck %s --check-prefixes=CHECK,AUTO
// RUN: heddle-opt %s --split-input-file --heddle-decompose-collectives="cluster=%S/Inputs/two-servers.json hierarchy=never" | FileCheck %s --check-prefixes=CHECK,FLAT
// RUN: heddle-opt %s --split-input-file --heddle-decompose-collectives | FileCheck %s --check-prefixes=CHECK,FLAT
// RUN: heddle-opt %s --split-input-file --heddle-decompose-collectives="hierarchy=always" | FileCheck %s --check-prefixes=CHECK,AUTO
// RUN: not heddle-opt %s --split-input-file --heddle-decompose-collectives="hierarchy=often" 2>&1 | FileCheck %s --check-prefix=BAD
// RUN: not heddle-opt %s --split-input-file --heddle-decompose-collectives="cluster=cray" 2>&1 | FileCheck %s --check-prefix=CRAY

// BAD: error: expected the hierarchy auto, always or never, got 'often'
// CRAY: error: cluster 'cray': No such file or directory; expected a file, or one of the presets rtx3090, rtx3090-nvlink, dgx-a100, dgx-h100, laptop-cpu

// Between servers, only parts of the sum are sent.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
// CHECK-LABEL: @all_reduce
func.func @all_reduce(%x: tensor<512x1024xf32>) -> tensor<512x1024xf32> {
  // FLAT-NEXT: comm.all_reduce sum %{{.*}} over @mesh <{"dp", "tp"}>
  // AUTO-NEXT: %[[ROW:.*]] = tensor.collapse_shape %{{.*}} : tensor<512x1024xf32> into tensor<524288xf32>
  // AUTO-NEXT: %[[PART:.*]] = comm.reduce_scatter sum %[[ROW]] dim 0 over @mesh <{"tp"}> : tensor<524288xf32> -> tensor<262144xf32>
  // AUTO-NEXT: %[[SUM:.*]] = comm.all_reduce sum %[[PART]] over @mesh <{"dp"}> : tensor<262144xf32>
  // AUTO-NEXT: %[[ALL:.*]] = comm.all_gather %[[SUM]] dim 0 over @mesh <{"tp"}> : tensor<262144xf32> -> tensor<524288xf32>
  // AUTO-NEXT: tensor.expand_shape %[[ALL]]
  %y = comm.all_reduce sum %x over @mesh <{"dp", "tp"}> : tensor<512x1024xf32>
  return %y : tensor<512x1024xf32>
}

// -----

// Gathers between servers first, into a dimension of its own. The parts
// gathered within a server follow it in memory only if that dimension is minor.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
// CHECK-LABEL: @all_gather
func.func @all_gather(%x: tensor<256x1024xf32>) -> tensor<1023x1024xf32> {
  // FLAT-NEXT: comm.all_gather %{{.*}} dim 0 over @mesh <{"tp", "dp"}>
  // AUTO-NEXT: %[[PART:.*]] = tensor.expand_shape {{.*}} into tensor<1x1x256x1024xf32>
  // AUTO-NEXT: %[[BETWEEN:.*]] = comm.all_gather %[[PART]] dim 1 over @mesh <{"dp"}> : tensor<1x1x256x1024xf32> -> tensor<1x2x256x1024xf32>
  // AUTO-NEXT: %[[ALL:.*]] = comm.all_gather %[[BETWEEN]] dim 0 over @mesh <{"tp"}> : tensor<1x2x256x1024xf32> -> tensor<2x2x256x1024xf32>
  // AUTO-NEXT: %[[ROWS:.*]] = tensor.collapse_shape %[[ALL]] {{.*}} into tensor<1024x1024xf32>
  // AUTO-NEXT: tensor.extract_slice %[[ROWS]][0, 0] [1023, 1024] [1, 1]
  %y = comm.all_gather %x dim 0 over @mesh <{"tp", "dp"}> : tensor<256x1024xf32> -> tensor<1023x1024xf32>
  return %y : tensor<1023x1024xf32>
}

// -----

heddle.mesh @mesh <["dp"=2, "tp"=2]>
// CHECK-LABEL: @reduce_scatter
func.func @reduce_scatter(%x: tensor<16x4096x64xf32>) -> tensor<16x1024x64xf32> {
  // FLAT-NEXT: comm.reduce_scatter sum %{{.*}} dim 1 over @mesh <{"dp", "tp"}>
  // AUTO-NEXT: %[[PARTS:.*]] = tensor.expand_shape {{.*}} into tensor<16x2x2x1024x64xf32>
  // AUTO-NEXT: %[[INSIDE:.*]] = comm.reduce_scatter sum %[[PARTS]] dim 2 over @mesh <{"tp"}> : tensor<16x2x2x1024x64xf32> -> tensor<16x2x1x1024x64xf32>
  // AUTO-NEXT: %[[BETWEEN:.*]] = comm.reduce_scatter sum %[[INSIDE]] dim 1 over @mesh <{"dp"}> : tensor<16x2x1x1024x64xf32> -> tensor<16x1x1x1024x64xf32>
  // AUTO-NEXT: tensor.collapse_shape %[[BETWEEN]]
  %y = comm.reduce_scatter sum %x dim 1 over @mesh <{"dp", "tp"}> : tensor<16x4096x64xf32> -> tensor<16x1024x64xf32>
  return %y : tensor<16x1024x64xf32>
}

// -----

// Stays as it is: one level, one axis, one element, or already a schedule.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
// CHECK-LABEL: @stays
func.func @stays(%x: tensor<4096xf32>, %s: tensor<f32>) -> (tensor<4096xf32>, tensor<f32>, tensor<4096xf32>) {
  // CHECK-NEXT: comm.all_reduce sum %{{.*}} over @mesh <{"tp"}>
  %a = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<4096xf32>
  // CHECK-NEXT: comm.all_reduce sum %{{.*}} over @mesh <{"dp", "tp"}> : tensor<f32>
  %b = comm.all_reduce sum %s over @mesh <{"dp", "tp"}> : tensor<f32>
  // CHECK-NEXT: comm.start
  // CHECK-NEXT: comm.all_reduce sum %{{.*}} over @mesh <{"dp", "tp"}> : tensor<4096xf32>
  %t = comm.start : !comm.token<tensor<4096xf32>> {
    %c = comm.all_reduce sum %x over @mesh <{"dp", "tp"}> : tensor<4096xf32>
    comm.yield %c : tensor<4096xf32>
  }
  %d = comm.wait %t : !comm.token<tensor<4096xf32>>
  return %a, %b, %d : tensor<4096xf32>, tensor<f32>, tensor<4096xf32>
}

// -----

// The plan decides whether collectives are decomposed.
module attributes {heddle.hierarchy = #heddle.hierarchy<never>} {
  heddle.mesh @mesh <["dp"=2, "tp"=2]>
  // AUTO-LABEL: @planned
  func.func @planned(%x: tensor<512x1024xf32>) -> tensor<512x1024xf32> {
    %y = comm.all_reduce sum %x over @mesh <{"dp", "tp"}> : tensor<512x1024xf32>
    return %y : tensor<512x1024xf32>
  }
}
