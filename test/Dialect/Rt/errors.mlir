// RUN: heddle-opt %s --split-input-file --verify-diagnostics

rt.program @beyond_the_arena arena(64) {
  // expected-error @below {{expected #rt.buffer<arena[32 : 16xf32]> to lie within the 64 bytes of its memory, got bytes 32 to 96}}
  rt.fill_zero arena[32 : 16xf32] serves <activation ["x"]>
}

// -----

heddle.mesh @mesh <["tp"=2]>
heddle.variable @w : tensor<8x4xf32> parameter init(zeros) storage(<@mesh, [{"tp"}, {} ]>)
rt.program @beyond_the_part_of_a_variable arena(0) {
  // expected-error @below {{to lie within the 64 bytes of its memory, got bytes 0 to 128}}
  rt.fill_zero variable @w[0 : 8x4xf32] serves <activation ["x"]>
}

// -----

rt.program @unknown_variable arena(0) {
  // expected-error @below {{expected @w to be a heddle.variable of this module}}
  rt.fill_zero variable @w[0 : 8x4xf32] serves <activation ["x"]>
}

// -----

rt.program @unknown_result arena(0) {
  // expected-error @below {{expected result of an index below 0, got 1}}
  rt.fill_zero result 1[0 : f32] serves <activation ["x"]>
}

// -----

rt.program @stream arena(64) {
  // expected-error @below {{expected a stream below 1, got 1}}
  rt.fill_zero stream(1) arena[0 : 16xf32] serves <activation ["x"]>
}

// -----

rt.program @misaligned arena(64) {
  // expected-error @below {{expected an offset that is a multiple of 4, the size of 'f32', got 2}}
  rt.fill_zero arena[2 : 4xf32] serves <activation ["x"]>
}

// -----

rt.program @product_beyond_its_operand arena(1024) {
  // expected-error @below {{expected B to hold 32 elements, got 16}}
  rt.matmul m(4) n(4) k(8) a(arena[0 : 4x8xf32] strides [8, 1])
    b(arena[128 : 4x4xf32] strides [4, 1]) c(arena[512 : 4x4xf32] stride 4) serves <activation ["x"]>
}

// -----

rt.program @product_in_place arena(1024) {
  // expected-error @below {{expected C to overlap neither A nor B}}
  rt.matmul m(4) n(4) k(4) a(arena[0 : 4x4xf32] strides [4, 1])
    b(arena[128 : 4x4xf32] strides [4, 1]) c(arena[32 : 4x4xf32] stride 4) serves <activation ["x"]>
}

// -----

func.func private @kernel_0(tensor<4xf32>) -> tensor<4xf32> attributes {heddle.kernel}
rt.program @kernel_operands arena(1024) {
  // expected-error @below {{expected operand 0 to be 'tensor<4xf32>', got #rt.buffer<arena[0 : 8xf32]>}}
  rt.launch @kernel_0(arena[0 : 8xf32]) -> (arena[64 : 4xf32]) serves <activation ["x"]>
}

// -----

heddle.mesh @mesh <["tp"=2]>
rt.program @unknown_axis arena(1024) {
  // expected-error @below {{expected an axis of #heddle.mesh<["tp"=2]>, got "dp"}}
  rt.all_reduce sum arena[0 : 8xf32] -> arena[0 : 8xf32] over @mesh <{"dp"}> serves <activation ["x"]>
}

// -----

heddle.mesh @mesh <["tp"=2]>
rt.program @gather_too_large arena(1024) {
  // expected-error @below {{expected 'tensor<17xf32>' to have the elements of 2 members' 'tensor<8xf32>'}}
  rt.all_gather arena[0 : 8xf32] -> arena[64 : 17xf32] over @mesh <{"tp"}> serves <activation ["x"]>
}

// -----

heddle.mesh @mesh <["tp"=2]>
rt.program @scatter_too_large arena(1024) {
  // expected-error @below {{expected 'tensor<15xf32>' to have the elements of 2 members' 'tensor<8xf32>'}}
  rt.reduce_scatter sum arena[64 : 15xf32] -> arena[0 : 8xf32] over @mesh <{"tp"}> serves <activation ["x"]>
}

// -----

