//===- RuntimeCalls.cpp - Builds functions that call the runtime ----------===//

#include "RuntimeCalls.h"
#include "../Batches/Batches.h"
#include "heddle/Lower/Artifact.h"
#include "heddle/Support/DenseNumbers.h"
#include "heddle_rt/abi.h"
#include "mlir/Dialect/LLVMIR/NVVMDialect.h"
#include <cstddef>

using namespace mlir;
using namespace heddle;

static bool isGpuKernel(LLVM::LLVMFuncOp function) {
  return function->hasAttr(NVVM::NVVMDialect::getKernelFuncAttrName());
}

SmallVector<LLVM::LLVMFuncOp> heddle::getGpuKernels(ModuleOp module) {
  SmallVector<LLVM::LLVMFuncOp> kernels;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    if (isGpuKernel(function))
      kernels.push_back(function);
  return kernels;
}

SmallVector<int64_t> heddle::getParameterBytes(LLVM::LLVMFuncOp kernel) {
  if (auto table = kernel->getAttrOfType<DenseI64ArrayAttr>(kTableAttrName))
    return SmallVector<int64_t>(table.asArrayRef());
  SmallVector<int64_t> list;
  for (unsigned i = 0; i < kernel.getNumArguments(); ++i) {
    auto bytes = kernel.getArgAttrOfType<IntegerAttr>(
        i, LLVM::LLVMDialect::getDereferenceableAttrName());
    list.push_back(bytes ? bytes.getInt() : -1);
  }
  return list;
}

//===----------------------------------------------------------------------===//
// RuntimeModule
//===----------------------------------------------------------------------===//

RuntimeModule::RuntimeModule(ModuleOp module)
    : symbols(module), module(module), builder(module.getContext()) {
  for (auto variable : module.getOps<VariableOp>())
    variables.try_emplace(variable.getSymNameAttr(), variables.size());
  if (auto known = module->getAttrOfType<ArrayAttr>(kGroupsAttrName))
    for (Attribute group : known)
      if (auto axes = dyn_cast<AxisListAttr>(group))
        groups.push_back(axes);
}

LLVM::GlobalOp RuntimeModule::makeConstant(StringRef name,
                                           LLVM::Linkage linkage,
                                           StringRef bytes, int64_t alignment) {
  builder.setInsertionPointToEnd(module.getBody());
  auto type = LLVM::LLVMArrayType::get(builder.getI8Type(), bytes.size());
  auto constant = builder.create<LLVM::GlobalOp>(
      module.getLoc(), type, /*isConstant=*/true, linkage, name,
      builder.getStringAttr(bytes), alignment);
  symbols.insert(constant);
  return constant;
}

LLVM::GlobalOp RuntimeModule::getConstant(StringRef bytes, int64_t alignment) {
  LLVM::GlobalOp &known = constants[bytes];
  if (!known)
    known = makeConstant("data_0", LLVM::Linkage::Internal, bytes, alignment);
  return known;
}

/// Returns the elements as they lie in memory.
static std::string getRawBytes(DenseElementsAttr dense) {
  std::string bytes;
  if (dense.getElementType().isInteger(1)) {
    for (bool value : dense.getValues<bool>())
      bytes.push_back(value ? 1 : 0);
    return bytes;
  }
  ArrayRef<char> raw = dense.getRawData();
  int64_t copies = dense.isSplat() ? dense.getNumElements() : 1;
  bytes.reserve(raw.size() * copies);
  for (int64_t i = 0; i < copies; ++i)
    bytes.append(raw.begin(), raw.end());
  return bytes;
}

FailureOr<LLVM::GlobalOp> RuntimeModule::getConstant(Operation *user,
                                                     FlatSymbolRefAttr symbol) {
  auto constant = symbols.lookup<rt::ConstantOp>(symbol.getValue());
  if (!constant)
    return user->emitOpError()
           << "expected " << symbol << " to be an rt.constant of this module";
  FailureOr<DenseElementsAttr> numbers = getDenseNumbers(
      constant.getValue(), [&] { return constant.emitOpError(); });
  if (failed(numbers))
    return failure();
  return getConstant(getRawBytes(*numbers), 64);
}

