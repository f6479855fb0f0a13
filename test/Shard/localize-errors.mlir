// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-propagate-shardings --heddle-insert-reshards --heddle-localize

// No mask makes a sum of anything but products right.
heddle.mesh @mesh <["tp"=4]>
#map0 = affine_map<(b, f) -> (b, f)>
#map1 = affine_map<(b, f) -> (b)>
func.func @no_mask(%x: tensor<3x6xf32>) -> tensor<3xf32> {
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<3xf32>
  %o = linalg.fill ins(%zero : f32) outs(%empty : tensor<3xf32>) -> tensor<3xf32>
  // expected-error@+1 {{"sumexp": factor 1 of size 6 cannot be padded for 4 devices over "tp": the op is linear in no operand that it reduces; the nearest legal degrees are 3 and 6}}
  %0 = linalg.generic {indexing_maps = [#map0, #map1], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x6xf32>) outs(%o : tensor<3xf32>) attrs = {heddle.name = "sumexp", heddle.factors = #heddle.factors<["1" = {"tp"}]>} {
  ^bb0(%in: f32, %out: f32):
    %e = math.exp %in : f32
    %s = arith.addf %out, %e : f32
    linalg.yield %s : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// A sum that is no product would add its start once for each device.
heddle.mesh @mesh <["tp"=2]>
#map0 = affine_map<(b, f) -> (b, f)>
#map1 = affine_map<(b, f) -> (b)>
func.func @start(%x: tensor<3x6xf32>, %o: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{factor 1 must not be split, got #heddle.axes<{"tp"}>}}
  %0 = linalg.generic {indexing_maps = [#map0, #map1], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x6xf32>) outs(%o : tensor<3xf32>) attrs = {heddle.name = "sumexp", heddle.factors = #heddle.factors<["1" = {"tp"}]>} {
  ^bb0(%in: f32, %out: f32):
    %e = math.exp %in : f32
    %s = arith.addf %out, %e : f32
    linalg.yield %s : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// The lowest number that padding is masked with would be the highest here.
heddle.mesh @mesh <["tp"=4]>
#map0 = affine_map<(b, f) -> (b, f)>
#map1 = affine_map<(b, f) -> (b)>
func.func @maximum_of_negated(%x: tensor<3x6xf32>, %o: tensor<3xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{factor 1 must not be split, got #heddle.axes<{"tp"}>}}
  %0 = linalg.generic {indexing_maps = [#map0, #map1], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<3x6xf32>) outs(%o : tensor<3xf32>) attrs = {heddle.name = "maxneg", heddle.factors = #heddle.factors<["1" = {"tp"}]>} {
  ^bb0(%in: f32, %out: f32):
    %n = arith.negf %in : f32
    %m = arith.maximumf %out, %n : f32
    linalg.yield %m : f32
  } -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

// What a plan has not seen, as when someone edits the printed program.
heddle.mesh @mesh <["tp"=4]>
// expected-error@+1 {{expected an axis of #heddle.mesh<["tp"=4]>, got "dp"}}
func.func @no_axis(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}]>}) {
  return
}
