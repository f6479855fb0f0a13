//===- ConvertRtToLLVM.cpp - heddle-convert-rt-to-llvm --------------------===//

#include "CallTable.h"
#include "InPlaceResults.h"
#include "ProgramConversion.h"
#include "Staging.h"
#include "heddle/Lower/Artifact.h"
#include "heddle/Lower/Passes.h"
#include "heddle_rt/abi.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace heddle {
#define GEN_PASS_DEF_CONVERTRTTOLLVMPASS
#include "heddle/Lower/Passes.h.inc"
} // namespace heddle

using namespace mlir;
using namespace heddle;

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

void ProgramConversion::convert(rt::CopyOp op) {
  Value from = address(op, op.getFrom());
  if (Value dynamic = op.getFromOffset())
    from = f.builder.create<LLVM::GEPOp>(
        f.loc, from.getType(), f.builder.getI8Type(), from,
        ArrayRef<LLVM::GEPArg>{index(dynamic)});
  int64_t blocks = op.getBlocks();
  f.call("heddle_rt_copy",
         {stream(op), from, f.i64(op.getFromStride()), address(op, op.getTo()),
          f.i64(op.getToStride()), f.i64(blocks),
          op.getBytes() ? index(op.getBytes())
                        : f.i64(op.getTo().getBytes() / blocks)});
}

void ProgramConversion::convert(rt::FillZeroOp op) {
  f.call("heddle_rt_fill_zero",
         {stream(op), address(op, op.getTo()), f.i64(op.getTo().getBytes())});
}

//===----------------------------------------------------------------------===//
// Control
//===----------------------------------------------------------------------===//

void ProgramConversion::convert(rt::WhileOp op) {
  if (isForGpu(program->getParentOfType<ModuleOp>())) {
    op.emitOpError() << "cannot be compiled for a GPU: the host would have to "
                        "read the loop's condition from the GPU's memory";
    failed = true;
    return;
  }
  f.loop(
      [&] {
        convertOps(op.getBefore());
        return address(op, op.getCondition());
      },
      [&] { convertOps(op.getAfter()); });
}

void ProgramConversion::convert(rt::RecordOp op) {
  f.call("heddle_rt_event_record", {stream(op), f.i32(op.getEvent())});
}

void ProgramConversion::convert(rt::WaitOp op) {
  f.call("heddle_rt_event_wait", {stream(op), f.i32(op.getEvent())});
}

void ProgramConversion::convert(rt::CoordinateOp op) {
  auto mesh = runtime.symbols.lookup<MeshOp>(op.getMesh());
  int64_t number = 0;
  for (MeshAxisAttr axis : mesh.getMesh().getAxes()) {
    if (axis.getName() == op.getAxisAttr())
      break;
    ++number;
  }
  indices[op.getResult()] = f.coordinate(number);
}

//===----------------------------------------------------------------------===//
// Index arithmetic
//===----------------------------------------------------------------------===//

void ProgramConversion::convertArith(Operation *op) {
  OpBuilder &b = f.builder;
  Location loc = f.loc;
  auto operand = [&](int i) { return index(op->getOperand(i)); };
  Value result =
      llvm::TypeSwitch<Operation *, Value>(op)
          .Case<arith::ConstantOp>([&](auto c) -> Value {
            auto value = dyn_cast<IntegerAttr>(c.getValue());
            if (!value)
              return nullptr;
            if (c.getType().isInteger(1))
              return b.create<LLVM::ConstantOp>(loc, value);
            return f.i64(value.getInt());
          })
          .Case<arith::AddIOp>([&](auto) -> Value {
            return b.create<LLVM::AddOp>(loc, operand(0), operand(1));
          })
          .Case<arith::SubIOp>([&](auto) -> Value {
            return b.create<LLVM::SubOp>(loc, operand(0), operand(1));
          })
          .Case<arith::MulIOp>([&](auto) -> Value {
            return b.create<LLVM::MulOp>(loc, operand(0), operand(1));
          })
          .Case<arith::DivSIOp>([&](auto) -> Value {
            return b.create<LLVM::SDivOp>(loc, operand(0), operand(1));
          })
          .Case<arith::DivUIOp>([&](auto) -> Value {
            return b.create<LLVM::UDivOp>(loc, operand(0), operand(1));
          })
          .Case<arith::RemSIOp>([&](auto) -> Value {
            return b.create<LLVM::SRemOp>(loc, operand(0), operand(1));
          })
          .Case<arith::RemUIOp>([&](auto) -> Value {
            return b.create<LLVM::URemOp>(loc, operand(0), operand(1));
          })
          .Case<arith::MinSIOp>([&](auto) -> Value {
            return b.create<LLVM::SMinOp>(loc, operand(0), operand(1));
          })
          .Case<arith::MaxSIOp>([&](auto) -> Value {
            return b.create<LLVM::SMaxOp>(loc, operand(0), operand(1));
          })
          .Case<arith::CmpIOp>([&](arith::CmpIOp c) -> Value {
            return b.create<LLVM::ICmpOp>(
                loc, static_cast<LLVM::ICmpPredicate>(c.getPredicate()),
                operand(0), operand(1));
          })
          .Case<arith::SelectOp>([&](auto) -> Value {
            return b.create<LLVM::SelectOp>(loc, operand(0), operand(1),
                                            operand(2));
          })
          .Case<arith::IndexCastOp, arith::IndexCastUIOp>([&](auto c) -> Value {
            return c.getType().isIndex() || c.getType().isInteger(64)
                       ? operand(0)
                       : nullptr;
          })
          .Default([](Operation *) { return nullptr; });
  if (!result) {
    op->emitOpError() << "is not index arithmetic that programs can do";
    failed = true;
    return;
  }
  indices[op->getResult(0)] = result;
}

