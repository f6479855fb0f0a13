// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-verify-scheduled

heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func @good(%x: tensor<8xf32>) -> tensor<8xf32> {
  %t = comm.start : !comm.token<tensor<8xf32>> {
    %s = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<8xf32>
    comm.yield %s : tensor<8xf32>
  }
  %y = comm.wait %t : !comm.token<tensor<8xf32>>
  return %y : tensor<8xf32>
}

// -----

heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func @never(%x: tensor<8xf32>) {
  // expected-error @below {{expected one comm.wait of its token, got 0 uses}}
  %t = comm.start : !comm.token<tensor<8xf32>> {
    %s = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<8xf32>
    comm.yield %s : tensor<8xf32>
  }
  return
}

// -----

heddle.mesh @mesh <["dp"=2, "tp"=2]>
func.func @streams(%x: tensor<8xf32>) {
  // expected-note @below {{the other one}}
  %t = comm.start : !comm.token<tensor<8xf32>> {
    %s = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<8xf32>
    comm.yield %s : tensor<8xf32>
  }
  // expected-error @below {{is on stream 2, but another collective of its group is on stream 1: put both on one stream}}
  %u = comm.start stream(2) : !comm.token<tensor<8xf32>> {
    %s = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<8xf32>
    comm.yield %s : tensor<8xf32>
  }
  %y = comm.wait %t : !comm.token<tensor<8xf32>>
  %z = comm.wait %u : !comm.token<tensor<8xf32>>
  return
}
