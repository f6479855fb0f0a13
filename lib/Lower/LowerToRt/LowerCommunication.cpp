//===- LowerCommunication.cpp - Collectives as calls of the runtime -------===//

#include "ProgramLowering.h"

using namespace mlir;
using namespace heddle;

Value ProgramLowering::lowerAxisIndex(FlatSymbolRefAttr mesh,
                                      AxisListAttr axes) {
  MeshOp op = lookupMesh(function, mesh);
  Value linear;
  for (StringAttr axis : axes.getAxes()) {
    Value coordinate = builder.create<rt::CoordinateOp>(
        loc, builder.getIndexType(), mesh, axis);
    int64_t size = op ? op.getMesh().getAxisSize(axis) : 1;
    linear =
        linear ? builder.create<arith::AddIOp>(
                     loc,
                     builder.create<arith::MulIOp>(loc, linear, constant(size)),
                     coordinate)
               : coordinate;
  }
  return linear ? linear : constant(0);
}

LogicalResult ProgramLowering::lowerSlice(comm::SliceOp op) {
  rt::BufferAttr from = place(op.getInput()), to = place(op.getResult());
  int64_t dim = op.getDim();
  ArrayRef<int64_t> shape = from.getType().getShape();
  int64_t total = shape[dim], local = to.getType().getDimSize(dim);
  int64_t outer = 1, row = rt::getByteSize(from.getType().getElementType());
  for (int64_t i = 0; i < dim; ++i)
    outer *= shape[i];
  for (size_t i = dim + 1; i < shape.size(); ++i)
    row *= shape[i];
  MeshOp mesh = lookupMesh(op, op.getMeshAttr());
  if (!mesh)
    return op.emitOpError() << "expected " << op.getMeshAttr()
                            << " to be a heddle.mesh in this module";
  int64_t members = mesh.getMesh().getSize(op.getAxes().getAxes());
  Value first = builder.create<arith::MulIOp>(
      loc, lowerAxisIndex(op.getMeshAttr(), op.getAxes()), constant(local));
  Value bytes;
  if (members * local != total) {
    // The slices of the last members reach beyond the end and are zero there.
    builder.create<rt::FillZeroOp>(loc, to, kComputeStream, servesOf(op));
    first = builder.create<arith::MinSIOp>(loc, first, constant(total));
    Value rest = builder.create<arith::SubIOp>(loc, constant(total), first);
    bytes = builder.create<arith::MulIOp>(
        loc, builder.create<arith::MinSIOp>(loc, rest, constant(local)),
        constant(row));
  }
  Value offset = builder.create<arith::MulIOp>(loc, first, constant(row));
  builder.create<rt::CopyOp>(loc, from, to, offset, bytes, outer, total * row,
                             local * row, kComputeStream, servesOf(op));
  return success();
}

LogicalResult ProgramLowering::lowerCollective(Operation *op,
                                               rt::BufferAttr out,
                                               int32_t number) {
  if (failed(comm::verifyContiguous(op)))
    return failure();
  rt::BufferAttr in = place(op->getOperand(0));
  auto mesh = op->getAttrOfType<FlatSymbolRefAttr>("mesh");
  auto axes = op->getAttrOfType<AxisListAttr>("axes");
  IntegerAttr on = stream(number);
  ServesAttr serves = servesOf(op);
  llvm::TypeSwitch<Operation *>(op)
      .Case<comm::AllReduceOp>([&](auto c) {
        builder.create<rt::AllReduceOp>(loc, in, out, mesh, axes,
                                        c.getKindAttr(), on, serves);
      })
      .Case<comm::AllGatherOp>([&](auto) {
        builder.create<rt::AllGatherOp>(loc, in, out, mesh, axes, on, serves);
      })
      .Case<comm::ReduceScatterOp>([&](auto c) {
        builder.create<rt::ReduceScatterOp>(loc, in, out, mesh, axes,
                                            c.getKindAttr(), on, serves);
      })
      .Case<comm::AllToAllOp>([&](auto) {
        builder.create<rt::AllToAllOp>(loc, in, out, mesh, axes, on, serves);
      })
      .Case<comm::BroadcastOp>([&](auto c) {
        builder.create<rt::BroadcastOp>(loc, in, out, mesh, axes,
                                        c.getRootAttr(), on, serves);
      })
      .Case<comm::PermuteOp>([&](auto c) {
        builder.create<rt::PermuteOp>(loc, in, out, mesh, axes,
                                      c.getSourcesAttr(), on, serves);
      })
      .Default([&](Operation *) {
        op->emitOpError() << "is not a collective that programs can run";
        failedPlace = true;
      });
  return success(!failedPlace);
}

void ProgramLowering::lowerStart(comm::StartOp op) {
  int32_t number = op.getStream();
  rt::BufferAttr out;
  int waits = 0;
  for (Operation *user : op->getUsers())
    if (auto wait = dyn_cast<comm::WaitOp>(user)) {
      out = place(wait.getResult());
      ++waits;
    }
  if (waits != 1) {
    op.emitOpError() << "expected one comm.wait for the token, got " << waits;
    failedPlace = true;
    return;
  }
  // The collective waits only for calls that were issued before it.
  builder.create<rt::RecordOp>(loc, events, kComputeStream);
  builder.create<rt::WaitOp>(loc, events, number);
  if (failed(lowerCollective(op.getCollective(), out, number)))
    return;
  builder.create<rt::RecordOp>(loc, ++events, number);
  eventOfStart[op] = events++;
  program.setStreams(std::max<int32_t>(program.getStreams(), number + 1));
}

void ProgramLowering::lowerTransfer(Operation *op) {
  auto mesh = op->getAttrOfType<FlatSymbolRefAttr>("mesh");
  auto axes = op->getAttrOfType<AxisListAttr>("axes");
  MeshOp meshOp = lookupMesh(op, mesh);
  int64_t members = std::max<int64_t>(
      1, meshOp ? meshOp.getMesh().getSize(axes.getAxes()) : 1);
  int64_t shift = op->getAttrOfType<IntegerAttr>("shift").getInt();
  int64_t distance = (shift % members + members) % members;
  Value peer = builder.create<arith::RemSIOp>(
      loc,
      builder.create<arith::AddIOp>(loc, lowerAxisIndex(mesh, axes),
                                    constant(distance)),
      constant(members));
  if (isa<comm::SendOp>(op))
    builder.create<rt::SendOp>(loc, place(op->getOperand(0)), peer, mesh, axes,
                               stream(kComputeStream), servesOf(op));
  else
    builder.create<rt::RecvOp>(loc, place(op->getResult(0)), peer, mesh, axes,
                               stream(kComputeStream), servesOf(op));
}
