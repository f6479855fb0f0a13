//===- VjpLoopsAndModelsTest.cpp - Cases of loops and ops of models -------===//

#include "VjpTest.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::test;

static const OpCase loopCases[] = {
    // h <- tanh(h * w): the weight is used by all iterations.
    {"recurrence", R"((%x: tensor<3xf32>, %w: tensor<3xf32>) -> tensor<3xf32> {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c4 = arith.constant 4 : index
      %y = scf.for %i = %c0 to %c4 step %c1 iter_args(%h = %x) -> tensor<3xf32> {
        %p = arith.mulf %h, %w : tensor<3xf32>
        %t = math.tanh %p : tensor<3xf32>
        scf.yield %t : tensor<3xf32>
      }
      return %y : tensor<3xf32>
    })"},
    // Each iteration has a slice of the weights, and fills one of the result.
    // Values are swapped, and one is carried unchanged.
    {"slices", R"((%x: tensor<2xf32>, %z: tensor<2xf32>, %w: tensor<9x2xf32>)
        -> (tensor<2xf32>, tensor<2xf32>, tensor<9x2xf32>) {
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c8 = arith.constant 8 : index
      %zero = arith.constant dense<0.0> : tensor<9x2xf32>
      %a, %b, %k, %all = scf.for %i = %c1 to %c8 step %c2
          iter_args(%p = %x, %q = %z, %v = %w, %o = %zero)
          -> (tensor<2xf32>, tensor<2xf32>, tensor<9x2xf32>, tensor<9x2xf32>) {
        %s = tensor.extract_slice %v[%i, 0] [1, 2] [1, 1]
           : tensor<9x2xf32> to tensor<2xf32>
        %t = tensor.extract_slice %w[%i, 0] [1, 2] [1, 1]
           : tensor<9x2xf32> to tensor<2xf32>
        %m = arith.mulf %p, %s : tensor<2xf32>
        %n = arith.addf %m, %t : tensor<2xf32>
        %next = tensor.insert_slice %n into %o[%i, 0] [1, 2] [1, 1]
           : tensor<2xf32> into tensor<9x2xf32>
        scf.yield %q, %n, %v, %next : tensor<2xf32>, tensor<2xf32>,
            tensor<9x2xf32>, tensor<9x2xf32>
      }
      return %a, %b, %all : tensor<2xf32>, tensor<2xf32>, tensor<9x2xf32>
    })"},
    // The induction variable is an i32, an integer tensor is carried, and only
    // the first result has a gradient.
    {"integers", R"((%x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %c3 = arith.constant 3 : i32
      %n0 = arith.constant dense<1> : tensor<2xi32>
      %y, %z, %n = scf.for %i = %c0 to %c3 step %c1
          iter_args(%h = %x, %g = %x, %m = %n0)
          -> (tensor<2xf32>, tensor<2xf32>, tensor<2xi32>) : i32 {
        %step = tensor.splat %i : tensor<2xi32>
        %f = arith.sitofp %m : tensor<2xi32> to tensor<2xf32>
        %p = arith.mulf %h, %f : tensor<2xf32>
        %r = arith.mulf %p, %p : tensor<2xf32>
        %s = arith.addi %m, %step : tensor<2xi32>
        scf.yield %r, %p, %s : tensor<2xf32>, tensor<2xf32>, tensor<2xi32>
      }
      return %y, %z : tensor<2xf32>, tensor<2xf32>
    })",
     -1, 1, 3, 1},
    {"nested", R"((%x: tensor<2xf32>, %w: tensor<3x2xf32>) -> tensor<2xf32> {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %c3 = arith.constant 3 : index
      %first = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x)
          -> tensor<2xf32> {
        %u = math.sin %h : tensor<2xf32>
        %inner = scf.for %j = %c0 to %c3 step %c1 iter_args(%g = %u)
            -> tensor<2xf32> {
          %s = tensor.extract_slice %w[%j, 0] [1, 2] [1, 1]
             : tensor<3x2xf32> to tensor<2xf32>
          %m = arith.mulf %g, %s : tensor<2xf32>
          %a = arith.addf %m, %h : tensor<2xf32>
          scf.yield %a : tensor<2xf32>
        }
        scf.yield %inner : tensor<2xf32>
      }
      %second = scf.for %i = %c0 to %c2 step %c1 iter_args(%h = %x)
          -> tensor<2xf32> {
        %m = arith.mulf %h, %first : tensor<2xf32>
        scf.yield %m : tensor<2xf32>
      }
      return %second : tensor<2xf32>
    })"},
    {"no_iterations", R"((%x: tensor<2xf32>) -> tensor<2xf32> {
      %c1 = arith.constant 1 : index
      %y = scf.for %i = %c1 to %c1 step %c1 iter_args(%h = %x)
          -> tensor<2xf32> {
        %m = arith.mulf %h, %h : tensor<2xf32>
        scf.yield %m : tensor<2xf32>
      }
      return %y : tensor<2xf32>
    })"},
};

