// Conditions whose two branches are both computed. The branch that is not taken
// divides by zero, reads far beyond the end of a tensor, or both.
heddle.mesh @mesh <["x"=2, "y"=2]>
func.func private @divide(%x: tensor<10xi32>, %y: tensor<10xi32>) -> tensor<10xi32> {
  %0 = arith.divsi %x, %y : tensor<10xi32>
  return %0 : tensor<10xi32>
}
func.func @main(%x: tensor<10xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"x"}]>}) -> (tensor<10xf32>, tensor<10xf32>) {
  %c3 = arith.constant 3 : index
  %never = arith.constant 5.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<10xf32>
  %hundred = arith.constant dense<100> : tensor<10xi32>
  %number = tensor.extract %x[%c3] : tensor<10xf32>
  %condition = arith.cmpf ogt, %number, %never : f32
  %nothing = arith.mulf %x, %zeros : tensor<10xf32>
  %none = arith.fptosi %nothing : tensor<10xf32> to tensor<10xi32>
  %0 = scf.if %condition -> tensor<10xf32> {
    %1 = func.call @divide(%hundred, %none) : (tensor<10xi32>, tensor<10xi32>) -> tensor<10xi32>
    %2 = arith.sitofp %1 : tensor<10xi32> to tensor<10xf32>
    scf.yield %2 : tensor<10xf32>
  } else {
    %1 = math.exp %x : tensor<10xf32>
    scf.yield %1 : tensor<10xf32>
  }
  %far = arith.constant dense<1000000000> : tensor<10xi32>
  %places = arith.addi %none, %far : tensor<10xi32>
  %3 = scf.if %condition -> tensor<10xf32> {
    %indices = tensor.expand_shape %places [[0, 1]] output_shape [10, 1] : tensor<10xi32> into tensor<10x1xi32>
    %4 = tensor.gather %x[%indices] gather_dims([0]) : (tensor<10xf32>, tensor<10x1xi32>) -> tensor<10xf32>
    %empty = tensor.empty() : tensor<10xf32>
    %5 = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>, affine_map<(i) -> (i)>, affine_map<(i) -> (i)>], iterator_types = ["parallel"]} ins(%places, %4 : tensor<10xi32>, tensor<10xf32>) outs(%empty : tensor<10xf32>) {
    ^bb0(%place: i32, %a: f32, %b: f32):
      %i = arith.index_cast %place : i32 to index
      %element = tensor.extract %x[%i] : tensor<10xf32>
      %sum = arith.addf %a, %element : f32
      linalg.yield %sum : f32
    } -> tensor<10xf32>
    scf.yield %5 : tensor<10xf32>
  } else {
    %4 = arith.addf %x, %x : tensor<10xf32>
    scf.yield %4 : tensor<10xf32>
  }
  return %0, %3 : tensor<10xf32>, tensor<10xf32>
}
