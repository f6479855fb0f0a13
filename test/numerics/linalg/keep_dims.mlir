// A normalized linear layer as exporters write it: sums keep their dimension with
// size 1, the weight is transposed and repeated along the batch before its
// product, and halves of the result gate each other. The mesh does not divide 5
// and 6.
heddle.mesh @mesh <["x"=2, "y"=2]>

func.func @main(
    %input: tensor<5x6x16xf32> {heddle.name = "input", heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}, {"y"}]>},
    %weight: tensor<12x16xf32> {heddle.name = "weight", heddle.sharding = #heddle.sharding<@mesh, [{"y"}, {}]>},
    %largest: tensor<5x6x1xf32> {heddle.name = "largest"})
    -> (tensor<5x6x12xf32> {heddle.name = "output"}, tensor<5x6x1xf32> {heddle.name = "bound"}) {
  %zero = arith.constant 0.0 : f32
  %size = arith.constant 16.0 : f32
  %e = tensor.empty() : tensor<5x6x16xf32>
  %kept = tensor.empty() : tensor<5x6x1xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%kept : tensor<5x6x1xf32>) -> tensor<5x6x1xf32>
  %sum = linalg.generic {
      indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, 0)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%input : tensor<5x6x16xf32>) outs(%zeros : tensor<5x6x1xf32>) {
  ^bb0(%x: f32, %o: f32):
    %0 = arith.mulf %x, %x : f32
    %1 = arith.addf %0, %o : f32
    linalg.yield %1 : f32
  } -> tensor<5x6x1xf32>
  %mean = linalg.generic {
      indexing_maps = [affine_map<(i, j, k) -> (i, j, 0)>, affine_map<(i, j, k) -> (i, j, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%sum : tensor<5x6x1xf32>) outs(%kept : tensor<5x6x1xf32>) {
  ^bb0(%x: f32, %o: f32):
    %0 = arith.divf %x, %size : f32
    %1 = math.rsqrt %0 : f32
    linalg.yield %1 : f32
  } -> tensor<5x6x1xf32>
  %normal = linalg.generic {
      indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, 0)>, affine_map<(i, j, k) -> (i, j, k)>],
      iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%input, %mean : tensor<5x6x16xf32>, tensor<5x6x1xf32>) outs(%e : tensor<5x6x16xf32>) {
  ^bb0(%x: f32, %m: f32, %o: f32):
    %0 = arith.mulf %x, %m : f32
    linalg.yield %0 : f32
  } -> tensor<5x6x16xf32>
  // The sum starts from an argument.
  %bound = linalg.generic {
      indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, 0)>],
      iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%normal : tensor<5x6x16xf32>) outs(%largest : tensor<5x6x1xf32>) {
  ^bb0(%x: f32, %o: f32):
    %0 = arith.maximumf %x, %o : f32
    linalg.yield %0 : f32
  } -> tensor<5x6x1xf32>
  %t = tensor.empty() : tensor<16x12xf32>
  %transposed = linalg.transpose ins(%weight : tensor<12x16xf32>) outs(%t : tensor<16x12xf32>) permutation = [1, 0]
  %r = tensor.empty() : tensor<5x16x12xf32>
  %repeated = linalg.broadcast ins(%transposed : tensor<16x12xf32>) outs(%r : tensor<5x16x12xf32>) dimensions = [0]
  %p = tensor.empty() : tensor<5x6x12xf32>
  %start = linalg.fill ins(%zero : f32) outs(%p : tensor<5x6x12xf32>) -> tensor<5x6x12xf32>
  %product = linalg.batch_matmul ins(%normal, %repeated : tensor<5x6x16xf32>, tensor<5x16x12xf32>)
      outs(%start : tensor<5x6x12xf32>) -> tensor<5x6x12xf32>
  %gate = tensor.extract_slice %product[0, 0, 0] [5, 6, 6] [1, 1, 1] : tensor<5x6x12xf32> to tensor<5x6x6xf32>
  %value = tensor.extract_slice %product[0, 0, 6] [5, 6, 6] [1, 1, 1] : tensor<5x6x12xf32> to tensor<5x6x6xf32>
  %gated = arith.mulf %gate, %value : tensor<5x6x6xf32>
  %output = tensor.concat dim(2) %gated, %gate : (tensor<5x6x6xf32>, tensor<5x6x6xf32>) -> tensor<5x6x12xf32>
  return %output, %bound : tensor<5x6x12xf32>, tensor<5x6x1xf32>
}
