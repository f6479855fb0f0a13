// RUN: heddle-opt %s --split-input-file --heddle-verify-gpu-kernels --verify-diagnostics

// LLVM would end the process at the sine.
llvm.func @kernel_sine(%x: f64, %out: !llvm.ptr<1>) attributes {nvvm.kernel} {
  // expected-error @below {{cannot be compiled for a GPU: no instructions compute it for 'f64'}}
  %y = llvm.intr.sin(%x) : (f64) -> f64
  llvm.store %y, %out : f64, !llvm.ptr<1>
  llvm.return
}

// -----

llvm.func @tanf(f32) -> f32
llvm.func @kernel_library(%x: f32, %out: !llvm.ptr<1>) attributes {nvvm.kernel} {
  // expected-error @below {{cannot be compiled for a GPU: there is no tanf there}}
  %y = llvm.call @tanf(%x) : (f32) -> f32
  llvm.store %y, %out : f32, !llvm.ptr<1>
  llvm.return
}

// -----

// Other functions are not looked at, and known intrinsics pass.
llvm.func @host(%x: f64) -> f64 {
  %y = llvm.intr.sin(%x) : (f64) -> f64
  llvm.return %y : f64
}
llvm.func @kernel_root(%x: f32, %out: !llvm.ptr<1>) attributes {nvvm.kernel} {
  %y = llvm.intr.sqrt(%x) : (f32) -> f32
  nvvm.barrier0
  llvm.store %y, %out : f32, !llvm.ptr<1>
  llvm.return
}