static const OpCase modelCases[] = {
    {"barrier", R"((%x: tensor<2x3xf32>, %y: tensor<4xf32>)
        -> (tensor<2x3xf32>, tensor<4xf32>) {
      %a, %b = heddle.barrier %x, %y after %x
        : tensor<2x3xf32>, tensor<4xf32> after tensor<2x3xf32>
      %s = arith.mulf %b, %y : tensor<4xf32>
      return %a, %s : tensor<2x3xf32>, tensor<4xf32>
    })",
     2},
    {"layer_norm", R"((%x: tensor<2x3x4xf32>, %w: tensor<4xf32>,
        %b: tensor<4xf32>) -> tensor<2x3x4xf32> {
      %y, %m, %r = heddle.layer_norm %x, %w, %b epsilon(1.0e-5)
        : (tensor<2x3x4xf32>, tensor<4xf32>, tensor<4xf32>)
        -> (tensor<2x3x4xf32>, tensor<2x3xf32>, tensor<2x3xf32>)
      return %y : tensor<2x3x4xf32>
    })"},
    {"rms_norm", R"((%x: tensor<2x3x4xf32>, %w: tensor<4xf32>)
        -> tensor<2x3x4xf32> {
      %y, %r = heddle.rms_norm %x, %w epsilon(1.0e-5)
        : (tensor<2x3x4xf32>, tensor<4xf32>)
        -> (tensor<2x3x4xf32>, tensor<2x3xf32>)
      return %y : tensor<2x3x4xf32>
    })"},
    {"embedding", R"((%t: tensor<5x4xf32>, %ids: tensor<2x6xi32>)
        -> tensor<2x6x4xf32> {
      %y = heddle.embedding %t, %ids
        : tensor<5x4xf32>, tensor<2x6xi32> -> tensor<2x6x4xf32>
      return %y : tensor<2x6x4xf32>
    })",
     -1, 1, 5},
    // The table has two uses. The gradient of one use accumulates onto that of
    // the other.
    {"tied_embedding", R"((%t: tensor<5x4xf32>, %ids: tensor<2x3xi32>)
        -> tensor<2x3x5xf32> {
      %x = heddle.embedding %t, %ids
        : tensor<5x4xf32>, tensor<2x3xi32> -> tensor<2x3x4xf32>
      %y = heddle.contract [bsh, vh -> bsv] %x, %t
        : (tensor<2x3x4xf32>, tensor<5x4xf32>) -> tensor<2x3x5xf32>
      return %y : tensor<2x3x5xf32>
    })",
     -1, 1, 5},
    // Both tables get the same gradient value from the sum. The other gradient
    // of %t must be added to a copy of it, so that the gradient of %s does not
    // change.
    {"embedding_of_a_sum", R"((%s: tensor<5x4xf32>, %t: tensor<5x4xf32>,
        %ids: tensor<2x3xi32>) -> (tensor<2x3x4xf32>, tensor<5x4xf32>) {
      %u = arith.addf %s, %t : tensor<5x4xf32>
      %y = heddle.embedding %u, %ids
        : tensor<5x4xf32>, tensor<2x3xi32> -> tensor<2x3x4xf32>
      %z = arith.mulf %t, %t : tensor<5x4xf32>
      return %y, %z : tensor<2x3x4xf32>, tensor<5x4xf32>
    })",
     -1, 1, 5},
    {"cross_entropy", R"((%x: tensor<2x3x4xf32>, %t: tensor<2x3xi32>)
        -> (tensor<2x3xf32>, tensor<2x3xf32>) {
      %loss, %lse = heddle.cross_entropy %x, %t
        : tensor<2x3x4xf32>, tensor<2x3xi32> -> tensor<2x3xf32>, tensor<2x3xf32>
      return %loss, %lse : tensor<2x3xf32>, tensor<2x3xf32>
    })"},
    {"cross_entropy_ignored", R"((%x: tensor<2x3x4xf32>, %t: tensor<2x3xi32>)
        -> tensor<2x3xf32> {
      %loss, %lse = heddle.cross_entropy %x, %t ignore(1)
        : tensor<2x3x4xf32>, tensor<2x3xi32> -> tensor<2x3xf32>, tensor<2x3xf32>
      return %loss : tensor<2x3xf32>
    })"},
    {"logsumexp", R"((%x: tensor<2x3x4xf32>) -> tensor<2x3xf32> {
      %y = heddle.logsumexp %x : tensor<2x3x4xf32> -> tensor<2x3xf32>
      return %y : tensor<2x3xf32>
    })"},
    {"reduce_sum", R"((%x: tensor<2x3x4xf32>) -> tensor<3xf32> {
      %y = heddle.reduce sum %x over [0, 2] : tensor<2x3x4xf32> -> tensor<3xf32>
      return %y : tensor<3xf32>
    })"},
    {"reduce_max", R"((%x: tensor<2x3x4xf32>) -> tensor<3xf32> {
      %y = heddle.reduce max %x over [0, 2] : tensor<2x3x4xf32> -> tensor<3xf32>
      return %y : tensor<3xf32>
    })"},
    {"reduce_sum_wide", R"((%x: tensor<2x3xbf16>) -> tensor<f32> {
      %y = heddle.reduce sum %x over [0, 1] : tensor<2x3xbf16> -> tensor<f32>
      return %y : tensor<f32>
    })"},
    {"broadcast", R"((%x: tensor<3xf32>) -> tensor<2x3x4xf32> {
      %y = heddle.broadcast %x along [1] : tensor<3xf32> -> tensor<2x3x4xf32>
      return %y : tensor<2x3x4xf32>
    })"},
    {"broadcast_of_a_scalar", R"((%x: tensor<f32>) -> tensor<2x3xf32> {
      %y = heddle.broadcast %x along [] : tensor<f32> -> tensor<2x3xf32>
      return %y : tensor<2x3xf32>
    })"},
    {"broadcast_of_everything", R"((%x: tensor<2xf32>) -> tensor<2xf32> {
      %y = heddle.broadcast %x along [0] : tensor<2xf32> -> tensor<2xf32>
      return %y : tensor<2xf32>
    })"},
    // The middle slice is not used: its gradient is zero.
    {"unstack", R"((%x: tensor<3x2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
      %a, %b, %c = heddle.unstack %x
        : tensor<3x2xf32> -> tensor<2xf32>, tensor<2xf32>, tensor<2xf32>
      return %a, %c : tensor<2xf32>, tensor<2xf32>
    })"},
    {"stack", R"((%x: tensor<2xf32>, %z: tensor<2xf32>) -> tensor<2x2xf32> {
      %y = heddle.stack %x, %z : tensor<2xf32>, tensor<2xf32> -> tensor<2x2xf32>
      return %y : tensor<2x2xf32>
    })"},
    {"gelu", R"((%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = heddle.gelu %x approximate(none) : tensor<8xf32>
      return %y : tensor<8xf32>
    })",
     -3, 3},
    {"gelu_tanh", R"((%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = heddle.gelu %x approximate(tanh) : tensor<8xf32>
      return %y : tensor<8xf32>
    })",
     -3, 3},
    {"silu", R"((%x: tensor<8xf32>) -> tensor<8xf32> {
      %y = heddle.silu %x : tensor<8xf32>
      return %y : tensor<8xf32>
    })",
     -3, 3},
    {"dropout", R"((%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
      %n = arith.constant dense<2> : tensor<i64>
      %y = heddle.dropout "d" %x, %n rate(0.4) seed(5)
        : tensor<4x8xf32>, tensor<i64> -> tensor<4x8xf32>
      return %y : tensor<4x8xf32>
    })"},
    {"rotary", R"((%x: tensor<2x3x2x4xf32>) -> tensor<2x3x2x4xf32> {
      %cos, %sin = heddle.rotary_table frequencies([1.0, 0.1])
        : tensor<3x2xf32>, tensor<3x2xf32>
      %y = heddle.rotary %x, %cos, %sin : tensor<2x3x2x4xf32>, tensor<3x2xf32>,
        tensor<3x2xf32> -> tensor<2x3x2x4xf32>
      return %y : tensor<2x3x2x4xf32>
    })"},
    {"mask_padding", R"((%x: tensor<4x3xf32>) -> tensor<4x3xf32> {
      %o = arith.constant 2 : index
      %y = heddle.mask_padding %x dims [0] sizes [5] offsets(%o) value(lowest)
        : tensor<4x3xf32> -> tensor<4x3xf32>
      %r = heddle.mask_padding %y dims [0] sizes [5] offsets(%o) value(zero)
        : tensor<4x3xf32> -> tensor<4x3xf32>
      return %r : tensor<4x3xf32>
    })"},
};

INSTANTIATE_TEST_SUITE_P(Loop, VjpTest, ::testing::ValuesIn(loopCases),
                         caseName);
INSTANTIATE_TEST_SUITE_P(Model, VjpTest, ::testing::ValuesIn(modelCases),
                         caseName);
