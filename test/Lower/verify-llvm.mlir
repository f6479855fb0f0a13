// RUN: heddle-opt %s --split-input-file --verify-diagnostics --heddle-verify-llvm

module attributes {rt.groups = [#heddle.axes<{"dp"}>]} {
  heddle.mesh @mesh <["dp"=2]>
  llvm.func @kernel_0(%buffers: !llvm.ptr, %begin: i64, %end: i64) attributes {heddle.blocks = 12 : i64, heddle.grain = 3 : i64} {
    llvm.return
  }
  llvm.func @heddle_program_step(%device: !llvm.ptr, %frame: !llvm.ptr) -> i32 {
    %0 = llvm.mlir.constant(0 : i32) : i32
    llvm.return %0 : i32
  }
  rt.export @step as @heddle_program_step arena(0)
}

// -----

module attributes {rt.groups = []} {
  // expected-error @below {{expected to have become a function of the LLVM dialect}}
  rt.program @step arena(0) {
  }
}

// -----

module attributes {rt.groups = []} {
  // expected-error @below {{expected to have become a function of the LLVM dialect}}
  func.func private @kernel_0() attributes {heddle.kernel} {
    return
  }
}

// -----

module attributes {rt.groups = []} {
  // expected-error @below {{expected @heddle_program_step to be a program's llvm.func}}
  rt.export @step as @heddle_program_step arena(0)
}

// -----

module attributes {rt.groups = []} {
  llvm.func @program_step(%device: !llvm.ptr, %frame: !llvm.ptr) -> i32 {
    %0 = llvm.mlir.constant(0 : i32) : i32
    llvm.return %0 : i32
  }
  // expected-error @below {{expected a function @heddle_program_step, got @program_step}}
  rt.export @step as @program_step arena(0)
}

// -----

module attributes {rt.groups = []} {
  // expected-error @below {{expected the type '!llvm.func<i32 (ptr, ptr)>', got '!llvm.func<void (ptr)>'}}
  llvm.func @heddle_program_step(%device: !llvm.ptr) {
    llvm.return
  }
  rt.export @step as @heddle_program_step arena(0)
}

// -----

module attributes {rt.groups = []} {
  // expected-error @below {{expected a function with a body}}
  llvm.func @heddle_program_step(!llvm.ptr, !llvm.ptr) -> i32
  rt.export @step as @heddle_program_step arena(0)
}

// -----

module attributes {rt.groups = []} {
  // expected-error @below {{expected the type '!llvm.func<void (ptr, i64, i64)>', got '!llvm.func<void (ptr)>'}}
  llvm.func @kernel_0(%buffers: !llvm.ptr) attributes {heddle.blocks = 12 : i64} {
    llvm.return
  }
}

// -----

module attributes {rt.groups = []} {
  llvm.func @kernel_0(%buffers: !llvm.ptr, %begin: i64, %end: i64) attributes {heddle.blocks = 12 : i64} {
    // expected-error @below {{expected only ops of the LLVM dialect in @kernel_0}}
    %0 = arith.addi %begin, %end : i64
    llvm.return
  }
}

// -----

// expected-error @below {{expected rt.groups, a list of mesh axes for each group}}
module {
}

// -----

// expected-error @below {{expected rt.groups to hold mesh axes, got "dp"}}
module attributes {rt.groups = ["dp"]} {
}

// -----

// expected-error @below {{expected rt.groups to hold axes of a heddle.mesh of this module, got "tp"}}
module attributes {rt.groups = [#heddle.axes<{"tp"}>]} {
  heddle.mesh @mesh <["dp"=2]>
}
