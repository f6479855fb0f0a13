// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-verify-executable

// Events order all calls: two streams read an argument at the same time; stream
// 0 waits for a collective before it reads the result or overwrites the operand.
// Stream 2 waits for an event of stream 1, and thereby for stream 0.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
heddle.variable @w : tensor<8xf32> parameter init(zeros)
func.func private @add(tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32> attributes {heddle.kernel}
rt.program @ordered arena(128) streams(3) arguments [#rt.port<"x", tensor<8xf32>>] {
  rt.fill_zero arena[0 : 8xf32] serves <activation ["a"]>
  rt.record 0
  rt.wait 0 stream(1)
  rt.all_reduce stream(1) sum argument 0[0 : 8xf32] -> arena[32 : 8xf32] over @mesh <{"tp"}> serves <activation ["b"]>
  rt.record 1 stream(1)
  rt.wait 1 stream(2)
  rt.all_reduce stream(2) sum arena[0 : 8xf32] -> variable @w[0 : 8xf32] over @mesh <{"dp"}> serves <gradient ["w"]>
  rt.record 2 stream(2)
  rt.launch @add (arena[0 : 8xf32], argument 0[0 : 8xf32]) -> (arena[64 : 8xf32]) serves <activation ["c"]>
  rt.wait 2
  rt.launch @add (arena[32 : 8xf32], variable @w[0 : 8xf32]) -> (arena[0 : 8xf32]) serves <activation ["d"]>
}

// -----

// The wait is missing.
heddle.mesh @mesh <["tp"=2]>
rt.program @no_wait arena(128) streams(2) arguments [#rt.port<"x", tensor<8xf32>>] results [#rt.port<"y", tensor<8xf32>>] {
  rt.record 0
  rt.wait 0 stream(1)
  // expected-note @below {{the other call}}
  rt.all_reduce stream(1) sum argument 0[0 : 8xf32] -> arena[32 : 8xf32] over @mesh <{"tp"}> serves <activation ["b"]>
  rt.record 1 stream(1)
  // expected-error @below {{expected events to order it behind 'rt.all_reduce': it is on stream 0, serves #heddle.serves<activation ["c"]> and reads bytes 32 to 64 of arena; the other is on stream 1, serves #heddle.serves<activation ["b"]> and writes some of them}}
  rt.copy arena[32 : 8xf32] -> result 0[0 : 8xf32] serves <activation ["c"]>
  rt.wait 1
}

// -----

// The record behind the fill is missing: the event occurs before the fill.
heddle.mesh @mesh <["tp"=2]>
heddle.variable @w : tensor<8xf32> parameter init(zeros)
rt.program @no_record arena(128) streams(2) {
  rt.record 0
  // expected-note @below {{the other call}}
  rt.fill_zero variable @w[0 : 8xf32] serves <state ["a"]>
  rt.wait 0 stream(1)
  // expected-error @below {{behind 'rt.fill_zero': it is on stream 1, serves #heddle.serves<activation ["b"]> and reads bytes 0 to 32 of variable @w; the other is on stream 0, serves #heddle.serves<state ["a"]> and writes some of them}}
  rt.all_reduce stream(1) sum variable @w[0 : 8xf32] -> arena[32 : 8xf32] over @mesh <{"tp"}> serves <activation ["b"]>
  rt.record 1 stream(1)
  rt.wait 1
}

// -----

// The last fill overlaps the operand of a collective in flight. The first fill
// has written all bytes at once; the checker splits them at each use.
heddle.mesh @mesh <["tp"=2]>
rt.program @overlap arena(128) streams(2) results [#rt.port<"y", tensor<8xf32>>] {
  rt.fill_zero arena[0 : 24xf32] serves <activation ["a"]>
  rt.record 0
  rt.wait 0 stream(1)
  // expected-note @below {{the other call}}
  rt.all_reduce stream(1) sum arena[40 : 2xf32] -> result 0[0 : 2xf32] over @mesh <{"tp"}> serves <activation ["b"]>
  rt.record 1 stream(1)
  rt.fill_zero arena[0 : 10xf32] serves <activation ["c"]>
  rt.fill_zero arena[48 : 12xf32] serves <activation ["c"]>
  // expected-error @below {{serves #heddle.serves<activation ["d"]> and writes bytes 44 to 52 of arena; the other is on stream 1, serves #heddle.serves<activation ["b"]> and reads some of them}}
  rt.fill_zero arena[44 : 2xf32] serves <activation ["d"]>
  rt.wait 1
}

// -----

// Two collectives in flight share bytes.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
rt.program @two_streams arena(128) streams(3) arguments [#rt.port<"x", tensor<8xf32>>] {
  rt.record 0
  rt.wait 0 stream(1)
  // expected-note @below {{the other call}}
  rt.all_reduce stream(1) sum argument 0[0 : 8xf32] -> arena[32 : 8xf32] over @mesh <{"tp"}> serves <activation ["b"]>
  rt.record 1 stream(1)
  rt.wait 0 stream(2)
  // expected-error @below {{it is on stream 2, serves #heddle.serves<activation ["c"]> and writes bytes 60 to 92 of arena; the other is on stream 1}}
  rt.all_reduce stream(2) sum argument 0[0 : 8xf32] -> arena[60 : 8xf32] over @mesh <{"dp"}> serves <activation ["c"]>
  rt.record 2 stream(2)
  rt.wait 1
  rt.wait 2
}

// -----

// Several streams read; one of them is not over when the bytes are written.
heddle.mesh @mesh <["dp"=2, "tp"=2]>
rt.program @readers arena(128) streams(3) results [#rt.port<"y", tensor<8xf32>>, #rt.port<"z", tensor<8xf32>>] {
  rt.fill_zero arena[0 : 8xf32] serves <activation ["a"]>
  rt.record 0
  rt.wait 0 stream(1)
  rt.wait 0 stream(2)
  // expected-note @below {{the other call}}
  rt.all_reduce stream(1) sum arena[0 : 8xf32] -> result 0[0 : 8xf32] over @mesh <{"tp"}> serves <activation ["b"]>
  rt.record 1 stream(1)
  rt.all_reduce stream(2) sum arena[0 : 8xf32] -> result 1[0 : 8xf32] over @mesh <{"dp"}> serves <activation ["c"]>
  rt.record 2 stream(2)
  rt.wait 2
  // expected-error @below {{behind 'rt.all_reduce'}}
  rt.fill_zero arena[0 : 8xf32] serves <activation ["d"]>
  rt.wait 1
}

// -----

// Another program's calls on stream 0 may still run.
heddle.mesh @mesh <["tp"=2]>
rt.program @beginning arena(128) streams(2) arguments [#rt.port<"x", tensor<8xf32>>] {
  // expected-error @below {{expected stream 1 to wait for an event of stream 0 first: what ran before the program may use its memory still}}
  rt.all_reduce stream(1) sum argument 0[0 : 8xf32] -> arena[32 : 8xf32] over @mesh <{"tp"}> serves <activation ["b"]>
  rt.record 1 stream(1)
  rt.wait 1
}

// -----

heddle.mesh @mesh <["tp"=2]>
rt.program @end arena(128) streams(2) arguments [#rt.port<"x", tensor<8xf32>>] {
  rt.record 0
  rt.wait 0 stream(1)
  rt.all_reduce stream(1) sum argument 0[0 : 8xf32] -> arena[32 : 8xf32] over @mesh <{"tp"}> serves <activation ["a"]>
  rt.record 1 stream(1)
  // expected-error @below {{expected stream 0 to wait for it before the program ends: it is on stream 1 and serves #heddle.serves<activation ["b"]>}}
  rt.all_reduce stream(1) sum arena[32 : 8xf32] -> arena[32 : 8xf32] over @mesh <{"tp"}> serves <activation ["b"]>
  rt.wait 1
}

// -----

// The host waits for all streams before it reads the condition, so the ops
// behind the loop may touch any bytes. But the condition of the next iteration
// runs beside the calls that the loop's body has in flight.
heddle.mesh @mesh <["tp"=2]>
rt.program @loop arena(128) streams(2) arguments [#rt.port<"x", tensor<8xf32>>] {
  rt.record 0
  rt.wait 0 stream(1)
  rt.while arena[0 : i1] before {
    // expected-error @below {{it is on stream 0, serves #heddle.serves<activation ["a"]> and writes bytes 32 to 64 of arena; the other is on stream 1}}
    rt.fill_zero arena[32 : 8xf32] serves <activation ["a"]>
    rt.fill_zero arena[0 : i1] serves <activation ["a"]>
  } after {
    // expected-note @below {{the other call}}
    rt.all_reduce stream(1) sum argument 0[0 : 8xf32] -> arena[32 : 8xf32] over @mesh <{"tp"}> serves <activation ["b"]>
  }
}

// -----

heddle.mesh @mesh <["tp"=2]>
rt.program @good_loop arena(128) streams(2) arguments [#rt.port<"x", tensor<8xf32>>] {
  rt.record 0
  rt.wait 0 stream(1)
  rt.while arena[0 : i1] before {
    rt.fill_zero arena[0 : i1] serves <activation ["a"]>
  } after {
    rt.fill_zero arena[32 : 8xf32] serves <activation ["a"]>
    rt.record 1
    rt.wait 1 stream(1)
    rt.all_reduce stream(1) sum argument 0[0 : 8xf32] -> arena[32 : 8xf32] over @mesh <{"tp"}> serves <activation ["b"]>
  }
  rt.fill_zero arena[32 : 8xf32] serves <activation ["a"]>
}