LLVM::LLVMFuncOp RuntimeModule::getFunction(StringRef name,
                                            TypeRange operands) {
  LLVM::LLVMFuncOp &known = functions[name];
  if (known)
    return known;
  known = symbols.lookup<LLVM::LLVMFuncOp>(name);
  if (known)
    return known;
  builder.setInsertionPointToEnd(module.getBody());
  known = builder.create<LLVM::LLVMFuncOp>(
      module.getLoc(), name,
      LLVM::LLVMFunctionType::get(builder.getI32Type(),
                                  llvm::to_vector(operands)));
  symbols.insert(known);
  return known;
}

std::optional<int64_t>
RuntimeModule::getVariable(FlatSymbolRefAttr symbol) const {
  auto known = variables.find(symbol.getAttr());
  if (known == variables.end())
    return std::nullopt;
  return known->second;
}

int64_t RuntimeModule::getGroup(AxisListAttr axes) {
  auto known = llvm::find(groups, axes);
  if (known == groups.end()) {
    groups.push_back(axes);
    return groups.size() - 1;
  }
  return known - groups.begin();
}

void RuntimeModule::recordGroups() {
  SmallVector<Attribute> list(groups.begin(), groups.end());
  module->setAttr(kGroupsAttrName, builder.getArrayAttr(list));
}

void RuntimeModule::recordWork() {
  SmallVector<LLVM::LLVMFuncOp> kernels;
  for (auto function : module.getOps<LLVM::LLVMFuncOp>())
    if (function->hasAttrOfType<rt::WorkAttr>(rt::kWorkAttrName) &&
        !isGpuKernel(function))
      kernels.push_back(function);
  if (kernels.empty() || symbols.lookup(kKernelWorkName))
    return;
  MLIRContext *context = builder.getContext();
  Location loc = module.getLoc();
  auto pointer = LLVM::LLVMPointerType::get(context);
  // heddle_rt_kernel_work
  auto entry = LLVM::LLVMStructType::getLiteral(
      context, {pointer, builder.getI64Type(), builder.getI64Type()});
  auto table = LLVM::LLVMArrayType::get(entry, kernels.size() + 1);
  builder.setInsertionPointToEnd(module.getBody());
  auto global = builder.create<LLVM::GlobalOp>(
      loc, table, /*isConstant=*/true, LLVM::Linkage::External, kKernelWorkName,
      Attribute(), alignof(heddle_rt_kernel_work));
  symbols.insert(global);
  builder.createBlock(&global.getInitializer());
  Value value = builder.create<LLVM::ZeroOp>(loc, table); // ends with zeros
  auto set = [&](Value field, int64_t index, int64_t number) {
    value = builder.create<LLVM::InsertValueOp>(
        loc, value, field, ArrayRef<int64_t>{index, number});
  };
  for (auto [index, kernel] : llvm::enumerate(kernels)) {
    auto work = kernel->getAttrOfType<rt::WorkAttr>(rt::kWorkAttrName);
    set(builder.create<LLVM::AddressOfOp>(loc, kernel), index, 0);
    int64_t number = 1;
    for (int64_t count : {work.getFlops(), work.getBytes()})
      set(builder.create<LLVM::ConstantOp>(loc,
                                           builder.getI64IntegerAttr(count)),
          index, number++);
  }
  builder.create<LLVM::ReturnOp>(loc, value);
}

void RuntimeModule::recordProducts() {
  if (products.empty() || !isForGpu(module) || symbols.lookup(kProductsName))
    return;
  Location loc = module.getLoc();
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto table = LLVM::LLVMArrayType::get(pointer, products.size() + 1);
  builder.setInsertionPointToEnd(module.getBody());
  auto global = builder.create<LLVM::GlobalOp>(
      loc, table, /*isConstant=*/true, LLVM::Linkage::External, kProductsName,
      Attribute(), alignof(const heddle_rt_matmul_desc *));
  symbols.insert(global);
  builder.createBlock(&global.getInitializer());
  Value value = builder.create<LLVM::ZeroOp>(loc, table); // ends with a null
  for (auto [index, descriptor] : llvm::enumerate(products))
    value = builder.create<LLVM::InsertValueOp>(
        loc, value,
        builder.create<LLVM::AddressOfOp>(loc,
                                          cast<LLVM::GlobalOp>(descriptor)),
        ArrayRef<int64_t>{int64_t(index)});
  builder.create<LLVM::ReturnOp>(loc, value);
}