heddle.mesh @mesh <["tp"=2]>
rt.program @permute_in_place arena(1024) {
  // expected-error @below {{expected in and out not to overlap}}
  rt.permute arena[0 : 8xf32] -> arena[16 : 8xf32] sources [1, 0] over @mesh <{"tp"}> serves <activation ["x"]>
}

// -----

heddle.mesh @mesh <["tp"=2]>
rt.program @gather_into_its_operand arena(1024) {
  // expected-error @below {{expected in and out not to overlap}}
  rt.all_gather arena[32 : 8xf32] -> arena[0 : 16xf32] over @mesh <{"tp"}> serves <activation ["x"]>
}

// -----

heddle.mesh @mesh <["tp"=2]>
rt.program @exchange_of_odd_parts arena(1024) {
  // expected-error @below {{expected 'tensor<9xf32>' and 'tensor<9xf32>' to have equally many elements, a multiple of 2 members}}
  rt.all_to_all arena[64 : 9xf32] -> arena[0 : 9xf32] over @mesh <{"tp"}> serves <activation ["x"]>
}

// -----

rt.program @copy_beyond_its_source arena(1024) {
  // expected-error @below {{expected the source to hold 32 bytes, got 16}}
  rt.copy arena[0 : 4xf32] -> arena[64 : 8xf32] serves <activation ["x"]>
}

// -----

rt.program @types_of_attention arena(1024) {
  // expected-error @below {{expected queries, keys, values and output of one element type, got 'f32' and 'bf16'}}
  rt.attention q(arena[0 : 1x2x1x4xf32]) k(arena[64 : 1x2x1x4xbf16]) v(arena[128 : 1x2x1x4xf32]) scale(0.5) -> o(arena[192 : 1x2x1x4xf32]) lse(arena[256 : 1x2x1xf32]) serves <activation ["x"]>
}

// -----

rt.program @mask_of_attention arena(1024) {
  // expected-error @below {{expected a mask of shape 1x2x1x2, in which any size may be 1, got 1x2x1x3}}
  rt.attention q(arena[0 : 1x2x1x4xf32]) k(arena[64 : 1x2x1x4xf32]) v(arena[128 : 1x2x1x4xf32]) scale(0.5) mask(arena[320 : 1x2x1x3xi1]) -> o(arena[192 : 1x2x1x4xf32]) lse(arena[256 : 1x2x1xf32]) serves <activation ["x"]>
}

// -----

rt.program @negative_stride arena(1024) {
  // expected-error @below {{expected strides of at least 0}}
  rt.copy arena[0 : 8xf32] -> arena[64 : 8xf32] blocks(2) strides(-16, 16) serves <activation ["x"]>
}

// -----

rt.program @beyond_the_arena_in_a_loop arena(64) {
  rt.while arena[0 : i1] before {
  } after {
    // expected-error @below {{to lie within the 64 bytes of its memory, got bytes 32 to 96}}
    rt.fill_zero arena[32 : 16xf32] serves <activation ["x"]>
  }
}

// -----

rt.program @condition_beyond_the_arena arena(64) {
  // expected-error @below {{to lie within the 64 bytes of its memory, got bytes 64 to 65}}
  rt.while arena[64 : i1] before {
  } after {
  }
}

// -----

rt.program @type_of_condition arena(64) {
  // expected-error @below {{expected a condition of one i1, got 'tensor<2xi1>'}}
  rt.while arena[0 : 2xi1] before {
  } after {
  }
}

// -----

rt.program @serves_nobody arena(64) {
  rt.fill_zero arena[0 : 16xf32]
  // expected-error @below {{expected 'serves'}}
}

// -----

// expected-error @below {{expected from 1 to 8 streams, got 9}}
rt.program @streams arena(64) streams(9) {
}

// -----

// expected-error @below {{expected from 1 to 8 streams, got 0}}
rt.export @streams as @heddle_program_streams arena(64) streams(0)

// -----

