// Two layers: a product with bias and GELU, then a product that computes
// logits, and their loss. The 12 rows are four micro-batches of stages.mlir.
heddle.variable @w1 : tensor<6x10xf32> parameter init(normal<0.5>)
heddle.variable @b1 : tensor<10xf32> parameter init(normal<0.5>)
heddle.variable @w2 : tensor<10x7xf32> parameter init(normal<0.5>)

func.func @forward(
    %x: tensor<12x6xf32> {heddle.name = "x", heddle.role = #heddle.port_role<features>},
    %labels: tensor<12xi32> {heddle.name = "labels", heddle.role = #heddle.port_role<labels>})
    -> (tensor<f32> {heddle.name = "loss_sum", heddle.role = #heddle.port_role<loss_sum>},
        tensor<f32> {heddle.name = "count", heddle.role = #heddle.port_role<label_count>}) {
  %w1 = heddle.load @w1 : tensor<6x10xf32>
  %b1 = heddle.load @b1 : tensor<10xf32>
  %w2 = heddle.load @w2 : tensor<10x7xf32>
  %p = heddle.contract "first" [bh, hf -> bf] %x, %w1 : (tensor<12x6xf32>, tensor<6x10xf32>) -> tensor<12x10xf32>
  %bias = heddle.broadcast "first" %b1 along [1] : tensor<10xf32> -> tensor<12x10xf32>
  %u = arith.addf %p, %bias {heddle.name = "first"} : tensor<12x10xf32>
  %a = heddle.gelu "act" %u approximate(tanh) : tensor<12x10xf32>
  %logits = heddle.contract "second" [bf, fv -> bv] %a, %w2 : (tensor<12x10xf32>, tensor<10x7xf32>) -> tensor<12x7xf32>
  %losses, %lse = heddle.cross_entropy "loss" %logits, %labels : tensor<12x7xf32>, tensor<12xi32> -> tensor<12xf32>, tensor<12xf32>
  %sum = heddle.reduce sum %losses over [0] : tensor<12xf32> -> tensor<f32>
  %count = arith.constant dense<12.0> : tensor<f32>
  return %sum, %count : tensor<f32>, tensor<f32>
}
