// serial.mlir, cut by hand into two stages of a pipeline for micro-batches of 3
// rows. Each stage has a forward program, a backward program that adds to the
// stage's gradients, and a program that returns the gradients and sets them to
// zero. stages.py writes the table that calls them.
heddle.mesh @mesh <["pp"=2]>
heddle.variable @w1 : tensor<6x10xf32> parameter init(normal<0.5>) {heddle.ranks = #heddle.ranks<@mesh, {"pp" = [0]}>}
heddle.variable @b1 : tensor<10xf32> parameter init(normal<0.5>) {heddle.ranks = #heddle.ranks<@mesh, {"pp" = [0]}>}
heddle.variable @w2 : tensor<10x7xf32> parameter init(normal<0.5>) {heddle.ranks = #heddle.ranks<@mesh, {"pp" = [1]}>}
heddle.variable @g.w1 : tensor<6x10xf32> gradient init(zeros) state(<gradient of @w1>) {heddle.ranks = #heddle.ranks<@mesh, {"pp" = [0]}>}
heddle.variable @g.b1 : tensor<10xf32> gradient init(zeros) state(<gradient of @b1>) {heddle.ranks = #heddle.ranks<@mesh, {"pp" = [0]}>}
heddle.variable @g.w2 : tensor<10x7xf32> gradient init(zeros) state(<gradient of @w2>) {heddle.ranks = #heddle.ranks<@mesh, {"pp" = [1]}>}

func.func @forward0(%x: tensor<3x6xf32> {heddle.name = "x"})
    -> (tensor<3x10xf32> {heddle.name = "u"}, tensor<3x10xf32> {heddle.name = "a"})
    attributes {heddle.ranks = #heddle.ranks<@mesh, {"pp" = [0]}>} {
  %w1 = heddle.load @w1 : tensor<6x10xf32>
  %b1 = heddle.load @b1 : tensor<10xf32>
  %p = heddle.contract "first" [bh, hf -> bf] %x, %w1 : (tensor<3x6xf32>, tensor<6x10xf32>) -> tensor<3x10xf32>
  %bias = heddle.broadcast "first" %b1 along [1] : tensor<10xf32> -> tensor<3x10xf32>
  %u = arith.addf %p, %bias {heddle.name = "first"} : tensor<3x10xf32>
  %a = heddle.gelu "act" %u approximate(tanh) : tensor<3x10xf32>
  return %u, %a : tensor<3x10xf32>, tensor<3x10xf32>
}

func.func @backward0(%x: tensor<3x6xf32> {heddle.name = "x"}, %u: tensor<3x10xf32> {heddle.name = "u"}, %da: tensor<3x10xf32> {heddle.name = "da"})
    attributes {heddle.ranks = #heddle.ranks<@mesh, {"pp" = [0]}>} {
  %du = heddle.gelu_grad "act" %u, %da approximate(tanh) : tensor<3x10xf32>
  %dw1 = heddle.contract "first" pass(wgrad) [bh, bf -> hf] %x, %du : (tensor<3x6xf32>, tensor<3x10xf32>) -> tensor<6x10xf32>
  %db1 = heddle.reduce "first" sum %du over [0] : tensor<3x10xf32> -> tensor<10xf32>
  %gw1 = heddle.load @g.w1 : tensor<6x10xf32>
  %sw1 = arith.addf %gw1, %dw1 : tensor<6x10xf32>
  heddle.store %sw1, @g.w1 : tensor<6x10xf32>
  %gb1 = heddle.load @g.b1 : tensor<10xf32>
  %sb1 = arith.addf %gb1, %db1 : tensor<10xf32>
  heddle.store %sb1, @g.b1 : tensor<10xf32>
  return
}

func.func @finish0() -> (tensor<6x10xf32> {heddle.name = "w1"}, tensor<10xf32> {heddle.name = "b1"})
    attributes {heddle.ranks = #heddle.ranks<@mesh, {"pp" = [0]}>} {
  %gw1 = heddle.load @g.w1 : tensor<6x10xf32>
  %gb1 = heddle.load @g.b1 : tensor<10xf32>
  %zw1 = arith.constant dense<0.0> : tensor<6x10xf32>
  heddle.store %zw1, @g.w1 : tensor<6x10xf32>
  %zb1 = arith.constant dense<0.0> : tensor<10xf32>
  heddle.store %zb1, @g.b1 : tensor<10xf32>
  return %gw1, %gb1 : tensor<6x10xf32>, tensor<10xf32>
}

func.func @forward1(%a: tensor<3x10xf32> {heddle.name = "a"}, %labels: tensor<3xi32> {heddle.name = "labels"})
    -> (tensor<f32> {heddle.name = "loss_sum"}, tensor<3x7xf32> {heddle.name = "logits"}, tensor<3xf32> {heddle.name = "lse"})
    attributes {heddle.ranks = #heddle.ranks<@mesh, {"pp" = [1]}>} {
  %w2 = heddle.load @w2 : tensor<10x7xf32>
  %logits = heddle.contract "second" [bf, fv -> bv] %a, %w2 : (tensor<3x10xf32>, tensor<10x7xf32>) -> tensor<3x7xf32>
  %losses, %lse = heddle.cross_entropy "loss" %logits, %labels : tensor<3x7xf32>, tensor<3xi32> -> tensor<3xf32>, tensor<3xf32>
  %sum = heddle.reduce sum %losses over [0] : tensor<3xf32> -> tensor<f32>
  return %sum, %logits, %lse : tensor<f32>, tensor<3x7xf32>, tensor<3xf32>
}

// The gradient of the mean loss: each of the 12 losses has the weight 1 / 12.
func.func @backward1(%a: tensor<3x10xf32> {heddle.name = "a"}, %labels: tensor<3xi32> {heddle.name = "labels"}, %logits: tensor<3x7xf32> {heddle.name = "logits"}, %lse: tensor<3xf32> {heddle.name = "lse"})
    -> (tensor<3x10xf32> {heddle.name = "da"})
    attributes {heddle.ranks = #heddle.ranks<@mesh, {"pp" = [1]}>} {
  %weight = arith.constant dense<0.083333333333333333> : tensor<3xf32>
  %dlogits = heddle.cross_entropy_grad "loss" %logits, %labels, %lse, %weight
    : tensor<3x7xf32>, tensor<3xi32>, tensor<3xf32>, tensor<3xf32> -> tensor<3x7xf32>
  %dw2 = heddle.contract "second" pass(wgrad) [bf, bv -> fv] %a, %dlogits : (tensor<3x10xf32>, tensor<3x7xf32>) -> tensor<10x7xf32>
  %gw2 = heddle.load @g.w2 : tensor<10x7xf32>
  %sw2 = arith.addf %gw2, %dw2 : tensor<10x7xf32>
  heddle.store %sw2, @g.w2 : tensor<10x7xf32>
  %w2 = heddle.load @w2 : tensor<10x7xf32>
  %da = heddle.contract "second" pass(dgrad) [bv, fv -> bf] %dlogits, %w2 : (tensor<3x7xf32>, tensor<10x7xf32>) -> tensor<3x10xf32>
  return %da : tensor<3x10xf32>
}

func.func @finish1() -> (tensor<10x7xf32> {heddle.name = "w2"})
    attributes {heddle.ranks = #heddle.ranks<@mesh, {"pp" = [1]}>} {
  %gw2 = heddle.load @g.w2 : tensor<10x7xf32>
  %zw2 = arith.constant dense<0.0> : tensor<10x7xf32>
  heddle.store %zw2, @g.w2 : tensor<10x7xf32>
  return %gw2 : tensor<10x7xf32>
}
