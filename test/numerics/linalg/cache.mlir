// Steps of a decoder. Each step writes a row of a cache, whose rows are split, at
// an index that it reads from a tensor, and attends to all rows before it. The
// answers fill a result row by row. Also splits and joins tensors.
heddle.mesh @mesh <["s"=3, "n"=2]>
func.func @main(
    %cache: tensor<13x3x4xf32> {heddle.name = "cache", heddle.sharding = #heddle.sharding<@mesh, [{"s"}, {"n"}, {}]>},
    %xs: tensor<5x3x4xf32> {heddle.name = "xs", heddle.sharding = #heddle.sharding<@mesh, [{}, {"n"}, {}]>})
    -> (tensor<13x3x4xf32> {heddle.name = "written", heddle.sharding = #heddle.sharding<@mesh, [{"s"}, {"n"}, {}]>},
        tensor<5x3x4xf32> {heddle.name = "answers", heddle.sharding = #heddle.sharding<@mesh, [{"n", "s"}, {}, {}]>},
        tensor<3x4xf32> {heddle.name = "last"},
        tensor<7x3x4xf32> {heddle.name = "steps", heddle.sharding = #heddle.sharding<@mesh, [{"s"}, {}, {}]>},
        tensor<18x3x4xf32> {heddle.name = "joined", heddle.sharding = #heddle.sharding<@mesh, [{"s"}, {"n"}, {}]>}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c5 = arith.constant 5 : index
  %begin = arith.constant 6 : index
  %zero = arith.constant 0.0 : f32
  %lowest = arith.constant 0xFF800000 : f32
  %none = tensor.empty() : tensor<5x3x4xf32>
  %empty = tensor.empty() : tensor<3x13xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%empty : tensor<3x13xf32>) -> tensor<3x13xf32>
  %e = tensor.empty() : tensor<3x4xf32>
  %nothing = linalg.fill ins(%zero : f32) outs(%e : tensor<3x4xf32>) -> tensor<3x4xf32>
  %r:2 = scf.for %t = %c0 to %c5 step %c1 iter_args(%before = %cache, %filled = %none) -> (tensor<13x3x4xf32>, tensor<5x3x4xf32>) {
    %x = tensor.extract_slice %xs[%t, 0, 0] [1, 3, 4] [1, 1, 1] : tensor<5x3x4xf32> to tensor<3x4xf32>
    %place = arith.addi %begin, %t : index
    %keys = tensor.insert_slice %x into %before[%place, 0, 0] [1, 3, 4] [1, 1, 1] : tensor<3x4xf32> into tensor<13x3x4xf32>
    %scores = linalg.generic {indexing_maps = [affine_map<(n, p, d) -> (n, d)>, affine_map<(n, p, d) -> (p, n, d)>, affine_map<(n, p, d) -> (n, p)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %keys : tensor<3x4xf32>, tensor<13x3x4xf32>) outs(%zeros : tensor<3x13xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<3x13xf32>
    %masked = linalg.generic {indexing_maps = [affine_map<(n, p) -> (n, p)>, affine_map<(n, p) -> (n, p)>], iterator_types = ["parallel", "parallel"]} ins(%scores : tensor<3x13xf32>) outs(%empty : tensor<3x13xf32>) {
    ^bb0(%a: f32, %o: f32):
      %p = linalg.index 1 : index
      %seen = arith.cmpi ule, %p, %place : index
      %v = arith.select %seen, %a, %lowest : f32
      linalg.yield %v : f32
    } -> tensor<3x13xf32>
    %shares = linalg.softmax dimension(1) ins(%masked : tensor<3x13xf32>) outs(%empty : tensor<3x13xf32>) -> tensor<3x13xf32>
    %answer = linalg.generic {indexing_maps = [affine_map<(n, d, p) -> (n, p)>, affine_map<(n, d, p) -> (p, n, d)>, affine_map<(n, d, p) -> (n, d)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%shares, %keys : tensor<3x13xf32>, tensor<13x3x4xf32>) outs(%nothing : tensor<3x4xf32>) {
    ^bb0(%a: f32, %b: f32, %o: f32):
      %m = arith.mulf %a, %b : f32
      %s = arith.addf %o, %m : f32
      linalg.yield %s : f32
    } -> tensor<3x4xf32>
    %next = tensor.insert_slice %answer into %filled[%t, 0, 0] [1, 3, 4] [1, 1, 1] : tensor<3x4xf32> into tensor<5x3x4xf32>
    scf.yield %keys, %next : tensor<13x3x4xf32>, tensor<5x3x4xf32>
  }
  %last = tensor.extract_slice %r#0[10, 0, 0] [1, 3, 4] [1, 1, 1] : tensor<13x3x4xf32> to tensor<3x4xf32>
  %steps = tensor.extract_slice %r#0[0, 0, 0] [7, 3, 4] [2, 1, 1] : tensor<13x3x4xf32> to tensor<7x3x4xf32>
  %joined = tensor.concat dim(0) %r#0, %r#1 : (tensor<13x3x4xf32>, tensor<5x3x4xf32>) -> tensor<18x3x4xf32>
  return %r#0, %r#1, %last, %steps, %joined : tensor<13x3x4xf32>, tensor<5x3x4xf32>, tensor<3x4xf32>, tensor<7x3x4xf32>, tensor<18x3x4xf32>
}
