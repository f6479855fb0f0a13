// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-split-batch=sub-batches=3

// expected-error @below {{expected at most 2 sub-batches, as argument 0 has 2 samples, got 3}}
func.func @too_many(%x: tensor<2x8xf32> {heddle.role = #heddle.port_role<features>}) -> tensor<2x8xf32> {
  %y = math.exp %x : tensor<2x8xf32>
  return %y : tensor<2x8xf32>
}

// -----

// expected-error @below {{expected a batch to split into 3 sub-batches: no argument with a first dimension has heddle.role = #heddle.port_role<features> or <labels>}}
module {
  func.func @no_batch(%x: tensor<4x8xf32>, %step: tensor<i64> {heddle.role = #heddle.port_role<features>}) -> tensor<4x8xf32> {
    %y = math.exp %x : tensor<4x8xf32>
    return %y : tensor<4x8xf32>
  }
}

// -----

// The op reads two rows of the batch for each row that it makes.
// expected-error @below {{cannot be split into 3 sub-batches: every operator needs the batch whole}}
func.func @window(%x: tensor<6xf32> {heddle.role = #heddle.port_role<features>}) -> tensor<6xf32> {
  // expected-note @below {{the first of them}}
  %y = tensor.pad %x low[1] high[1] {
  ^bb0(%i: index):
    %zero = arith.constant 0.0 : f32
    tensor.yield %zero : f32
  } : tensor<6xf32> to tensor<8xf32>
  %e = tensor.empty() : tensor<6xf32>
  %z = linalg.generic {indexing_maps = [affine_map<(i) -> (i)>], iterator_types = ["parallel"]} outs(%e : tensor<6xf32>) {
  ^bb0(%o: f32):
    %i = linalg.index 0 : index
    %a = tensor.extract %y[%i] : tensor<8xf32>
    linalg.yield %a : f32
  } -> tensor<6xf32>
  return %z : tensor<6xf32>
}

// -----

// The second product needs all samples for each sample.
func.func @similarity(%x: tensor<6x8xf32> {heddle.role = #heddle.port_role<features>}) -> tensor<6x6xf32> {
  %y = math.exp %x : tensor<6x8xf32>
  // expected-warning @below {{"similar" needs the whole batch: all sub-batches wait for each other before it}}
  %z = heddle.contract "similar" [bh, ch -> bc] %y, %y : (tensor<6x8xf32>, tensor<6x8xf32>) -> tensor<6x6xf32>
  return %z : tensor<6x6xf32>
}
