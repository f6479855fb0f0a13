// RUN: heddle-opt %s --heddle-lower-kernels | FileCheck %s

// CHECK: #[[$GROUP:.*]] = #llvm.access_group
// CHECK: #[[$PARALLEL:.*]] = #llvm.loop_annotation<{{.*}}parallelAccesses = #[[$GROUP]]
// CHECK-LABEL: llvm.func @scale(
// CHECK-SAME: %[[BUFFERS:.*]]: !llvm.ptr, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64)
// CHECK-SAME: heddle.blocks = 1 : i64
// CHECK-SAME: passthrough = {{\[\[}}"prefer-vector-width", "512"]]
// CHECK-SAME: rt.work = #rt.work<flops = 50, bytes = 400>
// The arguments: the coordinates, then the operand, then the result.
// CHECK: llvm.getelementptr inbounds %[[BUFFERS]][1]
// CHECK: llvm.getelementptr inbounds %[[BUFFERS]][2]
// CHECK: llvm.load {{.*}} {access_groups = [#[[$GROUP]]]}
// CHECK: llvm.fmul %{{[a-z0-9]+}}, %{{[a-z0-9]+}} : f32
// CHECK: llvm.store {{.*}} {access_groups = [#[[$GROUP]]]}
// CHECK: loop_annotation = #[[$PARALLEL]]
func.func private @scale(%x: tensor<50xf32>) -> tensor<50xf32> attributes {heddle.kernel, heddle.row_dims = 1 : i64} {
  %e = tensor.empty() : tensor<50xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<50xf32>) outs(%e : tensor<50xf32>) {
  ^bb0(%in: f32, %out: f32):
    %c = arith.constant 3.0 : f32
    %m = arith.mulf %in, %c : f32
    linalg.yield %m : f32
  } -> tensor<50xf32>
  return %y : tensor<50xf32>
}

// No heap and no call: a row that is needed twice lies on the stack.
// An exponential counts as ten FLOPs; values in between move no bytes.
// CHECK-LABEL: llvm.func @softmax
// CHECK-SAME: rt.work = #rt.work<flops = 5400, bytes = 1800>
// Only the addition to the sum may be reordered.
// CHECK: llvm.alloca
// CHECK-NOT: llvm.call @
// CHECK: llvm.fadd {{.*}} {fastmathFlags = #llvm.fastmath<nsz, contract, reassoc>}
// CHECK-NOT: fastmathFlags
// CHECK: llvm.return
func.func private @softmax(%x: tensor<9x50xbf16>) -> tensor<9x50xbf16> attributes {heddle.kernel, heddle.row_dims = 1 : i64} {
  %e0 = tensor.empty() : tensor<9x50xf32>
  %exps = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%x : tensor<9x50xbf16>) outs(%e0 : tensor<9x50xf32>) {
  ^bb0(%in: bf16, %out: f32):
    %w = arith.extf %in : bf16 to f32
    %m = math.exp %w : f32
    linalg.yield %m : f32
  } -> tensor<9x50xf32>
  %zero = arith.constant 0.0 : f32
  %e1 = tensor.empty() : tensor<9xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<9xf32>) -> tensor<9xf32>
  %sum = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>], iterator_types = ["parallel", "reduction"]}
      ins(%exps : tensor<9x50xf32>) outs(%f1 : tensor<9xf32>) {
  ^bb0(%in: f32, %out: f32):
    %m = arith.addf %out, %in : f32
    linalg.yield %m : f32
  } -> tensor<9xf32>
  %e2 = tensor.empty() : tensor<9x50xbf16>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%exps, %sum : tensor<9x50xf32>, tensor<9xf32>) outs(%e2 : tensor<9x50xbf16>) {
  ^bb0(%in: f32, %s: f32, %out: bf16):
    %m = arith.divf %in, %s : f32
    %t = arith.truncf %m : f32 to bf16
    linalg.yield %t : bf16
  } -> tensor<9x50xbf16>
  return %y : tensor<9x50xbf16>
}

// Polynomials exist for f32; f64 calls the C library. A captured constant of
// f16 becomes f32, as everything that the body computes.
// CHECK-LABEL: llvm.func @library
// CHECK-DAG: llvm.mlir.constant(1.500000e+00 : f32) : f32
// CHECK-DAG: llvm.call @tanh(%{{.*}}) : (f64) -> f64
// CHECK-DAG: llvm.call @sinhf(%{{.*}}) : (f32) -> f32
func.func private @library(%x: tensor<50xf64>, %y: tensor<50xf16>) -> (tensor<50xf64>, tensor<50xf16>) attributes {heddle.kernel, heddle.row_dims = 1 : i64} {
  %c = arith.constant 1.5 : f16
  %e = tensor.empty() : tensor<50xf64>
  %f = tensor.empty() : tensor<50xf16>
  %z:2 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x, %y : tensor<50xf64>, tensor<50xf16>) outs(%e, %f : tensor<50xf64>, tensor<50xf16>) {
  ^bb0(%a: f64, %b: f16, %o: f64, %p: f16):
    %t = math.tanh %a : f64
    %s = math.sinh %b : f16
    %l = arith.cmpf olt, %s, %c : f16
    %m = arith.select %l, %s, %c : f16
    linalg.yield %t, %m : f64, f16
  } -> (tensor<50xf64>, tensor<50xf16>)
  return %z#0, %z#1 : tensor<50xf64>, tensor<50xf16>
}

// Four rows of a table are read, not all of it: 4 x 8 x 4 bytes, twice, and the
// ids.
// CHECK-LABEL: llvm.func @lookup
// CHECK-SAME: rt.work = #rt.work<flops = 0, bytes = 272>
func.func private @lookup(%table: tensor<100x8xf32>, %ids: tensor<4xi32>) -> tensor<4x8xf32> attributes {heddle.kernel, heddle.row_dims = 1 : i64} {
  %e = tensor.empty() : tensor<4x8xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0)>, affine_map<(d0, d1) -> (d0, d1)>], iterator_types = ["parallel", "parallel"]}
      ins(%ids : tensor<4xi32>) outs(%e : tensor<4x8xf32>) {
  ^bb0(%id: i32, %out: f32):
    %i = arith.index_cast %id : i32 to index
    %j = linalg.index 1 : index
    %x = tensor.extract %table[%i, %j] : tensor<100x8xf32>
    linalg.yield %x : f32
  } -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// A sum with a product is one op. It may round twice on a CPU that has no
// instruction for it.
// CHECK-LABEL: llvm.func @line
// CHECK: llvm.intr.fma({{.*}}) {fastmathFlags = #llvm.fastmath<contract>}
func.func private @line(%x: tensor<50xf32>) -> tensor<50xf32> attributes {heddle.kernel, heddle.row_dims = 1 : i64} {
  %e = tensor.empty() : tensor<50xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]}
      ins(%x : tensor<50xf32>) outs(%e : tensor<50xf32>) {
  ^bb0(%in: f32, %out: f32):
    %c = arith.constant 3.0 : f32
    %m = arith.mulf %in, %c : f32
    %s = arith.addf %m, %in : f32
    linalg.yield %s : f32
  } -> tensor<50xf32>
  return %y : tensor<50xf32>
}
