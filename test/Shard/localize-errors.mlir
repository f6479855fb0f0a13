// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-repeat-constants --heddle-propagate-shardings --heddle-insert-reshards --heddle-localize

// Devices can combine partial results only of a body with a neutral element.
heddle.mesh @mesh <["tp"=2]>
#map0 = affine_map<(b, f) -> (b, f)>
#map1 = affine_map<(b, f) -> (b)>
func.func @alternating(%x: tensor<3x6xf32>, %o: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{factor 1 must not be split, got #heddle.axes<{"tp"}>}}
  %0 = linalg.generic {indexing_maps = [#map0, #map1], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x6xf32>) outs(%o : tensor<3xf32>) attrs = {heddle.name = "alternating", heddle.factors = #heddle.factors<["1" = {"tp"}]>} {
  ^bb0(%in: f32, %out: f32):
    %s = arith.subf %in, %out : f32
    linalg.yield %s : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// An axis that the mesh lacks, as in an edited program.
heddle.mesh @mesh <["tp"=4]>
// expected-error@+1 {{expected an axis of #heddle.mesh<["tp"=4]>, got "dp"}}
func.func @no_axis(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}]>}) {
  return
}
