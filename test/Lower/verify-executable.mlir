// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-verify-executable

// A collective on another stream, and a loop that contains one.
heddle.mesh @mesh <["dp"=2]>
rt.program @p arena(64) streams(2) arguments [#rt.port<"x", tensor<4xf32>, <@mesh, [{"dp"}]>>] {
  rt.record 0
  rt.wait 0 stream(1)
  rt.record 1 stream(1)
  rt.while arena[0 : i1] before {
    rt.wait 1
    rt.record 3 stream(1)
  } after {
    rt.wait 3
    rt.record 2 stream(1)
    rt.wait 2
  }
  rt.wait 3
}

// -----

// expected-error @below {{expected an rt.program: functions are kernels in this phase}}
func.func @program() {
  return
}

// -----

// expected-error @below {{expected arguments of different names, got "x" twice}}
rt.program @p arena(0) arguments [#rt.port<"x", tensor<4xf32>>, #rt.port<"x", tensor<8xf32>>] {
}

// -----

heddle.mesh @mesh <["dp"=2]>
// expected-error @below {{expected result "x" to be whole, got #heddle.sharding<@mesh, [{}], partial = sum {"dp"}>}}
rt.program @p arena(0) results [#rt.port<"x", tensor<4xf32>, <@mesh, [{}], partial = sum {"dp"}>>] {
}

// -----

heddle.mesh @mesh <["dp"=2]>
// expected-error @below {{expected argument "x" to be sharded in 2 dimensions, got #heddle.sharding<@mesh, [{"dp"}]>}}
rt.program @p arena(0) arguments [#rt.port<"x", tensor<4x4xf32>, <@mesh, [{"dp"}]>>] {
}

// -----

heddle.mesh @mesh <["dp"=2]>
// expected-error @below {{expected the ranks of argument "x" to have coordinates below 2 along axis "dp", got 5}}
rt.program @p arena(0) arguments [#rt.port<"x", tensor<4xf32> in <@mesh, {"dp" = [5]}>>] {
}

// -----

// expected-error @below {{expected argument "x" to be over a heddle.mesh of this module, got @mesh}}
rt.program @p arena(0) arguments [#rt.port<"x", tensor<4xf32>, <@mesh, [{"dp"}]>>] {
}

// -----

heddle.mesh @mesh <["dp"=2]>
// expected-error @below {{expected argument "x" to be over axes of #heddle.mesh<["dp"=2]>, got "tp"}}
rt.program @p arena(0) arguments [#rt.port<"x", tensor<4xf32>, <@mesh, [{"tp"}]>>] {
}

// -----

rt.program @p arena(0) {
  // expected-error @below {{expected numbers as the values of a program, got 'tensor<4xf32>'}}
  %x = arith.constant dense<0.0> : tensor<4xf32>
}

// -----

rt.program @p arena(0) {
  rt.record 0
  // expected-error @below {{expected an event of its own, got 0 again}}
  rt.record 0
}

// -----

rt.program @p arena(0) {
  // expected-error @below {{expected an event that is recorded before, got 0}}
  rt.wait 0
  rt.record 0
}

// -----

// The loop may run no iteration.
rt.program @p arena(64) {
  rt.while arena[0 : i1] before {
  } after {
    rt.record 0
  }
  // expected-error @below {{expected an event that is recorded before, got 0}}
  rt.wait 0
}
