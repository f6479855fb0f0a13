// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-repeat-constants --heddle-propagate-shardings --heddle-insert-reshards=remark-bytes=0

// Reshards that the program already has are verified before they are costed.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func @unknown_axis(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>}) {
  // expected-error @below {{expected an axis of #heddle.mesh<["dp"=2, "tp"=2]>, got "pp"}}
  %0 = heddle.reshard %x from <@mesh, [{"tp"}]> to <@mesh, [{"pp"}]> : tensor<8xf32>
  return
}

// -----

heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func @unknown_partial_axis(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"tp"}]>}) {
  // expected-error @below {{expected an axis of #heddle.mesh<["dp"=2, "tp"=2]>, got "pp"}}
  %0 = heddle.reshard %x from <@mesh, [{"tp"}]> to <@mesh, [{"tp"}], partial = sum {"pp"}> : tensor<8xf32>
  return
}
