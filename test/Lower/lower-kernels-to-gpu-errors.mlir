// RUN: heddle-opt %s --split-input-file --heddle-lower-kernels-to-gpu --verify-diagnostics

module attributes {heddle.target_gpu = "sm_80"} {
  func.func private @tangent(%x: tensor<50xf32>) -> tensor<50xf32> attributes {heddle.kernel, heddle.row_dims = 1 : i64} {
    %e = tensor.empty() : tensor<50xf32>
    %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
        ins(%x : tensor<50xf32>) outs(%e : tensor<50xf32>) {
    ^bb0(%in: f32, %out: f32):
      // expected-error @below {{cannot be compiled for a GPU: there is no expansion of it for f32}}
      %t = math.tan %in : f32
      linalg.yield %t : f32
    } -> tensor<50xf32>
    return %y : tensor<50xf32>
  }
}
