// A product of 1 ms, then a collective of 1 ms beside a product of 0.5 ms, then
// a product that needs the collective.
// RUN: heddle simulate %s --cluster %S/Inputs/round.json --trace %t.trace | FileCheck %s
// CHECK: simulated on 2 device(s) of the cluster 'round'
// CHECK-NEXT: step 3.000 ms
// CHECK-NEXT: communication exposed 0.500 ms 16.7 %
// CHECK-NEXT: lower bound 3.000 ms critical path, 100.0 % of the step
// CHECK-NEXT: compute 2.500 ms
// CHECK-NEXT: links of net 1.000 ms
// CHECK-NEXT: critical path 3.000 ms
// CHECK-NEXT: streams
// CHECK-NEXT: 0 3 2.500 0.000
// CHECK-NEXT: 1 1 0.000 1.000
// CHECK-NEXT: collectives 1 in 1.000 ms, of which 0.500 ms are hidden; a device sends 0.0 MiB
// CHECK-NEXT: exposed ms
// CHECK-NEXT: 0.500 0.500 1 0.04 all_reduce over tp, of sum
// CHECK-NEXT: waits for matmul a; awaited by matmul c, d
// CHECK-NEXT: memory of each device
// CHECK-NEXT: arena 200000 bytes
// CHECK-NEXT: in all 200000 bytes
// CHECK-NEXT: in use at the peak 80000 bytes 0.1 MiB, at 1.000 ms
// CHECK-NEXT: 0.04 MiB in 1 value(s) activation of sum, by all_reduce
// CHECK-NEXT: 0.04 MiB in 1 value(s) gradient of b, by matmul

// The same as JSON.
// RUN: heddle simulate %s --cluster %S/Inputs/round.json --json | FileCheck %s --check-prefix=JSON
// JSON: "cluster": "round"
// JSON: "seconds": 0.00{{3|2999|3000}}
// JSON: "bounds": {
// JSON: "links": {
// JSON-NEXT: "net": 0.00{{1|0999}}
// JSON: "collectives": [
// JSON: "call": "all_reduce"
// JSON: "bytes": 40000
// JSON: "waits_for": {
// JSON-NEXT: "call": "matmul"
// JSON: "awaited_by": {
// JSON: "memory": {
// JSON: "total": 200000
// JSON: "capacity": 1048576

// The trace names streams, sets of ranks and operators. Times are microseconds.
// RUN: %python -m json.tool %t.trace | FileCheck %s --check-prefix=TRACE
// TRACE: "name": "process_name"
// TRACE: "name": "all ranks"
// TRACE: "name": "stream 0: compute"
// TRACE: "name": "sum"
// TRACE-NEXT: "cat": "communication"
// TRACE: "tid": 1
// TRACE-NEXT: "ts": {{1000|999\.9}}
// TRACE-NEXT: "dur": {{1000|999\.9}}
// TRACE: "exposed_us": {{500|499\.9}}
// TRACE: "name": "c, d"
// TRACE: "flops": 1000000
// TRACE: "ph": "C"
// TRACE-NEXT: "name": "memory"

module attributes {heddle.phase = "executable"} {
heddle.mesh @mesh <["tp"=2]>
rt.program @step arena(200000) streams(2) {
  rt.matmul m(100) n(100) k(50) a(arena[160000 : 100x50xf32] strides [50, 1]) b(arena[160000 : 50x100xf32] strides [100, 1]) c(arena[0 : 100x100xf32] stride 100) serves <activation ["a"]>
  rt.record 0
  rt.wait 0 stream(1)
  rt.all_reduce stream(1) sum arena[0 : 100x100xf32] -> arena[0 : 100x100xf32] over @mesh <{"tp"}> serves <activation ["sum"]>
  rt.record 1 stream(1)
  rt.matmul m(100) n(100) k(25) a(arena[160000 : 100x25xf32] strides [25, 1]) b(arena[160000 : 25x100xf32] strides [100, 1]) c(arena[40000 : 100x100xf32] stride 100) serves <gradient ["b"]>
  rt.wait 1
  rt.matmul m(100) n(100) k(50) a(arena[0 : 100x50xf32] strides [50, 1]) b(arena[20000 : 50x100xf32] strides [100, 1]) c(arena[80000 : 100x100xf32] stride 100) serves <activation ["c", "d"]>
}
}
