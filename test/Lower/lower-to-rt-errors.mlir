// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-lower-to-rt

// expected-error @below {{expected rt.arena; run heddle-plan-arenas first}}
func.func @not_planned(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

heddle.mesh @mesh <["dp"=2]>
// expected-error @below {{expected argument 0 to be 'tensor<4xf32>', one device's part of}}
func.func @not_local(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{"dp"}]>}) attributes {rt.arena = 0 : i64} {
  return
}

// -----

func.func @no_place(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {rt.arena = 0 : i64} {
  // expected-error @below {{expected a place of type 'tensor<4x4xf32>' for result 0 in rt.places; run heddle-plan-arenas first}}
  %y = heddle.contract [ij, jk -> ik] %x, %x : (tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<4x4xf32>
  return %y : tensor<4x4xf32>
}

// -----

func.func @too_many_loops(%x: tensor<2x3x2x3x2x3x2x3x2x3x2x3xf32>, %y: tensor<3x3x3x3x3x3xf32>) -> tensor<2x2x2x2x2x2xf32> attributes {rt.arena = 0 : i64} {
  // expected-error @below {{cannot be a matrix product: more than 4 factors remain besides m, n and k}}
  %z = heddle.contract [aAbBcCdDeEfF, ABCDEF -> abcdef] %x, %y {rt.places = [#rt.buffer<result 0[0 : 2x2x2x2x2x2xf32]>]} : (tensor<2x3x2x3x2x3x2x3x2x3x2x3xf32>, tensor<3x3x3x3x3x3xf32>) -> tensor<2x2x2x2x2x2xf32>
  return %z : tensor<2x2x2x2x2x2xf32>
}

// -----

heddle.mesh @mesh <["dp"=2]>
func.func @two_waits(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) attributes {rt.arena = 64 : i64} {
  // expected-error @below {{expected one comm.wait for the token, got 2}}
  %t = comm.start : !comm.token<tensor<4xf32>> {
    %s = comm.all_reduce sum %x over @mesh <{"dp"}> : tensor<4xf32>
    comm.yield %s : tensor<4xf32>
  }
  %y = comm.wait %t {rt.places = [#rt.buffer<arena[0 : 4xf32]>]} : !comm.token<tensor<4xf32>>
  %z = comm.wait %t {rt.places = [#rt.buffer<arena[16 : 4xf32]>]} : !comm.token<tensor<4xf32>>
  return %y, %z : tensor<4xf32>, tensor<4xf32>
}

// -----

// Callers find arguments and results by their names.
// expected-error @below {{expected heddle.name to tell each argument from the others, got "x" for 0 and 2}}
func.func @equal_names(%x: tensor<4xf32> {heddle.name = "x"}, %y: tensor<4xf32>, %z: tensor<4xf32> {heddle.name = "x"}) attributes {rt.arena = 0 : i64} {
  return
}

// -----

// The default names of arguments without a name count, too.
// expected-error @below {{expected heddle.name to tell each result from the others, got "result1" for 0 and 1}}
func.func @default_name(%x: tensor<4xf32>) -> (tensor<4xf32> {heddle.name = "result1"}, tensor<4xf32>) attributes {rt.arena = 0 : i64} {
  return %x, %x : tensor<4xf32>, tensor<4xf32>
}

// -----

func.func @loop(%x: tensor<4xf32>) -> tensor<4xf32> attributes {rt.arena = 64 : i64} {
  // expected-error @below {{expected @before to be a func.func with rt.arena; run heddle-plan-arenas first}}
  %y, %h, %c, %w = heddle.while @before, @after init(%x : tensor<4xf32>) -> (tensor<4xf32>) carried(tensor<4xf32>) condition tensor<i1> workspace tensor<1xi8>
    {rt.places = [#rt.buffer<result 0[0 : 4xf32]>, #rt.buffer<arena[0 : 4xf32]>, #rt.buffer<arena[16 : i1]>, #rt.buffer<arena[32 : 1xi8]>]}
  return %y : tensor<4xf32>
}
func.func private @before(%x: tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>) {
  %no = arith.constant {rt.places = [#rt.buffer<result 0[0 : i1]>]} dense<false> : tensor<i1>
  return %no, %x : tensor<i1>, tensor<4xf32>
}
func.func private @after(%x: tensor<4xf32>) -> tensor<4xf32> attributes {rt.arena = 0 : i64} {
  return %x : tensor<4xf32>
}

// -----

func.func private @kernel_0(tensor<4xf32>) -> tensor<4xf32> attributes {heddle.kernel}
func.func @loop(%x: tensor<4xf32>) -> tensor<4xf32> attributes {rt.arena = 64 : i64} {
  %y, %h, %c, %w = heddle.while @before, @after init(%x : tensor<4xf32>) -> (tensor<4xf32>) carried(tensor<4xf32>) condition tensor<i1> workspace tensor<1xi8>
    {rt.places = [#rt.buffer<result 0[0 : 4xf32]>, #rt.buffer<arena[0 : 4xf32]>, #rt.buffer<arena[16 : i1]>, #rt.buffer<arena[32 : 1xi8]>]}
  return %y : tensor<4xf32>
}
func.func private @before(%x: tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>) attributes {rt.arena = 0 : i64} {
  %no = arith.constant {rt.places = [#rt.buffer<result 0[0 : i1]>]} dense<false> : tensor<i1>
  return %no, %x : tensor<i1>, tensor<4xf32>
}
func.func private @after(%x: tensor<4xf32>) -> tensor<4xf32> attributes {rt.arena = 0 : i64} {
  // expected-error @below {{expected result of an index below 1, got 7}}
  %y = func.call @kernel_0(%x) {rt.places = [#rt.buffer<result 7[0 : 4xf32]>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @loop(%x: tensor<4xf32>) -> tensor<4xf32> attributes {rt.arena = 64 : i64} {
  %y, %h, %c, %w = heddle.while @before, @after init(%x : tensor<4xf32>) -> (tensor<4xf32>) carried(tensor<4xf32>) condition tensor<i1> workspace tensor<1xi8>
    {rt.places = [#rt.buffer<result 0[0 : 4xf32]>, #rt.buffer<arena[0 : 4xf32]>, #rt.buffer<arena[16 : i1]>, #rt.buffer<arena[32 : 1xi8]>]}
  return %y : tensor<4xf32>
}
func.func private @before(%x: tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>) attributes {rt.arena = 0 : i64} {
  %no = arith.constant {rt.places = [#rt.buffer<result 0[0 : i1]>]} dense<false> : tensor<i1>
  return %no, %x : tensor<i1>, tensor<4xf32>
}
func.func private @after(%x: tensor<4xf32>) -> tensor<4xf32> attributes {rt.arena = 0 : i64} {
  // expected-error @below {{expected @after not to call itself}}
  %y, %h, %c, %w = heddle.while @before, @after init(%x : tensor<4xf32>) -> (tensor<4xf32>) carried(tensor<4xf32>) condition tensor<i1> workspace tensor<1xi8>
    {rt.places = [#rt.buffer<result 0[0 : 4xf32]>, #rt.buffer<arena[0 : 4xf32]>, #rt.buffer<arena[16 : i1]>, #rt.buffer<arena[32 : 1xi8]>]}
  return %y : tensor<4xf32>
}

// -----

func.func private @kernel_0(tensor<4xf32>) -> tensor<4xf32> attributes {heddle.kernel}
func.func @loop(%x: tensor<4xf32>) -> tensor<4xf32> attributes {rt.arena = 64 : i64} {
  %y, %h, %c, %w = heddle.while @before, @after init(%x : tensor<4xf32>) -> (tensor<4xf32>) carried(tensor<4xf32>) condition tensor<i1> workspace tensor<1xi8>
    {rt.places = [#rt.buffer<result 0[0 : 4xf32]>, #rt.buffer<arena[0 : 4xf32]>, #rt.buffer<arena[16 : i1]>, #rt.buffer<arena[17 : 1xi8]>]}
  return %y : tensor<4xf32>
}
func.func private @before(%x: tensor<4xf32>) -> (tensor<i1>, tensor<4xf32>) attributes {rt.arena = 0 : i64} {
  %no = arith.constant {rt.places = [#rt.buffer<result 0[0 : i1]>]} dense<false> : tensor<i1>
  return %no, %x : tensor<i1>, tensor<4xf32>
}
func.func private @after(%x: tensor<4xf32>) -> tensor<4xf32> attributes {rt.arena = 16 : i64} {
  // expected-error @below {{expected an offset that is a multiple of 4, the size of 'f32', got 17}}
  %y = func.call @kernel_0(%x) {rt.places = [#rt.buffer<arena[0 : 4xf32]>]} : (tensor<4xf32>) -> tensor<4xf32>
  return %y : tensor<4xf32>
}

// -----

func.func @wide_product(%x: tensor<2x2xf64>) -> tensor<2x2xf64> attributes {rt.arena = 0 : i64} {
  // expected-error @below {{cannot be compiled: expected operands of f32, bf16 or f16, got 'f64'}}
  %y = heddle.contract [ab, bc -> ac] %x, %x {rt.places = [#rt.buffer<result 0[0 : 2x2xf64]>]} : (tensor<2x2xf64>, tensor<2x2xf64>) -> tensor<2x2xf64>
  return %y : tensor<2x2xf64>
}

// -----

// Every device would be given all of a summand.
heddle.mesh @mesh <["dp"=2]>
// expected-error @below {{expected argument 0 to be whole, for callers give and take whole tensors; got #heddle.sharding<@mesh, [{}], partial = sum {"dp"}>}}
func.func @summand(%x: tensor<8xf32> {heddle.sharding = #heddle.sharding<@mesh, [{}], partial = sum {"dp"}>}) attributes {rt.arena = 0 : i64} {
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @inner(%x: tensor<4x2xf32>) -> tensor<4x4xf32> attributes {rt.arena = 0 : i64} {
  // expected-error @below {{expected a contiguous collective (dimension 0, and parts that divide it); run heddle-pack-collectives}}
  %0 = comm.all_gather %x dim 1 over @mesh <{"tp"}> {rt.places = [#rt.buffer<result 0[0 : 4x4xf32]>]} : tensor<4x2xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
