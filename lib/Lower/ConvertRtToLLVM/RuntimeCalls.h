//===- RuntimeCalls.h - Builds functions that call the runtime --*- C++ -*-===//
//
// The mechanics of one program function in the LLVM dialect: constants with
// static lifetime, addresses of buffers, calls whose status is checked.
// ProgramConversion decides which call an op becomes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_RUNTIMECALLS_H
#define HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_RUNTIMECALLS_H

#include "dialects/Rt/Rt.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/StringMap.h"

namespace heddle {

/// The parts that all programs of a module share: the runtime's functions,
/// constants, the numbers of variables and groups.
class RuntimeModule {
public:
  explicit RuntimeModule(mlir::ModuleOp module);

  /// The bytes as a constant of the artifact. Equal bytes are one constant, so
  /// that the runtime prepares equal descriptors once.
  mlir::LLVM::GlobalOp getConstant(llvm::StringRef bytes, int64_t alignment);
  template <typename T> mlir::LLVM::GlobalOp getConstant(const T &object) {
    return getConstant({reinterpret_cast<const char *>(&object), sizeof(T)},
                       alignof(T));
  }
  /// The data of an rt.constant, or failure with an error at `user`.
  mlir::FailureOr<mlir::LLVM::GlobalOp>
  getConstant(mlir::Operation *user, mlir::FlatSymbolRefAttr symbol);
  /// The runtime's function, declared for these operands; returns i32.
  mlir::LLVM::LLVMFuncOp getFunction(llvm::StringRef name,
                                     mlir::TypeRange operands);
  /// The manifest's number of a variable: its index in the order of the module.
  std::optional<int64_t> getVariable(mlir::FlatSymbolRefAttr symbol) const;
  /// The manifest's number of a group of mesh axes; new ones are appended.
  int64_t getGroup(AxisListAttr axes);
  /// Keeps the groups on the module for whoever writes the manifest.
  void recordGroups();

  mlir::SymbolTable symbols;

private:
  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  llvm::StringMap<mlir::LLVM::GlobalOp> constants;
  llvm::StringMap<mlir::LLVM::LLVMFuncOp> functions;
  llvm::DenseMap<mlir::StringAttr, int64_t> variables;
  llvm::SmallVector<AxisListAttr> groups;
};

/// On the module after the conversion: the groups, in the manifest's order.
inline constexpr llvm::StringLiteral kGroupsAttrName = "rt.groups";

/// One function `i32 (device, frame)`; ops are appended.
class RuntimeFunction {
public:
  RuntimeFunction(RuntimeModule &runtime, mlir::LLVM::LLVMFuncOp function);

  mlir::Value i32(int64_t value);
  mlir::Value i64(int64_t value);
  mlir::Value null();
  mlir::Value addressOf(mlir::LLVM::GlobalOp global);
  /// The buffer's address; null, with an error at `user`, if its symbol is
  /// unknown.
  mlir::Value addressOf(mlir::Operation *user, rt::BufferAttr buffer);
  /// This device's index along the mesh's axis number `axis`.
  mlir::Value coordinate(int64_t axis);
  /// The address of this device's indices along all axes.
  mlir::Value getCoordinates() const { return coordinates; }
  /// Memory on the stack that lives as long as the call of the program: the
  /// runtime may read it at any time until the program has synchronized.
  mlir::Value store(mlir::ValueRange words);
  /// Pointers in memory that is only valid for the next call.
  mlir::Value pointers(mlir::ValueRange values);

  /// Calls the runtime and returns its status from the program if it is not 0.
  /// The device is put before the operands.
  void call(llvm::StringRef function, mlir::ValueRange operands);
  /// Appends a loop: runs the ops that `before` builds, and then the ops of
  /// `after` and `before` again while the condition is true. `before` returns
  /// the address of the condition, a truth value of one byte.
  void loop(llvm::function_ref<mlir::Value()> before,
            llvm::function_ref<void()> after);
  void finish();

  mlir::OpBuilder builder;
  mlir::Location loc;

private:
  mlir::Value fieldOfFrame(int64_t index);
  mlir::Value offset(mlir::Value pointer, int64_t bytes);
  mlir::Value allocate(mlir::Type element, int64_t count);
  /// Adds a block, in front of the block that returns failures.
  mlir::Block *addBlock();

  RuntimeModule &runtime;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Block *entry, *failed;
  mlir::Value arena, variables, arguments, results, coordinates;
  mlir::LLVM::AllocaOp scratch; ///< of `pointers`, as large as any call needs
  int64_t scratchSize = 0;
};

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_RUNTIMECALLS_H