//===----------------------------------------------------------------------===//
// All ops of a program
//===----------------------------------------------------------------------===//

void ProgramConversion::convertOp(Operation *op) {
  f.loc = op->getLoc();
  llvm::TypeSwitch<Operation *>(op)
      .Case<rt::LaunchOp, rt::MatmulOp, rt::AttentionOp, rt::AttentionGradOp,
            rt::EmbeddingGradOp, rt::RotaryTableOp, rt::CopyOp, rt::FillZeroOp,
            rt::AllReduceOp, rt::AllGatherOp, rt::ReduceScatterOp,
            rt::AllToAllOp, rt::BroadcastOp, rt::PermuteOp, rt::SendOp,
            rt::RecvOp, rt::WhileOp, rt::RecordOp, rt::WaitOp,
            rt::CoordinateOp>([&](auto o) { convert(o); })
      .Default([&](Operation *) { convertArith(op); });
}

void ProgramConversion::convertOps(Region &region) {
  for (Block &block : region)
    for (Operation &op : block)
      if (!failed)
        convertOp(&op);
}

LogicalResult ProgramConversion::run() {
  convertOps(program.getBody());
  if (failed)
    return failure();
  f.finish();
  return success();
}

namespace {
struct ConvertRtToLLVM
    : heddle::impl::ConvertRtToLLVMPassBase<ConvertRtToLLVM> {
  void runOnOperation() override {
    ModuleOp module = getOperation();
    RuntimeModule runtime(module);
    OpBuilder builder(module.getContext());
    std::string calls;
    if (!module.getOps<rt::ProgramOp>().empty())
      calls = getCallTable(module);
    auto pointer = LLVM::LLVMPointerType::get(module.getContext());
    auto type =
        LLVM::LLVMFunctionType::get(builder.getI32Type(), {pointer, pointer});
    for (auto program :
         llvm::make_early_inc_range(module.getOps<rt::ProgramOp>())) {
      builder.setInsertionPoint(program);
      std::string name = ("heddle_program_" + program.getSymName()).str();
      if (runtime.symbols.lookup(name)) {
        program.emitOpError() << "expected no other symbol named @" << name;
        return signalPassFailure();
      }
      auto function =
          builder.create<LLVM::LLVMFuncOp>(program.getLoc(), name, type);
      int32_t events = 0;
      program.walk([&](rt::RecordOp record) {
        events = std::max<int32_t>(events, record.getEvent() + 1);
      });
      ArrayAttr inPlace = findInPlaceResults(program);
      SmallVector<int64_t> staging = getStaging(program);
      if (mlir::failed(ProgramConversion(runtime, program, function).run()))
        return signalPassFailure();
      auto exported = builder.create<rt::ExportOp>(
          program.getLoc(), program.getSymNameAttr(),
          FlatSymbolRefAttr::get(function), program.getArenaAttr(),
          program.getStreamsAttr(), builder.getI32IntegerAttr(events),
          program.getInputsAttr(), program.getOutputsAttr());
      for (StringRef name :
           {kRanksAttrName, kRoleAttrName, kStageProgramAttrName})
        if (Attribute attribute = program->getAttr(name))
          exported->setAttr(name, attribute);
      if (inPlace)
        exported->setAttr(kInplaceAttrName, inPlace);
      if (!staging.empty())
        exported->setAttr(kStagingAttrName,
                          builder.getDenseI64ArrayAttr(staging));
      runtime.exportConstant(
          name + ".frame",
          heddle_rt_frame_sizes{int64_t(program.getArena()),
                                runtime.getNumVariables(),
                                int64_t(program.getInputs().size()),
                                int64_t(program.getOutputs().size())});
      program.erase();
    }
    runtime.recordGroups();
    runtime.recordWork();
    runtime.recordProducts();
    runtime.recordAttentions();
    if (!calls.empty() && !runtime.symbols.lookup(kCallTableName))
      runtime.exportText(kCallTableName, calls);
  }
};
} // namespace
