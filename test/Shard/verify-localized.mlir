// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-verify-localized

heddle.mesh @mesh <["tp"=2]>
func.func private @reshard(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{expected no reshard after localization}}
  %0 = heddle.reshard %x from <@mesh, [{}]> to <@mesh, [{"tp"}]> : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func private @factors(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{expected no heddle.factors after localization}}
  %0 = math.exp %x {heddle.factors = #heddle.factors<["0" = {"tp"}]>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

// A pin that no pass has read.
heddle.mesh @mesh <["tp"=2]>
func.func private @pin(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error@+1 {{expected no heddle.pin after localization}}
  %0 = math.exp %x {heddle.pin = #heddle.sharding<@mesh, [{"tp"}]>} : tensor<4xf32>
  return %0 : tensor<4xf32>
}

// -----

heddle.mesh @mesh <["tp"=2]>
// expected-note@+1 {{stored as declared here}}
heddle.variable @w : tensor<4xf32> parameter init(zeros) storage(<@mesh, [{"tp"}]>)
func.func private @load() {
  // expected-error@+1 {{expected the local type 'tensor<2xf32>', got 'tensor<4xf32>'}}
  %0 = heddle.load @w : tensor<4xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
// expected-error@+1 {{expected argument 0 to have heddle.sharding and heddle.global_type}}
func.func @boundary(%x: tensor<4xf32>) {
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
// expected-error@+1 {{expected argument 0 to be 'tensor<2xf32>', got 'tensor<4xf32>'}}
func.func @local(%x: tensor<4xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>, heddle.global_type = tensor<4xf32>}) {
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func private @gather(%x: tensor<4x2xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{expected a contiguous collective (dimension 0, and parts that divide it); run heddle-pack-collectives}}
  %0 = comm.all_gather %x dim 1 over @mesh <{"tp"}> : tensor<4x2xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func private @scatter(%x: tensor<5xf32>) -> tensor<3xf32> {
  // expected-error@+1 {{expected a contiguous collective (dimension 0, and parts that divide it)}}
  %0 = comm.reduce_scatter sum %x dim 0 over @mesh <{"tp"}> : tensor<5xf32> -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func private @exchange(%x: tensor<4x2xf32>) -> tensor<2x4xf32> {
  // expected-error@+1 {{expected a contiguous collective ([members, 1, ...] -> [1, members, ...], split 0 concat 1)}}
  %0 = comm.all_to_all %x split 0 concat 1 over @mesh <{"tp"}> : tensor<4x2xf32> -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}
