//===- ConvertCommunication.cpp - Collectives and transfers as calls ------===//

#include "ProgramConversion.h"

using namespace mlir;
using namespace heddle;

void ProgramConversion::convert(rt::AllReduceOp op) {
  SmallVector<Value> operands = onGroup(op);
  llvm::append_values(operands, f.i32(static_cast<int32_t>(op.getKind())),
                      type(op.getIn()), address(op, op.getIn()),
                      address(op, op.getOut()),
                      f.i64(op.getIn().getNumElements()));
  f.call("heddle_rt_all_reduce", operands);
}

void ProgramConversion::convert(rt::AllGatherOp op) {
  SmallVector<Value> operands = onGroup(op);
  llvm::append_values(operands, type(op.getIn()), address(op, op.getIn()),
                      address(op, op.getOut()),
                      f.i64(op.getIn().getNumElements()));
  f.call("heddle_rt_all_gather", operands);
}

void ProgramConversion::convert(rt::ReduceScatterOp op) {
  SmallVector<Value> operands = onGroup(op);
  llvm::append_values(operands, f.i32(static_cast<int32_t>(op.getKind())),
                      type(op.getIn()), address(op, op.getIn()),
                      address(op, op.getOut()),
                      f.i64(op.getOut().getNumElements()));
  f.call("heddle_rt_reduce_scatter", operands);
}

void ProgramConversion::convert(rt::AllToAllOp op) {
  auto mesh = runtime.symbols.lookup<MeshOp>(op.getMesh());
  int64_t members = mesh.getMesh().getSize(op.getAxes().getAxes());
  SmallVector<Value> operands = onGroup(op);
  llvm::append_values(operands, type(op.getIn()), address(op, op.getIn()),
                      address(op, op.getOut()),
                      f.i64(op.getIn().getNumElements() / members));
  f.call("heddle_rt_all_to_all", operands);
}

void ProgramConversion::convert(rt::BroadcastOp op) {
  SmallVector<Value> operands = onGroup(op);
  llvm::append_values(operands, f.i32(op.getRoot()), type(op.getIn()),
                      address(op, op.getIn()), address(op, op.getOut()),
                      f.i64(op.getIn().getNumElements()));
  f.call("heddle_rt_broadcast", operands);
}

void ProgramConversion::convert(rt::PermuteOp op) {
  SmallVector<int32_t> sources(op.getSources());
  LLVM::GlobalOp data =
      runtime.getConstant({reinterpret_cast<const char *>(sources.data()),
                           sources.size() * sizeof(int32_t)},
                          alignof(int32_t));
  SmallVector<Value> operands = onGroup(op);
  llvm::append_values(operands, f.addressOf(data), type(op.getIn()),
                      address(op, op.getIn()), address(op, op.getOut()),
                      f.i64(op.getIn().getNumElements()));
  f.call("heddle_rt_permute", operands);
}

template <typename Op>
void ProgramConversion::convertTransfer(Op op, StringRef function) {
  SmallVector<Value> operands = onGroup(op);
  Value peer = f.builder.create<LLVM::TruncOp>(f.loc, f.builder.getI32Type(),
                                               index(op.getPeer()));
  llvm::append_values(operands, peer, type(op.getBuffer()),
                      address(op, op.getBuffer()),
                      f.i64(op.getBuffer().getNumElements()));
  f.call(function, operands);
}

void ProgramConversion::convert(rt::SendOp op) {
  convertTransfer(op, "heddle_rt_send");
}

void ProgramConversion::convert(rt::RecvOp op) {
  convertTransfer(op, "heddle_rt_recv");
}