rt.program @epilogue_with_loops arena(2048) {
  // expected-error @below {{expected no loops with lhs_sums}}
  rt.matmul m(4) n(4) k(4) a(arena[0 : 2x4x4xbf16] strides [4, 1]) b(arena[128 : 4x4xbf16] strides [4, 1]) c(arena[256 : 2x4x4xbf16] stride 4) loops [#rt.loop<2, a = 16, b = 0, c = 16, bias = 0>] epilogue lhs_sums arena[512 : 4xbf16] serves <activation ["x"]>
}

// -----

rt.program @short_sums arena(2048) {
  // expected-error @below {{expected the buffer of rhs_sums to hold 4 elements, got 3}}
  rt.matmul m(4) n(4) k(4) a(arena[0 : 4x4xbf16] strides [4, 1]) b(arena[128 : 4x4xbf16] strides [4, 1]) c(arena[256 : 4x4xbf16] stride 4) epilogue rhs_sums arena[512 : 3xbf16] serves <activation ["x"]>
}

// -----

rt.program @sums_of_other_type arena(2048) {
  // expected-error @below {{expected the buffer of rhs_sums to have C's type}}
  rt.matmul m(4) n(4) k(4) a(arena[0 : 4x4xbf16] strides [4, 1]) b(arena[128 : 4x4xbf16] strides [4, 1]) c(arena[256 : 4x4xbf16] stride 4) epilogue rhs_sums arena[512 : 4xf32] serves <activation ["x"]>
}

// -----

rt.program @sums_with_bias arena(2048) {
  // expected-error @below {{expected no bias with rhs_sums}}
  rt.matmul m(4) n(4) k(4) a(arena[0 : 4x4xbf16] strides [4, 1]) b(arena[128 : 4x4xbf16] strides [4, 1]) c(arena[256 : 4x4xbf16] stride 4) bias(arena[384 : 4xbf16]) epilogue rhs_sums arena[512 : 4xbf16] serves <activation ["x"]>
}

// -----

rt.program @gelu_accumulates arena(2048) {
  // expected-error @below {{expected no accumulate with gelu}}
  rt.matmul m(4) n(4) k(4) a(arena[0 : 4x4xbf16] strides [4, 1]) b(arena[128 : 4x4xbf16] strides [4, 1]) c(arena[256 : 4x4xbf16] stride 4) accumulate epilogue gelu arena[512 : 4x4xbf16] serves <activation ["x"]>
}

// -----

rt.program @gelu_over_its_bias arena(2048) {
  // expected-error @below {{expected the buffer of gelu to overlap no other one}}
  rt.matmul m(4) n(4) k(4) a(arena[0 : 4x4xbf16] strides [4, 1]) b(arena[128 : 4x4xbf16] strides [4, 1]) c(arena[256 : 4x4xbf16] stride 4) bias(arena[520 : 4xbf16]) epilogue gelu arena[512 : 4x4xbf16] serves <activation ["x"]>
}

// -----

rt.program @gelu_over_its_result arena(2048) {
  // expected-error @below {{expected the buffer of gelu to overlap no other one}}
  rt.matmul m(4) n(4) k(4) a(arena[0 : 4x4xbf16] strides [4, 1]) b(arena[128 : 4x4xbf16] strides [4, 1]) c(arena[256 : 4x4xbf16] stride 4) epilogue gelu arena[264 : 4x4xbf16] serves <activation ["x"]>
}

// -----

rt.program @sums_overwritten arena(2048) {
  // expected-error @below {{expected each product to have a C and rhs_sums of its own}}
  rt.matmul m(4) n(4) k(4) a(arena[0 : 4x4xbf16] strides [4, 1]) b(arena[128 : 2x4x4xbf16] strides [4, 1]) c(arena[256 : 2x4x4xbf16] stride 4) loops [#rt.loop<2, a = 0, b = 16, c = 16, bias = 0>] epilogue rhs_sums arena[512 : 4xbf16] serves <activation ["x"]>
}

// -----

rt.program @sums_of_one_result arena(2048) {
  // expected-error @below {{expected each product to have a C and rhs_sums of its own}}
  rt.matmul m(4) n(4) k(4) a(arena[0 : 4x4xbf16] strides [4, 1]) b(arena[128 : 2x4x4xbf16] strides [4, 1]) c(arena[256 : 4x4xbf16] stride 4) loops [#rt.loop<2, a = 0, b = 16, c = 0, bias = 4>] epilogue rhs_sums arena[512 : 8xbf16] serves <activation ["x"]>
}
