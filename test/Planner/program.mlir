// A plan cannot speak of a program of other dialects whose operators have no
// names.
// RUN: not heddle plan %s --cluster laptop-cpu --devices 4 --quiet 2>&1 | FileCheck %s
// CHECK: heddle: error: no candidate can be compiled; --mesh dp={{.*}}: a plan names the operators that it splits, and this program's have no names

// Its stages would run one after the other, so it becomes no pipeline.
// RUN: not heddle plan %s --cluster laptop-cpu --devices 2 --pin pp=2 --quiet 2>&1 | FileCheck %s --check-prefix=PP
// PP: pp=2 cuts a model's training step into stages, and this program is none

// On one device there is nothing to split.
// RUN: heddle plan %s --cluster laptop-cpu --devices 1 --quiet -o %t.json | FileCheck %s --check-prefix=ONE
// ONE: plan: --mesh dp=1
// RUN: heddle compile %s --plan %t.json -o %t.heddle

// The plan says of how many rows it is, and so does the program.
// RUN: heddle explain %t.json %s --cluster laptop-cpu | FileCheck %s --check-prefix=EXPLAIN
// EXPLAIN: simulated on 1 device

func.func @main(%x: tensor<512x512xf32>, %w: tensor<512x2048xf32>,
                %v: tensor<2048x512xf32>) -> tensor<512x512xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<512x2048xf32>
  %f0 = linalg.fill ins(%zero : f32) outs(%e0 : tensor<512x2048xf32>) -> tensor<512x2048xf32>
  %y = linalg.matmul ins(%x, %w : tensor<512x512xf32>, tensor<512x2048xf32>)
      outs(%f0 : tensor<512x2048xf32>) -> tensor<512x2048xf32>
  %t = math.tanh %y : tensor<512x2048xf32>
  %e1 = tensor.empty() : tensor<512x512xf32>
  %f1 = linalg.fill ins(%zero : f32) outs(%e1 : tensor<512x512xf32>) -> tensor<512x512xf32>
  %z = linalg.matmul ins(%t, %v : tensor<512x2048xf32>, tensor<2048x512xf32>)
      outs(%f1 : tensor<512x512xf32>) -> tensor<512x512xf32>
  return %z : tensor<512x512xf32>
}
