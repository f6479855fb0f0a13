// The gradients of a split and of a pad as JAX writes them: a body reads one of
// several tensors, each in the branch where the index lies within it. The mesh
// does not divide the sizes, so that devices have padding.
heddle.mesh @mesh <["x"=2, "y"=2]>
#id = affine_map<(i, j) -> (i, j)>
func.func @main(
    %x: tensor<5x7xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {"y"}]>},
    %y: tensor<5x3xf32> {heddle.name = "y", heddle.sharding = #heddle.sharding<@mesh, [{"y"}, {}]>},
    %z: tensor<5x1xf32> {heddle.name = "z"})
    -> (tensor<5x11xf32> {heddle.name = "joined", heddle.sharding = #heddle.sharding<@mesh, [{}, {"x"}]>},
        tensor<5x3xf32> {heddle.name = "spread"}, tensor<5xf32> {heddle.name = "sums"}) {
  %c0 = arith.constant 0 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  %c7 = arith.constant 7 : index
  %c10 = arith.constant 10 : index
  %zero = arith.constant 0.0 : f32

  // Three parts, one after the other.
  %w = arith.mulf %y, %y : tensor<5x3xf32>
  %e = tensor.empty() : tensor<5x11xf32>
  %joined = linalg.generic {indexing_maps = [#id], iterator_types = ["parallel", "parallel"]}
      outs(%e : tensor<5x11xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %isFirst = arith.cmpi ult, %j, %c7 : index
    %0 = scf.if %isFirst -> (f32) {
      %a = tensor.extract %x[%i, %j] : tensor<5x7xf32>
      scf.yield %a : f32
    } else {
      %isSecond = arith.cmpi ult, %j, %c10 : index
      %1 = scf.if %isSecond -> (f32) {
        %k = arith.subi %j, %c7 : index
        %a = tensor.extract %w[%i, %k] : tensor<5x3xf32>
        scf.yield %a : f32
      } else {
        %k = arith.subi %j, %c10 : index
        %a = tensor.extract %z[%i, %k] : tensor<5x1xf32>
        scf.yield %a : f32
      }
      scf.yield %1 : f32
    }
    linalg.yield %0 : f32
  } -> tensor<5x11xf32>

  // Elements of the first tensor at every second index, shifted by one, and zeros
  // in between. The divisor is zero where the branch is not taken.
  %e1 = tensor.empty() : tensor<5x3xf32>
  %spread = linalg.generic {indexing_maps = [#id, #id], iterator_types = ["parallel", "parallel"]}
      ins(%y : tensor<5x3xf32>) outs(%e1 : tensor<5x3xf32>) {
  ^bb0(%a: f32, %o: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %isIn = arith.cmpi sgt, %i, %c0 : index
    %0 = scf.if %isIn -> (f32) {
      %before = arith.subi %i, %c2 : index
      %k = arith.divsi %c5, %i : index
      %2 = arith.cmpi sge, %before, %c0 : index
      %1 = scf.if %2 -> (f32) {
        %b = tensor.extract %x[%before, %k] : tensor<5x7xf32>
        scf.yield %b : f32
      } else {
        scf.yield %a : f32
      }
      scf.yield %1 : f32
    } else {
      scf.yield %zero : f32
    }
    linalg.yield %0 : f32
  } -> tensor<5x3xf32>

  // A sum over the elements that the branches read.
  %e2 = tensor.empty() : tensor<5xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%e2 : tensor<5xf32>) -> tensor<5xf32>
  %sums = linalg.generic {indexing_maps = [#id, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]}
      ins(%x : tensor<5x7xf32>) outs(%zeros : tensor<5xf32>) {
  ^bb0(%a: f32, %sum: f32):
    %i = linalg.index 0 : index
    %j = linalg.index 1 : index
    %isIn = arith.cmpi ult, %j, %c3 : index
    %0 = scf.if %isIn -> (f32) {
      %b = tensor.extract %y[%i, %j] : tensor<5x3xf32>
      %1 = arith.mulf %a, %b : f32
      scf.yield %1 : f32
    } else {
      scf.yield %a : f32
    }
    %2 = arith.addf %sum, %0 : f32
    linalg.yield %2 : f32
  } -> tensor<5xf32>
  return %joined, %spread, %sums : tensor<5x11xf32>, tensor<5x3xf32>, tensor<5xf32>
}
