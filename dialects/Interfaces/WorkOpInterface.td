//===- WorkOpInterface.td - FLOPs and bytes of an op -------*- tablegen -*-===//

#ifndef HEDDLE_WORK_OPINTERFACE
#define HEDDLE_WORK_OPINTERFACE

include "mlir/IR/OpBase.td"

def WorkOpInterface : OpInterface<"WorkOpInterface"> {
  let cppNamespace = "::heddle";
  let description = [{
    The arithmetic and the memory traffic of an op for its present (local)
    shapes. Ops of other dialects get it by external models.
  }];
  let methods = [
    InterfaceMethod<[{
      Returns the FLOPs (a multiply-add counts as two) and the bytes that any
      execution must read and write.
    }], "::heddle::Work", "getWork">
  ];
}

#endif
