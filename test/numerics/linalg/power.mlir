// Power iteration until the estimate of the eigenvalue changes little.
heddle.mesh @mesh <["x"=2, "y"=2]>
func.func @main(
    %a: tensor<7x7xf32> {heddle.name = "a", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {"y"}]>},
    %v: tensor<7xf32> {heddle.name = "v"})
    -> (tensor<7xf32> {heddle.name = "vector"}, f32 {heddle.name = "value"}, i32 {heddle.name = "count"}) {
  %zero = arith.constant 0.0 : f32
  %start = arith.constant 3.0 : f32
  %small = arith.constant 3.0e-3 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c40 = arith.constant 40 : i32
  %e = tensor.empty() : tensor<7xf32>
  %z = linalg.fill ins(%zero : f32) outs(%e : tensor<7xf32>) -> tensor<7xf32>
  %e0 = tensor.empty() : tensor<f32>
  %z0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<f32>) -> tensor<f32>
  %e77 = tensor.empty() : tensor<7x7xf32>
  %z77 = linalg.fill ins(%zero : f32) outs(%e77 : tensor<7x7xf32>) -> tensor<7x7xf32>
  %square = linalg.matmul_transpose_b ins(%a, %a : tensor<7x7xf32>, tensor<7x7xf32>) outs(%z77 : tensor<7x7xf32>) -> tensor<7x7xf32>
  %r:4 = scf.while (%x = %v, %old = %zero, %change = %start, %n = %c0) : (tensor<7xf32>, f32, f32, i32) -> (tensor<7xf32>, f32, f32, i32) {
    %big = arith.cmpf ogt, %change, %small : f32
    %few = arith.cmpi slt, %n, %c40 : i32
    %more = arith.andi %big, %few : i1
    scf.condition(%more) %x, %old, %change, %n : tensor<7xf32>, f32, f32, i32
  } do {
  ^bb0(%x: tensor<7xf32>, %old: f32, %c: f32, %n: i32):
    %y = linalg.matvec ins(%square, %x : tensor<7x7xf32>, tensor<7xf32>) outs(%z : tensor<7xf32>) -> tensor<7xf32>
    %s = linalg.dot ins(%y, %y : tensor<7xf32>, tensor<7xf32>) outs(%z0 : tensor<f32>) -> tensor<f32>
    %sq = tensor.extract %s[] : tensor<f32>
    %norm = math.sqrt %sq : f32
    %ns = tensor.splat %norm : tensor<7xf32>
    %next = arith.divf %y, %ns : tensor<7xf32>
    %d = arith.subf %norm, %old : f32
    %ad = math.absf %d : f32
    %n1 = arith.addi %n, %c1 : i32
    scf.yield %next, %norm, %ad, %n1 : tensor<7xf32>, f32, f32, i32
  }
  return %r#0, %r#1, %r#3 : tensor<7xf32>, f32, i32
}