void RuntimeModule::recordAttentions() {
  if (attentions.empty() || !isForGpu(module) ||
      symbols.lookup(kAttentionsName))
    return;
  MLIRContext *context = builder.getContext();
  Location loc = module.getLoc();
  // heddle_rt_attention_call
  auto entry = LLVM::LLVMStructType::getLiteral(
      context, {LLVM::LLVMPointerType::get(context), builder.getI64Type()});
  auto table = LLVM::LLVMArrayType::get(entry, attentions.size() + 1);
  builder.setInsertionPointToEnd(module.getBody());
  auto global = builder.create<LLVM::GlobalOp>(
      loc, table, /*isConstant=*/true, LLVM::Linkage::External, kAttentionsName,
      Attribute(), alignof(heddle_rt_attention_call));
  symbols.insert(global);
  builder.createBlock(&global.getInitializer());
  Value value = builder.create<LLVM::ZeroOp>(loc, table); // ends with zeros
  for (auto [index, call] : llvm::enumerate(attentions)) {
    auto set = [&](Value field, int64_t number) {
      value = builder.create<LLVM::InsertValueOp>(
          loc, value, field, ArrayRef<int64_t>{int64_t(index), number});
    };
    set(builder.create<LLVM::AddressOfOp>(loc,
                                          cast<LLVM::GlobalOp>(call.first)),
        0);
    set(builder.create<LLVM::ConstantOp>(
            loc, builder.getI64IntegerAttr(call.second)),
        1);
  }
  builder.create<LLVM::ReturnOp>(loc, value);
}

//===----------------------------------------------------------------------===//
// RuntimeFunction
//===----------------------------------------------------------------------===//

RuntimeFunction::RuntimeFunction(RuntimeModule &runtime,
                                 LLVM::LLVMFuncOp function)
    : builder(function.getContext()), loc(function.getLoc()), runtime(runtime),
      function(function) {
  entry = function.addEntryBlock(builder);
  failed = builder.createBlock(&function.getBody(), function.getBody().end(),
                               builder.getI32Type(), loc);
  builder.create<LLVM::ReturnOp>(loc, failed->getArgument(0));
  builder.setInsertionPointToEnd(entry);
  arena = fieldOfFrame(offsetof(heddle_rt_frame, arena));
  variables = fieldOfFrame(offsetof(heddle_rt_frame, variables));
  arguments = fieldOfFrame(offsetof(heddle_rt_frame, arguments));
  results = fieldOfFrame(offsetof(heddle_rt_frame, results));
  coordinates = fieldOfFrame(offsetof(heddle_rt_frame, coordinates));
}

Value RuntimeFunction::i32(int64_t value) {
  return builder.create<LLVM::ConstantOp>(loc,
                                          builder.getI32IntegerAttr(value));
}

Value RuntimeFunction::i64(int64_t value) {
  return builder.create<LLVM::ConstantOp>(loc,
                                          builder.getI64IntegerAttr(value));
}

Value RuntimeFunction::null() {
  return builder.create<LLVM::ZeroOp>(
      loc, LLVM::LLVMPointerType::get(builder.getContext()));
}

Value RuntimeFunction::addressOf(LLVM::GlobalOp global) {
  return builder.create<LLVM::AddressOfOp>(loc, global);
}

Value RuntimeFunction::offset(Value pointer, int64_t bytes) {
  if (bytes == 0)
    return pointer;
  // A constant index of a GEPOp has at most 29 bits.
  LLVM::GEPArg index = llvm::isInt<29>(bytes)
                           ? LLVM::GEPArg(static_cast<int32_t>(bytes))
                           : LLVM::GEPArg(i64(bytes));
  return builder.create<LLVM::GEPOp>(loc, pointer.getType(),
                                     builder.getI8Type(), pointer,
                                     ArrayRef<LLVM::GEPArg>{index});
}

Value RuntimeFunction::fieldOfFrame(int64_t bytes) {
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  return builder.create<LLVM::LoadOp>(loc, pointer,
                                      offset(function.getArgument(1), bytes));
}

