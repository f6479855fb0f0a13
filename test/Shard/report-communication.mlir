// RUN: heddle-opt %s --heddle-shard-pipeline --heddle-localize --heddle-report-communication 2>&1 >/dev/null | FileCheck %s
// RUN: not heddle-opt %s --heddle-report-communication=cluster=none.json 2>&1 | FileCheck %s --check-prefix=NONE

// Each of two devices sends its half of 128 bytes.
// CHECK: @f all_gather {"x"}: 1 ops, 64 bytes, {{.*}} ms
// CHECK: @f in all: 64 bytes, {{.*}} ms on 'uniform'
// NONE: none.json': {{.*}}; expected a file, or one of the presets
heddle.mesh @mesh <["x"=2]>
func.func @f(%x: tensor<8x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<8x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {}]>}) {
  %0 = math.exp %x : tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}
