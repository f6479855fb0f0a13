// Loops with computed bounds, with slices and elements at computed offsets, and
// a loop whose bounds allow no iteration.
heddle.mesh @mesh <["x"=2, "y"=2]>
func.func @main(
    %x: tensor<7x6xf32> {heddle.name = "x", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {"y"}]>})
    -> (tensor<6xf32> {heddle.name = "sum"}, tensor<7x6xf32> {heddle.name = "scanned"},
        tensor<7xf32> {heddle.name = "diagonal"}, tensor<4x6xf32> {heddle.name = "positions"},
        tensor<7x6xf32> {heddle.name = "empty"}, index {heddle.name = "end"}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c4 = arith.constant 4 : index
  %c6 = arith.constant 6 : index
  %zero = arith.constant 0.0 : f32
  %e6 = tensor.empty() : tensor<6xf32>
  %z6 = linalg.fill ins(%zero : f32) outs(%e6 : tensor<6xf32>) -> tensor<6xf32>
  %e7 = tensor.empty() : tensor<7xf32>
  %z7 = linalg.fill ins(%zero : f32) outs(%e7 : tensor<7xf32>) -> tensor<7xf32>
  // An element's sign decides whether the loop ends at 5 or 6.
  %first = tensor.extract %x[%c0, %c1] : tensor<7x6xf32>
  %isPositive = arith.cmpf ogt, %first, %zero : f32
  %sign = arith.extui %isPositive : i1 to i32
  %five = arith.constant 5 : i32
  %last = arith.addi %sign, %five : i32
  %end = arith.index_cast %last : i32 to index

  %sum = scf.for %i = %c1 to %end step %c2 iter_args(%s = %z6) -> tensor<6xf32> {
    %row = tensor.extract_slice %x[%i, 0] [1, 6] [1, 1] : tensor<7x6xf32> to tensor<6xf32>
    %0 = arith.addf %s, %row : tensor<6xf32>
    scf.yield %0 : tensor<6xf32>
  }
  // Each row becomes the sum of itself and all rows before it.
  %scanned = scf.for %i = %c1 to %end step %c1 iter_args(%s = %x) -> tensor<7x6xf32> {
    %before = arith.subi %i, %c1 : index
    %a = tensor.extract_slice %s[%before, 0] [1, 6] [1, 1] : tensor<7x6xf32> to tensor<1x6xf32>
    %b = tensor.extract_slice %s[%i, 0] [1, 6] [1, 1] : tensor<7x6xf32> to tensor<1x6xf32>
    %0 = arith.addf %a, %b : tensor<1x6xf32>
    %1 = tensor.insert_slice %0 into %s[%i, 0] [1, 6] [1, 1] : tensor<1x6xf32> into tensor<7x6xf32>
    scf.yield %1 : tensor<7x6xf32>
  }
  %diagonal = scf.for %i = %c0 to %end step %c1 iter_args(%d = %z7) -> tensor<7xf32> {
    %element = tensor.extract %x[%i, %i] : tensor<7x6xf32>
    %0 = tensor.insert %element into %d[%i] : tensor<7xf32>
    scf.yield %0 : tensor<7xf32>
  }
  %e46 = tensor.empty() : tensor<4x6xf32>
  %z46 = linalg.fill ins(%zero : f32) outs(%e46 : tensor<4x6xf32>) -> tensor<4x6xf32>
  %positions = scf.for %i = %c0 to %end step %c1 iter_args(%p = %z46) -> tensor<4x6xf32> {
    %made = tensor.generate {
    ^bb0(%row: index, %column: index):
      %0 = arith.muli %row, %i : index
      %1 = arith.addi %0, %column : index
      %2 = arith.index_cast %1 : index to i32
      %3 = arith.sitofp %2 : i32 to f32
      %4 = arith.mulf %3, %first : f32
      tensor.yield %4 : f32
    } : tensor<4x6xf32>
    %0 = linalg.generic {indexing_maps = [affine_map<(i, j) -> (i, j)>, affine_map<(i, j) -> (i, j)>], iterator_types = ["parallel", "parallel"]} ins(%made : tensor<4x6xf32>) outs(%p : tensor<4x6xf32>) {
    ^bb0(%a: f32, %o: f32):
      %1 = linalg.index 0 : index
      %2 = arith.cmpi ule, %1, %i : index
      %3 = arith.select %2, %a, %zero : f32
      %4 = arith.addf %3, %o : f32
      linalg.yield %4 : f32
    } -> tensor<4x6xf32>
    scf.yield %0 : tensor<4x6xf32>
  }
  %empty = scf.for %i = %end to %c4 step %c1 iter_args(%s = %x) -> tensor<7x6xf32> {
    %0 = arith.addf %s, %s : tensor<7x6xf32>
    scf.yield %0 : tensor<7x6xf32>
  }
  return %sum, %scanned, %diagonal, %positions, %empty, %end : tensor<6xf32>, tensor<7x6xf32>, tensor<7xf32>, tensor<4x6xf32>, tensor<7x6xf32>, index
}
