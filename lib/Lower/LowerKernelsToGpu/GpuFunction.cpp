//===- GpuFunction.cpp - The function of one or several kernels -----------===//

#include "../Batches/Batches.h"
#include "GpuEmitter.h"
#include "heddle/Support/Bytes.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

/// The most bytes of parameters that the driver takes without PTX 8.1.
static constexpr int64_t kMostParameterBytes = 4352;

/// Returns the bytes of a kernel's operands and results; -1 for numbers.
static SmallVector<int64_t> getParameterBytes(func::FuncOp kernel) {
  SmallVector<Type> types(kernel.getArgumentTypes());
  llvm::append_range(types, kernel.getResultTypes());
  return llvm::map_to_vector(types, [](Type type) {
    return isa<RankedTensorType>(type) ? getBytes(type) : int64_t(-1);
  });
}

/// Sets the attributes that say what the parameters are.
static void describeParameters(LLVM::LLVMFuncOp function, OpBuilder &builder,
                               ArrayRef<GpuPart> parts, bool isTable) {
  SmallVector<int64_t> bytes;
  int64_t launches = 0;
  for (const GpuPart &part : parts)
    for (int64_t copy = 0; copy < part.copies; ++copy, ++launches)
      llvm::append_range(bytes, getParameterBytes(part.plan->kernel));
  if (isTable) {
    function->setAttr(kLaunchesAttrName, builder.getI64IntegerAttr(launches));
    function->setAttr(kTableAttrName, builder.getDenseI64ArrayAttr(bytes));
    bytes = {int64_t(bytes.size()) * 8};
  }
  for (auto [i, size] : llvm::enumerate(bytes))
    if (size >= 0)
      function.setArgAttr(i, LLVM::LLVMDialect::getDereferenceableAttrName(),
                          builder.getI64IntegerAttr(size));
}

/// Tells ptxas how many blocks a multiprocessor should run at once. Without
/// this hint, ptxas gives each thread so few registers that more blocks could
/// run, and spills.
static void setBlocksAtOnce(LLVM::LLVMFuncOp function, OpBuilder &builder,
                            ArrayRef<std::unique_ptr<GpuEmitter>> emitters) {
  // The number of registers per thread up to which ptxas needs no such hint.
  constexpr int64_t kFewRegisters = 64;
  int64_t blocks = INT64_MAX;
  bool needs = false;
  for (const std::unique_ptr<GpuEmitter> &emitter : emitters) {
    const GpuLayout &layout = emitter->getLayout();
    needs |=
        layout.needsManyRegisters || layout.countRegisters() > kFewRegisters;
    blocks = std::min(
        blocks, layout.needsManyRegisters ? 1 : layout.countBlocksAtOnce());
  }
  if (needs)
    function->setAttr(NVVM::NVVMDialect::getMinctasmAttrName(),
                      builder.getI32IntegerAttr(int32_t(blocks)));
}

