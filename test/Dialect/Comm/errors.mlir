// One case for every constraint that the ops state.
// RUN: heddle-opt %s --split-input-file --verify-diagnostics

func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected @mesh to be a heddle.mesh in this module}}
  %0 = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<8xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=4]>
func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected at least one mesh axis}}
  %0 = comm.all_reduce sum %x over @mesh <{}> : tensor<8xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=4]>
func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected an axis of #heddle.mesh<["tp"=4]>, got "dp"}}
  %0 = comm.all_reduce sum %x over @mesh <{"dp"}> : tensor<8xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=4]>
func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected each axis once, got "tp" twice}}
  %0 = comm.all_reduce sum %x over @mesh <{"tp", "tp"}> : tensor<8xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=4]>
func.func @f(%x: tensor<2xf32>) {
  // expected-error @below {{expected a dimension of 'tensor<2xf32>', got 1}}
  %0 = comm.all_gather %x dim 1 over @mesh <{"tp"}> : tensor<2xf32> -> tensor<8xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=4]>
func.func @f(%x: tensor<2x3xf32>) {
  // expected-error @below {{to differ only along the named dimensions}}
  %0 = comm.all_gather %x dim 0 over @mesh <{"tp"}> : tensor<2x3xf32> -> tensor<8x4xf32>
  return
}

// -----

// Four parts of three rows make up nine to twelve rows.
heddle.mesh @mesh <["tp"=4]>
func.func @f(%x: tensor<3xf32>) {
  // expected-error @below {{to have size 2, 8 over 4 members}}
  %0 = comm.all_gather %x dim 0 over @mesh <{"tp"}> : tensor<3xf32> -> tensor<8xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=4]>
func.func @f(%x: tensor<9xf32>) {
  // expected-error @below {{to have size 3, 9 over 4 members}}
  %0 = comm.reduce_scatter sum %x dim 0 over @mesh <{"tp"}> : tensor<9xf32> -> tensor<2xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=4]>
func.func @f(%x: tensor<8x8xf32>) {
  // expected-error @below {{expected two different dimensions, got 0 twice}}
  %0 = comm.all_to_all %x split 0 concat 0 over @mesh <{"tp"}> : tensor<8x8xf32> -> tensor<8x8xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=4]>
func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected a root below 4, got 4}}
  %0 = comm.broadcast %x root 4 over @mesh <{"tp"}> : tensor<8xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=4]>
func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected 4 sources, got 2}}
  %0 = comm.permute %x sources [0, 1] over @mesh <{"tp"}> : tensor<8xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected sources from -1 to 1, got 2}}
  %0 = comm.permute %x sources [0, 2] over @mesh <{"tp"}> : tensor<8xf32>
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected one collective and a yield, got 1 ops}}
  %t = comm.start : !comm.token<tensor<8xf32>> {
    comm.yield %x : tensor<8xf32>
  }
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected one collective whose result is yielded}}
  %t = comm.start : !comm.token<tensor<8xf32>> {
    %0 = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<8xf32>
    comm.yield %x : tensor<8xf32>
  }
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected a token of 'tensor<8xf32>', got '!comm.token<tensor<4xf32>>'}}
  %t = comm.start : !comm.token<tensor<4xf32>> {
    %0 = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<8xf32>
    comm.yield %0 : tensor<8xf32>
  }
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected one collective whose result is yielded}}
  %t = comm.start : !comm.token<tensor<4xf32>> {
    %0 = comm.slice %x dim 0 over @mesh <{"tp"}> : tensor<8xf32> -> tensor<4xf32>
    comm.yield %0 : tensor<4xf32>
  }
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected a stream from 1 to 7, got 0}}
  %t = comm.start stream(0) : !comm.token<tensor<8xf32>> {
    %0 = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<8xf32>
    comm.yield %0 : tensor<8xf32>
  }
  return
}

// -----

heddle.mesh @mesh <["tp"=2]>
func.func @f(%x: tensor<8xf32>) {
  // expected-error @below {{expected a stream from 1 to 7, got 8}}
  %t = comm.start stream(8) : !comm.token<tensor<8xf32>> {
    %0 = comm.all_reduce sum %x over @mesh <{"tp"}> : tensor<8xf32>
    comm.yield %0 : tensor<8xf32>
  }
  return
}
