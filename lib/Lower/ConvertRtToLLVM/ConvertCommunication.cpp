//===- ConvertCommunication.cpp - Collectives and transfers as calls ------===//

#include "ProgramConversion.h"

using namespace mlir;
using namespace heddle;

namespace {
/// The products of the sizes before (`outer`) and after (`inner`) dimension
/// `dim`. For the shape 2x3x4x5 and dimension 1: 2 and 20.
struct Around {
  int64_t outer = 1, inner = 1;
  Around(ArrayRef<int64_t> shape, int64_t dim) {
    for (int64_t i = 0; i < dim; ++i)
      outer *= shape[i];
    for (size_t i = dim + 1; i < shape.size(); ++i)
      inner *= shape[i];
  }
};
} // namespace

void ProgramConversion::convert(rt::AllReduceOp op) {
  SmallVector<Value> operands = onGroup(op);
  llvm::append_values(operands, f.i32(static_cast<int32_t>(op.getKind())),
                      type(op.getIn()), address(op, op.getIn()),
                      address(op, op.getOut()),
                      f.i64(op.getIn().getNumElements()));
  f.call("heddle_rt_all_reduce", operands);
}

void ProgramConversion::convert(rt::AllGatherOp op) {
  ArrayRef<int64_t> in = op.getIn().getType().getShape();
  Around around(in, op.getDim());
  SmallVector<Value> operands = onGroup(op);
  llvm::append_values(operands, type(op.getIn()), address(op, op.getIn()),
                      address(op, op.getOut()), f.i64(around.outer),
                      f.i64(in[op.getDim()]),
                      f.i64(op.getOut().getType().getDimSize(op.getDim())),
                      f.i64(around.inner));
  f.call("heddle_rt_all_gather", operands);
}

void ProgramConversion::convert(rt::ReduceScatterOp op) {
  ArrayRef<int64_t> in = op.getIn().getType().getShape();
  Around around(in, op.getDim());
  SmallVector<Value> operands = onGroup(op);
  llvm::append_values(operands, f.i32(static_cast<int32_t>(op.getKind())),
                      type(op.getIn()), address(op, op.getIn()),
                      address(op, op.getOut()), f.i64(around.outer),
                      f.i64(op.getOut().getType().getDimSize(op.getDim())),
                      f.i64(in[op.getDim()]), f.i64(around.inner));
  f.call("heddle_rt_reduce_scatter", operands);
}

void ProgramConversion::convert(rt::AllToAllOp op) {
  ArrayRef<int64_t> in = op.getIn().getType().getShape();
  ArrayRef<int64_t> out = op.getOut().getType().getShape();
  int64_t split = op.getSplitDim(), concat = op.getConcatDim();
  int64_t outer = 1, middle = 1, inner = 1;
  for (int64_t i = 0; i < int64_t(in.size()); ++i) {
    if (i == split || i == concat)
      continue;
    (i < std::min(split, concat)   ? outer
     : i < std::max(split, concat) ? middle
                                   : inner) *= in[i];
  }
  SmallVector<Value> operands = onGroup(op);
  llvm::append_values(operands, type(op.getIn()), address(op, op.getIn()),
                      address(op, op.getOut()), f.i32(split < concat),
                      f.i64(outer), f.i64(in[split]), f.i64(out[split]),
                      f.i64(middle), f.i64(in[concat]), f.i64(out[concat]),
                      f.i64(inner));
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
