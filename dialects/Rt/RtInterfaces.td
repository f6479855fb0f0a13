//===- RtInterfaces.td - What a call does to memory --------*- tablegen -*-===//

#ifndef RT_INTERFACES
#define RT_INTERFACES

include "mlir/IR/OpBase.td"

def DeviceCallOpInterface : OpInterface<"DeviceCallOpInterface"> {
  let cppNamespace = "::heddle::rt";
  let description = [{
    One call of the runtime: it is ordered on a stream, serves operators, and
    reads and writes buffers.
  }];
  let methods = [
    InterfaceMethod<"Returns the stream that the call is ordered on.",
      "int32_t", "getStream", (ins), "return $_op.getStream();">,
    InterfaceMethod<"Returns the operators that the call serves.",
      "::heddle::ServesAttr", "getServes", (ins), "return $_op.getServes();">,
    InterfaceMethod<"Returns the kind of work that the call does.",
      "::heddle::rt::WorkKind", "getWorkKind", (ins),
      "return $_op.getWorkKind();">,
    InterfaceMethod<[{
      Returns the buffers that the call may touch. A buffer that it reads and
      writes counts as written.
    }], "::heddle::rt::Accesses", "getAccesses">
  ];
  let extraClassDeclaration = [{
    /// Returns true if the call is a collective, a send or a receive.
    bool isCommunication() {
      return getWorkKind() == ::heddle::rt::WorkKind::Collective;
    }
  }];
}

#endif // RT_INTERFACES
