// An attention block with heads over "y" and the batch over "x", so the output
// projection sums over devices. "y" does not divide the three heads.
#project = {
  indexing_maps = [affine_map<(b, n, s, d, h) -> (b, s, h)>, affine_map<(b, n, s, d, h) -> (h, n, d)>, affine_map<(b, n, s, d, h) -> (b, n, s, d)>],
  iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
#rows = {
  indexing_maps = [affine_map<(b, n, s, t) -> (b, n, s, t)>, affine_map<(b, n, s, t) -> (b, n, s)>, affine_map<(b, n, s, t) -> (b, n, s, t)>],
  iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
heddle.mesh @mesh <["x"=2, "y"=2]>

func.func @main(
    %x: tensor<2x5x6xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}, {}]>},
    %wq: tensor<6x3x4xf32> {heddle.name = "wq", heddle.sharding = #heddle.sharding<@mesh, [{}, {"y"}, {}]>},
    %wk: tensor<6x3x4xf32> {heddle.name = "wk"},
    %wv: tensor<6x3x4xf32> {heddle.name = "wv"},
    %wo: tensor<3x4x6xf32> {heddle.name = "wo"})
    -> (tensor<2x5x6xf32> {heddle.name = "y"}) {
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %e = tensor.empty() : tensor<2x3x5x4xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<2x3x5x4xf32>) -> tensor<2x3x5x4xf32>
  %q = linalg.generic #project ins(%x, %wq : tensor<2x5x6xf32>, tensor<6x3x4xf32>) outs(%z : tensor<2x3x5x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %c, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x3x5x4xf32>
  %k = linalg.generic #project ins(%x, %wk : tensor<2x5x6xf32>, tensor<6x3x4xf32>) outs(%z : tensor<2x3x5x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %c, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x3x5x4xf32>
  %v = linalg.generic #project ins(%x, %wv : tensor<2x5x6xf32>, tensor<6x3x4xf32>) outs(%z : tensor<2x3x5x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %c, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x3x5x4xf32>

  // Scores, masked by position: linalg.index in the body is a global index.
  %es = tensor.empty() : tensor<2x3x5x5xf32>
  %zs = linalg.fill ins(%zero : f32) outs(%es : tensor<2x3x5x5xf32>) -> tensor<2x3x5x5xf32>
  %scores = linalg.generic {
      indexing_maps = [affine_map<(b, n, s, t, d) -> (b, n, s, d)>, affine_map<(b, n, s, t, d) -> (b, n, t, d)>, affine_map<(b, n, s, t, d) -> (b, n, s, t)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%q, %k : tensor<2x3x5x4xf32>, tensor<2x3x5x4xf32>) outs(%zs : tensor<2x3x5x5xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %c, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x3x5x5xf32>
  %masked = linalg.generic {
      indexing_maps = [affine_map<(b, n, s, t) -> (b, n, s, t)>, affine_map<(b, n, s, t) -> (b, n, s, t)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel"]}
      ins(%scores : tensor<2x3x5x5xf32>) outs(%es : tensor<2x3x5x5xf32>) {
  ^bb0(%a: f32, %o: f32):
    %s = linalg.index 2 : index
    %t = linalg.index 3 : index
    %seen = arith.cmpi sle, %t, %s : index
    %half = arith.constant 0.5 : f32
    %scaled = arith.mulf %a, %half : f32
    %r = arith.select %seen, %scaled, %lowest : f32
    linalg.yield %r : f32
  } -> tensor<2x3x5x5xf32>
  %er = tensor.empty() : tensor<2x3x5xf32>
  %low = linalg.fill ins(%lowest : f32) outs(%er : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %max = linalg.reduce { arith.maximumf } ins(%masked : tensor<2x3x5x5xf32>) outs(%low : tensor<2x3x5xf32>) dimensions = [3]
  %exp = linalg.generic #rows ins(%masked, %max : tensor<2x3x5x5xf32>, tensor<2x3x5xf32>) outs(%es : tensor<2x3x5x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<2x3x5x5xf32>
  %nil = linalg.fill ins(%zero : f32) outs(%er : tensor<2x3x5xf32>) -> tensor<2x3x5xf32>
  %sum = linalg.reduce { arith.addf } ins(%exp : tensor<2x3x5x5xf32>) outs(%nil : tensor<2x3x5xf32>) dimensions = [3]
  %p = linalg.generic #rows ins(%exp, %sum : tensor<2x3x5x5xf32>, tensor<2x3x5xf32>) outs(%es : tensor<2x3x5x5xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %r = arith.divf %a, %b : f32
    linalg.yield %r : f32
  } -> tensor<2x3x5x5xf32>

  %o = linalg.generic {
      indexing_maps = [affine_map<(b, n, s, d, t) -> (b, n, s, t)>, affine_map<(b, n, s, d, t) -> (b, n, t, d)>, affine_map<(b, n, s, d, t) -> (b, n, s, d)>],
      iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction"]}
      ins(%p, %v : tensor<2x3x5x5xf32>, tensor<2x3x5x4xf32>) outs(%z : tensor<2x3x5x4xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %c, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x3x5x4xf32>
  // The projection's sum starts from the residual.
  %y = linalg.generic {
      indexing_maps = [affine_map<(b, s, h, n, d) -> (b, n, s, d)>, affine_map<(b, s, h, n, d) -> (n, d, h)>, affine_map<(b, s, h, n, d) -> (b, s, h)>],
      iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]}
      ins(%o, %wo : tensor<2x3x5x4xf32>, tensor<3x4x6xf32>) outs(%x : tensor<2x5x6xf32>) {
  ^bb0(%a: f32, %b: f32, %c: f32):
    %m = arith.mulf %a, %b : f32
    %s = arith.addf %c, %m : f32
    linalg.yield %s : f32
  } -> tensor<2x5x6xf32>
  return %y : tensor<2x5x6xf32>
}
