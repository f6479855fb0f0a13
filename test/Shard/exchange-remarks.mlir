// Communication inside of ops (not resharding) gets a remark when the ops are
// localized.
// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-shard-pipeline --heddle-localize="remark-bytes=40 cluster=%S/Inputs/two-servers.json" -o /dev/null
// RUN: heddle-opt %s --split-input-file --heddle-shard-pipeline --heddle-localize="remark-bytes=1000000" -o /dev/null 2>&1 | count 0
// RUN: heddle-opt %s --split-input-file --heddle-shard-pipeline --heddle-localize -o /dev/null 2>&1 | count 0

// The halo is one row of a neighbour, 5 x 2 numbers. Without the split, the
// input and the accumulator would be gathered.
heddle.mesh @mesh <["y"=2]>
func.func @halo(
    %x: tensor<1x8x5x2xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"y"}, {}, {}]>},
    %k: tensor<3x3x2x4xf32>, %init: tensor<1x3x2x4xf32>)
    -> (tensor<1x3x2x4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}, {"y"}, {}, {}]>}) {
  // expected-remark @below {{in @halo, 'linalg.conv_2d_nhwc_hwcf' needs of other devices what its own part lacks: 1 permute over {"y"}; a device sends 40 bytes in 0.002 ms on 'two servers'}}
  // expected-note @below {{it would not if it had heddle.factors = #heddle.factors<["1" = {}]>; for all that this op reads, makes and exchanges a device would send 224 bytes in 0.005 ms, not 40 bytes in 0.002 ms: that gains nothing}}
  %y = linalg.conv_2d_nhwc_hwcf {strides = dense<2> : tensor<2xi64>, dilations = dense<1> : tensor<2xi64>}
      ins(%x, %k : tensor<1x8x5x2xf32>, tensor<3x3x2x4xf32>) outs(%init : tensor<1x3x2x4xf32>) -> tensor<1x3x2x4xf32>
  return %y : tensor<1x3x2x4xf32>
}

// -----

// A ring. The advice splits queries, but not keys. The second of two layers is
// like the first and shares its remark.
heddle.mesh @mesh <["cp"=2]>
func.func @ring(%q: tensor<1x8x2x4xf32>, %k: tensor<1x8x2x4xf32>, %v: tensor<1x8x2x4xf32>)
    -> (tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>) {
  // expected-remark @below {{in @ring, 'h.0.attn' (heddle.attention) needs of other devices what its own part lacks: 2 permute over {"cp"}; a device sends 256 bytes in 0.004 ms on 'two servers'; the same for 'h.1.attn' (heddle.attention): 2 times, 512 bytes in 0.00801 ms in all}}
  // expected-note @below {{it would not if it had "operators": {"h.*.attn": {"t": []}}; for all that this op reads, makes and exchanges a device would send}}
  %a:2 = heddle.attention "h.0.attn" %q, %k, %v scale(0.5) {heddle.factors = #heddle.factors<["s" = {"cp"}, "t" = {"cp"}]>} : tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x8x2xf32>
  %b:2 = heddle.attention "h.1.attn" %q, %k, %v scale(0.5) {heddle.factors = #heddle.factors<["s" = {"cp"}, "t" = {"cp"}]>} : tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32> -> tensor<1x8x2x4xf32>, tensor<1x8x2xf32>
  return %a#0, %b#0 : tensor<1x8x2x4xf32>, tensor<1x8x2x4xf32>
}