Value RuntimeFunction::addressOf(Operation *user, rt::BufferAttr buffer) {
  auto pointer = LLVM::LLVMPointerType::get(builder.getContext());
  auto element = [&](Value table, int64_t index) -> Value {
    return builder.create<LLVM::LoadOp>(
        loc, pointer, offset(table, index * int64_t(sizeof(void *))));
  };
  Value base;
  switch (buffer.getSpace()) {
  case rt::Space::Arena:
    base = arena;
    break;
  case rt::Space::Variable: {
    std::optional<int64_t> index = runtime.getVariable(buffer.getSymbol());
    if (!index) {
      user->emitOpError() << "expected " << buffer.getSymbol()
                          << " to be a heddle.variable of this module";
      return nullptr;
    }
    base = element(variables, *index);
    break;
  }
  case rt::Space::Argument:
    base = element(arguments, buffer.getIndex());
    break;
  case rt::Space::Result:
    base = element(results, buffer.getIndex());
    break;
  case rt::Space::Constant: {
    FailureOr<LLVM::GlobalOp> data =
        runtime.getConstant(user, buffer.getSymbol());
    if (mlir::failed(data))
      return nullptr;
    base = addressOf(*data);
    break;
  }
  }
  return offset(base, buffer.getOffset());
}

Value RuntimeFunction::coordinate(int64_t axis) {
  return builder.create<LLVM::LoadOp>(
      loc, builder.getI64Type(),
      offset(coordinates, axis * int64_t(sizeof(int64_t))));
}

Value RuntimeFunction::store(Scratch &scratch, ValueRange values) {
  if (!scratch.memory) {
    // Allocates in the entry block: once per call of the program, and never in
    // a loop. `finish` sets the size.
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPointToStart(entry);
    scratch.memory = builder.create<LLVM::AllocaOp>(
        loc, LLVM::LLVMPointerType::get(builder.getContext()),
        values.front().getType(), i64(1), /*alignment=*/8);
  }
  scratch.size = std::max<int64_t>(scratch.size, values.size());
  // Pointers and words both have 8 bytes.
  for (auto [i, value] : llvm::enumerate(values))
    builder.create<LLVM::StoreOp>(
        loc, value, offset(scratch.memory, i * int64_t(sizeof(int64_t))));
  return scratch.memory;
}

Value RuntimeFunction::words(ValueRange values) {
  return store(wordScratch, values);
}

Value RuntimeFunction::pointers(ValueRange values) {
  return store(pointerScratch, values);
}

Block *RuntimeFunction::addBlock() {
  Block *block = new Block();
  function.getBody().getBlocks().insert(failed->getIterator(), block);
  return block;
}

void RuntimeFunction::call(StringRef name, ValueRange operands) {
  SmallVector<Value> all{function.getArgument(0)};
  llvm::append_range(all, operands);
  LLVM::LLVMFuncOp callee =
      runtime.getFunction(name, ValueRange(all).getTypes());
  Value status = builder.create<LLVM::CallOp>(loc, callee, all).getResult();
  Value bad = builder.create<LLVM::ICmpOp>(loc, LLVM::ICmpPredicate::ne, status,
                                           i32(0));
  Block *next = addBlock();
  builder.create<LLVM::CondBrOp>(loc, bad, failed, status, next, ValueRange());
  builder.setInsertionPointToEnd(next);
}

void RuntimeFunction::loop(llvm::function_ref<Value()> before,
                           llvm::function_ref<void()> after) {
  Block *head = addBlock();
  builder.create<LLVM::BrOp>(loc, head);
  builder.setInsertionPointToEnd(head);
  Value condition = before();
  // The host waits for all streams before it reads the condition.
  call("heddle_rt_synchronize", {});
  Value byte =
      builder.create<LLVM::LoadOp>(loc, builder.getI8Type(), condition);
  Value none =
      builder.create<LLVM::ConstantOp>(loc, builder.getI8IntegerAttr(0));
  Value more =
      builder.create<LLVM::ICmpOp>(loc, LLVM::ICmpPredicate::ne, byte, none);
  Block *body = addBlock(), *end = new Block();
  builder.create<LLVM::CondBrOp>(loc, more, body, end);
  builder.setInsertionPointToEnd(body);
  after();
  builder.create<LLVM::BrOp>(loc, head);
  function.getBody().getBlocks().insert(failed->getIterator(), end);
  builder.setInsertionPointToEnd(end);
}

void RuntimeFunction::finish() {
  builder.create<LLVM::ReturnOp>(loc, i32(0));
  for (Scratch *scratch : {&wordScratch, &pointerScratch}) {
    if (!scratch->memory)
      continue;
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(scratch->memory);
    scratch->memory.getArraySizeMutable().assign(i64(scratch->size));
  }
}
