// A training step that JAX made, by way of StableHLO. The batch is over "x" and
// the hidden features over "y". Means over the batch come before the last layer
// and in the loss, which counts the samples that have labels.
//
//   h = tanh(x w1 - mean(x w1))
//   loss = sum(counts * (h w2 - y)^2) / sum(counts)
//   w = w - 0.1 * gradient of w
#map = affine_map<(d0, d1, d2, d3) -> (d0, d1, d3)>
#map1 = affine_map<(d0, d1, d2, d3) -> (d3, d2)>
#map2 = affine_map<(d0, d1, d2, d3) -> (d0, d1, d2)>
#map3 = affine_map<(d0, d1, d2) -> (d1, d2, d0)>
#map4 = affine_map<(d0, d1, d2) -> (d0)>
#map5 = affine_map<(d0) -> ()>
#map6 = affine_map<(d0) -> (d0)>
#map7 = affine_map<(d0, d1, d2) -> (d2)>
#map8 = affine_map<(d0, d1, d2) -> (d0, d1, d2)>
#map9 = affine_map<(d0, d1, d2) -> (0, 0, d2)>
#map10 = affine_map<(d0, d1, d2) -> ()>
#map11 = affine_map<(d0, d1) -> ()>
#map12 = affine_map<(d0, d1) -> (d0, d1)>
#map13 = affine_map<(d0, d1, d2) -> (d0, d1)>
#map14 = affine_map<() -> ()>
#map15 = affine_map<(d0, d1, d2, d3) -> (d2, d3, d0)>
#map16 = affine_map<(d0, d1, d2, d3) -> (d2, d3, d1)>
#map17 = affine_map<(d0, d1, d2, d3) -> (d0, d1)>
#map18 = affine_map<(d0, d1) -> (d1, d0)>
#map19 = affine_map<(d0, d1, d2, d3) -> (d2, d3)>
module @jit_step {
  heddle.mesh @mesh <["x"=2, "y"=2]>
  func.func public @main(
      %arg0: tensor<8x3x10xf32> {heddle.name = "x", heddle.role = #heddle.port_role<features>, heddle.sharding = #heddle.sharding<@mesh, [{"x"}, {}, {}]>},
      %arg1: tensor<8x3x7xf32> {heddle.name = "y", heddle.role = #heddle.port_role<labels>},
      %arg2: tensor<10x14xf32> {heddle.name = "w1", heddle.sharding = #heddle.sharding<@mesh, [{}, {"y"}]>},
      %arg3: tensor<14x7xf32> {heddle.name = "w2"})
      -> (tensor<f32> {heddle.name = "loss"}, tensor<10x14xf32> {heddle.name = "new_w1"}, tensor<14x7xf32> {heddle.name = "new_w2"}) {
    %cst = arith.constant 1.000000e+00 : f32
    %cst_0 = arith.constant 0.000000e+00 : f32
    %cst_1 = arith.constant dense<1.000000e-01> : tensor<f32>
    %cst_2 = arith.constant dense<2.000000e+00> : tensor<f32>
    %cst_3 = arith.constant dense<-5.000000e-01> : tensor<f32>
    %cst_4 = arith.constant dense<1.000000e+00> : tensor<f32>
    %cst_5 = arith.constant dense<2.400000e+01> : tensor<f32>
    %0 = tensor.empty() : tensor<8x3x14xf32>
    %1 = linalg.fill ins(%cst_0 : f32) outs(%0 : tensor<8x3x14xf32>) -> tensor<8x3x14xf32>
    %2 = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%arg0, %arg2 : tensor<8x3x10xf32>, tensor<10x14xf32>) outs(%1 : tensor<8x3x14xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.mulf %in, %in_6 : f32
      %67 = arith.addf %out, %66 : f32
      linalg.yield %67 : f32
    } -> tensor<8x3x14xf32>
    %3 = tensor.empty() : tensor<14xf32>
    %4 = linalg.fill ins(%cst_0 : f32) outs(%3 : tensor<14xf32>) -> tensor<14xf32>
    %5 = linalg.generic {indexing_maps = [#map3, #map4], iterator_types = ["parallel", "reduction", "reduction"]} ins(%2 : tensor<8x3x14xf32>) outs(%4 : tensor<14xf32>) {
    ^bb0(%in: f32, %out: f32):
      %66 = arith.addf %out, %in : f32
      linalg.yield %66 : f32
    } -> tensor<14xf32>
    %6 = linalg.generic {indexing_maps = [#map5, #map6], iterator_types = ["parallel"]} ins(%cst_5 : tensor<f32>) outs(%3 : tensor<14xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<14xf32>
    %7 = linalg.generic {indexing_maps = [#map6, #map6, #map6], iterator_types = ["parallel"]} ins(%5, %6 : tensor<14xf32>, tensor<14xf32>) outs(%3 : tensor<14xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.divf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<14xf32>
    %8 = tensor.empty() : tensor<1x1x14xf32>
    %9 = linalg.generic {indexing_maps = [#map7, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%7 : tensor<14xf32>) outs(%8 : tensor<1x1x14xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<1x1x14xf32>
    %10 = linalg.generic {indexing_maps = [#map9, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%9 : tensor<1x1x14xf32>) outs(%0 : tensor<8x3x14xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<8x3x14xf32>
    %11 = linalg.generic {indexing_maps = [#map8, #map8, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%2, %10 : tensor<8x3x14xf32>, tensor<8x3x14xf32>) outs(%0 : tensor<8x3x14xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.subf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<8x3x14xf32>
    %12 = linalg.generic {indexing_maps = [#map8, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%11 : tensor<8x3x14xf32>) outs(%0 : tensor<8x3x14xf32>) {
    ^bb0(%in: f32, %out: f32):
      %66 = math.tanh %in : f32
      linalg.yield %66 : f32
    } -> tensor<8x3x14xf32>
    %13 = linalg.generic {indexing_maps = [#map10, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_4 : tensor<f32>) outs(%0 : tensor<8x3x14xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<8x3x14xf32>
    %14 = linalg.generic {indexing_maps = [#map8, #map8, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%13, %12 : tensor<8x3x14xf32>, tensor<8x3x14xf32>) outs(%0 : tensor<8x3x14xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.subf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<8x3x14xf32>
    %15 = tensor.empty() : tensor<8x3x7xf32>
    %16 = linalg.fill ins(%cst_0 : f32) outs(%15 : tensor<8x3x7xf32>) -> tensor<8x3x7xf32>
    %17 = linalg.generic {indexing_maps = [#map, #map1, #map2], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%12, %arg3 : tensor<8x3x14xf32>, tensor<14x7xf32>) outs(%16 : tensor<8x3x7xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.mulf %in, %in_6 : f32
      %67 = arith.addf %out, %66 : f32
      linalg.yield %67 : f32
    } -> tensor<8x3x7xf32>
    %extracted_slice = tensor.extract_slice %arg1[0, 0, 0] [8, 3, 1] [1, 1, 1] : tensor<8x3x7xf32> to tensor<8x3x1xf32>
    %collapsed = tensor.collapse_shape %extracted_slice [[0], [1, 2]] : tensor<8x3x1xf32> into tensor<8x3xf32>
    %18 = tensor.empty() : tensor<8x3xf32>
    %19 = linalg.generic {indexing_maps = [#map11, #map12], iterator_types = ["parallel", "parallel"]} ins(%cst_3 : tensor<f32>) outs(%18 : tensor<8x3xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<8x3xf32>
    %20 = tensor.empty() : tensor<8x3xi1>
    %21 = linalg.generic {indexing_maps = [#map12, #map12, #map12], iterator_types = ["parallel", "parallel"]} ins(%collapsed, %19 : tensor<8x3xf32>, tensor<8x3xf32>) outs(%20 : tensor<8x3xi1>) {
    ^bb0(%in: f32, %in_6: f32, %out: i1):
      %66 = arith.cmpf ogt, %in, %in_6 : f32
      linalg.yield %66 : i1
    } -> tensor<8x3xi1>
    %22 = linalg.generic {indexing_maps = [#map12, #map12], iterator_types = ["parallel", "parallel"]} ins(%21 : tensor<8x3xi1>) outs(%18 : tensor<8x3xf32>) {
    ^bb0(%in: i1, %out: f32):
      %66 = arith.uitofp %in : i1 to f32
      linalg.yield %66 : f32
    } -> tensor<8x3xf32>
    %23 = linalg.generic {indexing_maps = [#map8, #map8, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%17, %arg1 : tensor<8x3x7xf32>, tensor<8x3x7xf32>) outs(%15 : tensor<8x3x7xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.subf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<8x3x7xf32>
    %24 = linalg.generic {indexing_maps = [#map8, #map8, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%23, %23 : tensor<8x3x7xf32>, tensor<8x3x7xf32>) outs(%15 : tensor<8x3x7xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.mulf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<8x3x7xf32>
    %25 = linalg.generic {indexing_maps = [#map10, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%cst_2 : tensor<f32>) outs(%15 : tensor<8x3x7xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<8x3x7xf32>
    %26 = linalg.generic {indexing_maps = [#map8, #map8, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%25, %23 : tensor<8x3x7xf32>, tensor<8x3x7xf32>) outs(%15 : tensor<8x3x7xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.mulf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<8x3x7xf32>
    %27 = linalg.fill ins(%cst_0 : f32) outs(%18 : tensor<8x3xf32>) -> tensor<8x3xf32>
    %28 = linalg.generic {indexing_maps = [#map8, #map13], iterator_types = ["parallel", "parallel", "reduction"]} ins(%24 : tensor<8x3x7xf32>) outs(%27 : tensor<8x3xf32>) {
    ^bb0(%in: f32, %out: f32):
      %66 = arith.addf %out, %in : f32
      linalg.yield %66 : f32
    } -> tensor<8x3xf32>
    %29 = linalg.generic {indexing_maps = [#map12, #map12, #map12], iterator_types = ["parallel", "parallel"]} ins(%28, %22 : tensor<8x3xf32>, tensor<8x3xf32>) outs(%18 : tensor<8x3xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.mulf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<8x3xf32>
    %30 = tensor.empty() : tensor<f32>
    %31 = linalg.fill ins(%cst_0 : f32) outs(%30 : tensor<f32>) -> tensor<f32>
    %32 = linalg.generic {indexing_maps = [#map12, #map11], iterator_types = ["reduction", "reduction"]} ins(%29 : tensor<8x3xf32>) outs(%31 : tensor<f32>) {
    ^bb0(%in: f32, %out: f32):
      %66 = arith.addf %out, %in : f32
      linalg.yield %66 : f32
    } -> tensor<f32>
    %33 = linalg.generic {indexing_maps = [#map12, #map11], iterator_types = ["reduction", "reduction"]} ins(%22 : tensor<8x3xf32>) outs(%31 : tensor<f32>) {
    ^bb0(%in: f32, %out: f32):
      %66 = arith.addf %out, %in : f32
      linalg.yield %66 : f32
    } -> tensor<f32>
    %34 = linalg.generic {indexing_maps = [#map14, #map14, #map14], iterator_types = []} ins(%32, %33 : tensor<f32>, tensor<f32>) outs(%30 : tensor<f32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.divf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<f32>
    %35 = linalg.generic {indexing_maps = [#map14, #map14], iterator_types = []} ins(%33 : tensor<f32>) outs(%30 : tensor<f32>) {
    ^bb0(%in: f32, %out: f32):
      %66 = arith.divf %cst, %in : f32
      linalg.yield %66 : f32
    } -> tensor<f32>
    %36 = linalg.generic {indexing_maps = [#map11, #map12], iterator_types = ["parallel", "parallel"]} ins(%35 : tensor<f32>) outs(%18 : tensor<8x3xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<8x3xf32>
    %37 = linalg.generic {indexing_maps = [#map12, #map12, #map12], iterator_types = ["parallel", "parallel"]} ins(%36, %22 : tensor<8x3xf32>, tensor<8x3xf32>) outs(%18 : tensor<8x3xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.mulf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<8x3xf32>
    %38 = linalg.generic {indexing_maps = [#map13, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%37 : tensor<8x3xf32>) outs(%15 : tensor<8x3x7xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<8x3x7xf32>
    %39 = linalg.generic {indexing_maps = [#map8, #map8, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%38, %26 : tensor<8x3x7xf32>, tensor<8x3x7xf32>) outs(%15 : tensor<8x3x7xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.mulf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<8x3x7xf32>
    %40 = tensor.empty() : tensor<7x14xf32>
    %41 = linalg.fill ins(%cst_0 : f32) outs(%40 : tensor<7x14xf32>) -> tensor<7x14xf32>
    %42 = linalg.generic {indexing_maps = [#map15, #map16, #map17], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%39, %12 : tensor<8x3x7xf32>, tensor<8x3x14xf32>) outs(%41 : tensor<7x14xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.mulf %in, %in_6 : f32
      %67 = arith.addf %out, %66 : f32
      linalg.yield %67 : f32
    } -> tensor<7x14xf32>
    %43 = tensor.empty() : tensor<14x7xf32>
    %44 = linalg.generic {indexing_maps = [#map18, #map12], iterator_types = ["parallel", "parallel"]} ins(%42 : tensor<7x14xf32>) outs(%43 : tensor<14x7xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<14x7xf32>
    %45 = linalg.generic {indexing_maps = [#map, #map19, #map2], iterator_types = ["parallel", "parallel", "parallel", "reduction"]} ins(%39, %arg3 : tensor<8x3x7xf32>, tensor<14x7xf32>) outs(%1 : tensor<8x3x14xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.mulf %in, %in_6 : f32
      %67 = arith.addf %out, %66 : f32
      linalg.yield %67 : f32
    } -> tensor<8x3x14xf32>
    %46 = linalg.generic {indexing_maps = [#map8, #map8, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%45, %14 : tensor<8x3x14xf32>, tensor<8x3x14xf32>) outs(%0 : tensor<8x3x14xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.mulf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<8x3x14xf32>
    %47 = linalg.generic {indexing_maps = [#map8, #map8, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%46, %12 : tensor<8x3x14xf32>, tensor<8x3x14xf32>) outs(%0 : tensor<8x3x14xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.mulf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<8x3x14xf32>
    %48 = linalg.generic {indexing_maps = [#map8, #map8, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%46, %47 : tensor<8x3x14xf32>, tensor<8x3x14xf32>) outs(%0 : tensor<8x3x14xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.addf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<8x3x14xf32>
    %49 = linalg.generic {indexing_maps = [#map8, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%48 : tensor<8x3x14xf32>) outs(%0 : tensor<8x3x14xf32>) {
    ^bb0(%in: f32, %out: f32):
      %66 = arith.negf %in : f32
      linalg.yield %66 : f32
    } -> tensor<8x3x14xf32>
    %50 = linalg.generic {indexing_maps = [#map3, #map4], iterator_types = ["parallel", "reduction", "reduction"]} ins(%49 : tensor<8x3x14xf32>) outs(%4 : tensor<14xf32>) {
    ^bb0(%in: f32, %out: f32):
      %66 = arith.addf %out, %in : f32
      linalg.yield %66 : f32
    } -> tensor<14xf32>
    %expanded = tensor.expand_shape %50 [[0, 1, 2]] output_shape [1, 1, 14] : tensor<14xf32> into tensor<1x1x14xf32>
    %51 = linalg.generic {indexing_maps = [#map3, #map4], iterator_types = ["parallel", "reduction", "reduction"]} ins(%expanded : tensor<1x1x14xf32>) outs(%4 : tensor<14xf32>) {
    ^bb0(%in: f32, %out: f32):
      %66 = arith.addf %out, %in : f32
      linalg.yield %66 : f32
    } -> tensor<14xf32>
    %52 = linalg.generic {indexing_maps = [#map6, #map6, #map6], iterator_types = ["parallel"]} ins(%51, %6 : tensor<14xf32>, tensor<14xf32>) outs(%3 : tensor<14xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.divf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<14xf32>
    %53 = linalg.generic {indexing_maps = [#map7, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%52 : tensor<14xf32>) outs(%0 : tensor<8x3x14xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<8x3x14xf32>
    %54 = linalg.generic {indexing_maps = [#map8, #map8, #map8], iterator_types = ["parallel", "parallel", "parallel"]} ins(%48, %53 : tensor<8x3x14xf32>, tensor<8x3x14xf32>) outs(%0 : tensor<8x3x14xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.addf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<8x3x14xf32>
    %55 = tensor.empty() : tensor<14x10xf32>
    %56 = linalg.fill ins(%cst_0 : f32) outs(%55 : tensor<14x10xf32>) -> tensor<14x10xf32>
    %57 = linalg.generic {indexing_maps = [#map15, #map16, #map17], iterator_types = ["parallel", "parallel", "reduction", "reduction"]} ins(%54, %arg0 : tensor<8x3x14xf32>, tensor<8x3x10xf32>) outs(%56 : tensor<14x10xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.mulf %in, %in_6 : f32
      %67 = arith.addf %out, %66 : f32
      linalg.yield %67 : f32
    } -> tensor<14x10xf32>
    %58 = tensor.empty() : tensor<10x14xf32>
    %59 = linalg.generic {indexing_maps = [#map18, #map12], iterator_types = ["parallel", "parallel"]} ins(%57 : tensor<14x10xf32>) outs(%58 : tensor<10x14xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<10x14xf32>
    %60 = linalg.generic {indexing_maps = [#map11, #map12], iterator_types = ["parallel", "parallel"]} ins(%cst_1 : tensor<f32>) outs(%58 : tensor<10x14xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<10x14xf32>
    %61 = linalg.generic {indexing_maps = [#map12, #map12, #map12], iterator_types = ["parallel", "parallel"]} ins(%60, %59 : tensor<10x14xf32>, tensor<10x14xf32>) outs(%58 : tensor<10x14xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.mulf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<10x14xf32>
    %62 = linalg.generic {indexing_maps = [#map12, #map12, #map12], iterator_types = ["parallel", "parallel"]} ins(%arg2, %61 : tensor<10x14xf32>, tensor<10x14xf32>) outs(%58 : tensor<10x14xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.subf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<10x14xf32>
    %63 = linalg.generic {indexing_maps = [#map11, #map12], iterator_types = ["parallel", "parallel"]} ins(%cst_1 : tensor<f32>) outs(%43 : tensor<14x7xf32>) {
    ^bb0(%in: f32, %out: f32):
      linalg.yield %in : f32
    } -> tensor<14x7xf32>
    %64 = linalg.generic {indexing_maps = [#map12, #map12, #map12], iterator_types = ["parallel", "parallel"]} ins(%63, %44 : tensor<14x7xf32>, tensor<14x7xf32>) outs(%43 : tensor<14x7xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.mulf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<14x7xf32>
    %65 = linalg.generic {indexing_maps = [#map12, #map12, #map12], iterator_types = ["parallel", "parallel"]} ins(%arg3, %64 : tensor<14x7xf32>, tensor<14x7xf32>) outs(%43 : tensor<14x7xf32>) {
    ^bb0(%in: f32, %in_6: f32, %out: f32):
      %66 = arith.subf %in, %in_6 : f32
      linalg.yield %66 : f32
    } -> tensor<14x7xf32>
    return %34, %62, %65 : tensor<f32>, tensor<10x14xf32>, tensor<14x7xf32>
  }
}