FailureOr<LLVM::LLVMFuncOp>
heddle::lower::emitGpuFunction(OpBuilder &builder, StringRef name,
                               ArrayRef<GpuPart> parts, GpuRows rows) {
  func::FuncOp first = parts.front().plan->kernel;
  Location loc = first.getLoc();
  bool isTable = parts.size() > 1 || parts.front().copies > 1;
  std::vector<std::unique_ptr<GpuEmitter>> emitters;
  int64_t threads = 0, blocks = 0;
  for (const GpuPart &part : parts) {
    emitters.push_back(
        std::make_unique<GpuEmitter>(*part.plan, part.plan->kernel.getLoc(),
                                     builder, rows, part.alignments));
    threads = std::max(threads, emitters.back()->getLayout().threads());
  }
  // If parts have different numbers of threads, all get the largest number,
  // rounded up to whole warps. The parts with fewer threads are flexible (see
  // GpuLayout::isFlexible).
  if (llvm::any_of(emitters, [&](const auto &emitter) {
        return emitter->getLayout().threads() != threads;
      }))
    threads = llvm::alignTo(threads, kWarp);
  for (auto [part, emitter] : llvm::zip(parts, emitters)) {
    if (emitter->getLayout().threads() != threads)
      emitter->getLayout().setThreads(threads);
    blocks += emitter->getLayout().blocks * part.copies;
  }

  auto pointer = LLVM::LLVMPointerType::get(builder.getContext(),
                                            NVVM::kGlobalMemorySpace);
  SmallVector<Type> types;
  if (isTable)
    types = {pointer};
  else
    for (int64_t bytes : getParameterBytes(first))
      types.push_back(bytes < 0 ? Type(builder.getI64Type()) : Type(pointer));
  if (int64_t(types.size()) * 8 > kMostParameterBytes)
    return first.emitOpError()
           << "expected at most " << kMostParameterBytes / 8
           << " operands and results on a GPU, got " << types.size();
  auto function = builder.create<LLVM::LLVMFuncOp>(
      loc, name,
      LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(builder.getContext()),
                                  types));
  function->setAttr(NVVM::NVVMDialect::getKernelFuncAttrName(),
                    builder.getUnitAttr());
  function->setAttr(NVVM::NVVMDialect::getReqntidAttrName(),
                    builder.getDenseI32ArrayAttr({int32_t(threads)}));
  setBlocksAtOnce(function, builder, emitters);
  function->setAttr(kBlocksAttrName, builder.getI64IntegerAttr(blocks));
  function->setAttr(kGrainAttrName, builder.getI64IntegerAttr(1));
  describeParameters(function, builder, parts, isTable);
  auto shared = builder.create<LLVM::GlobalOp>(
      loc, LLVM::LLVMArrayType::get(builder.getI8Type(), 0),
      /*isConstant=*/false, LLVM::Linkage::Internal, (name + "_shared").str(),
      Attribute(), /*alignment=*/16, NVVM::kSharedMemorySpace);

  OpBuilder::InsertionGuard guard(builder);
  Block *entry = function.addEntryBlock(builder);
  LoopBuilder b(loc, builder);
  b.setInsertionPointToStart(entry);
  Value block = b.create<arith::ExtUIOp>(
      b.getI64Type(), b.create<NVVM::BlockIdXOp>(b.getI32Type()));
  // The parts' blocks follow each other, as do their rows of the table.
  int64_t begin = 0, row = 0, sharedBytes = 0;
  bool isDone = true;
  Block *current = entry;
  for (auto [i, part] : llvm::enumerate(parts)) {
    GpuEmitter &emitter = *emitters[i];
    Region &body = function.getBody();
    int64_t end = begin + emitter.getLayout().blocks * part.copies;
    Block *here = current, *next = nullptr;
    if (i + 1 < parts.size()) {
      here = b.createBlock(&body, body.end());
      next = b.createBlock(&body, body.end());
      b.setInsertionPointToEnd(current);
      Value isHere =
          b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, block, b.i64(end));
      b.create<LLVM::CondBrOp>(isHere, here, ValueRange(), next, ValueRange());
    }
    b.setInsertionPointToEnd(here);
    GpuEmitter::Place place;
    place.function = function;
    place.entry = entry;
    place.start = here;
    place.block =
        begin ? Value(b.create<arith::SubIOp>(block, b.i64(begin))) : block;
    if (isTable)
      place.table =
          b.address(function.getArgument(0), row ? b.i64(row) : Value(),
                    ElementType(b.getI64Type()));
    place.copies = part.copies;
    place.sharedName = shared.getSymName().str();
    isDone &= succeeded(emitter.emit(place));
    sharedBytes = std::max(sharedBytes, emitter.getSharedBytes());
    row += int64_t(emitter.countParameters()) * part.copies;
    begin = end;
    if (next)
      next->moveBefore(&body, body.end());
    current = next;
  }
  if (!isDone) {
    function.erase();
    shared.erase();
    return failure();
  }
  if (sharedBytes)
    shared.setGlobalTypeAttr(
        TypeAttr::get(LLVM::LLVMArrayType::get(b.getI8Type(), sharedBytes)));
  else
    shared.erase();
  return function;
}
