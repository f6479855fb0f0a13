//===- RuntimeCalls.h - Builds functions that call the runtime --*- C++ -*-===//
//
// Builds the parts of a program function in the LLVM dialect: constants with
// static lifetime, addresses of buffers, calls whose status is checked.
// ProgramConversion decides which call an op becomes.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_RUNTIMECALLS_H
#define HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_RUNTIMECALLS_H

#include "dialects/Rt/Rt.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"

namespace heddle {

/// The state that all programs of a module share: the runtime's functions,
/// constants, and the numbers of variables and groups.
class RuntimeModule {
public:
  explicit RuntimeModule(mlir::ModuleOp module);

  /// Returns a constant of the artifact with these bytes. Equal bytes are one
  /// constant, so that the runtime prepares equal descriptors once.
  mlir::LLVM::GlobalOp getConstant(llvm::StringRef bytes, int64_t alignment);
  template <typename T> mlir::LLVM::GlobalOp getConstant(const T &object) {
    return getConstant({reinterpret_cast<const char *>(&object), sizeof(T)},
                       alignof(T));
  }
  /// Makes a constant that the artifact's library exports.
  template <typename T>
  void exportConstant(llvm::StringRef name, const T &object) {
    makeConstant(name, mlir::LLVM::Linkage::External,
                 {reinterpret_cast<const char *>(&object), sizeof(T)},
                 alignof(T));
  }
  /// Makes a null-terminated constant text that the library exports.
  void exportText(llvm::StringRef name, llvm::StringRef text) {
    makeConstant(name, mlir::LLVM::Linkage::External,
                 {text.str().c_str(), text.size() + 1}, 1);
  }
  /// Returns the data of the rt.constant named `symbol`, or failure with an
  /// error at `user`.
  mlir::FailureOr<mlir::LLVM::GlobalOp>
  getConstant(mlir::Operation *user, mlir::FlatSymbolRefAttr symbol);
  /// Returns the runtime's function `name`, declared with these operand types
  /// and the result i32.
  mlir::LLVM::LLVMFuncOp getFunction(llvm::StringRef name,
                                     mlir::TypeRange operands);
  /// Returns the manifest's number of a variable: its index in the order of the
  /// module.
  std::optional<int64_t> getVariable(mlir::FlatSymbolRefAttr symbol) const;
  int64_t getNumVariables() const { return variables.size(); }
  /// Returns the manifest's number of a group of mesh axes. A new group is
  /// appended.
  int64_t getGroup(AxisListAttr axes);
  /// Writes the groups to the module's attribute `rt.groups`, for the manifest.
  void recordGroups();
  /// Makes the global `heddle_kernel_work` of heddle_rt/abi.h, with the kernels
  /// that have `rt.work`. Makes none if there are none.
  void recordWork();
  /// Records a call of an attention, or of its gradient, with this descriptor.
  void addAttention(mlir::LLVM::GlobalOp descriptor, bool isGradient) {
    attentions.insert({descriptor, isGradient});
  }
  /// Records a product with this descriptor.
  void addProduct(mlir::LLVM::GlobalOp descriptor) {
    products.insert(descriptor);
  }
  /// Makes the global `heddle_products` of heddle_rt/abi.h. Makes none if there
  /// are none, or the module is for a CPU.
  void recordProducts();
  /// Makes the global `heddle_attentions` of heddle_rt/abi.h. Makes none if
  /// there are none, or the module is for a CPU.
  void recordAttentions();

  mlir::SymbolTable symbols;

private:
  mlir::LLVM::GlobalOp makeConstant(llvm::StringRef name,
                                    mlir::LLVM::Linkage linkage,
                                    llvm::StringRef bytes, int64_t alignment);

  mlir::ModuleOp module;
  mlir::OpBuilder builder;
  llvm::StringMap<mlir::LLVM::GlobalOp> constants;
  llvm::StringMap<mlir::LLVM::LLVMFuncOp> functions;
  llvm::DenseMap<mlir::StringAttr, int64_t> variables;
  llvm::SmallVector<AxisListAttr> groups;
  llvm::SetVector<mlir::Operation *> products; ///< descriptors
  /// Descriptors; the number is heddle_rt_attention_call::is_gradient.
  llvm::SetVector<std::pair<mlir::Operation *, int64_t>> attentions;
};

/// The module's attribute that holds the groups after the conversion, in the
/// manifest's order.
inline constexpr llvm::StringLiteral kGroupsAttrName = "rt.groups";

/// On an rt.export: the bytes in which a rank stages sums across processes, by
/// stream (heddle_rt/staging.h). Missing if the program needs no staging.
inline constexpr llvm::StringLiteral kStagingAttrName = "rt.staging";

/// Returns the kernels for a GPU. A launch names a kernel by its index here.
llvm::SmallVector<mlir::LLVM::LLVMFuncOp> getGpuKernels(mlir::ModuleOp module);

/// Returns, for each parameter of one copy of a kernel for a GPU, the bytes of
/// the buffer that the kernel may touch, or -1 for a number.
llvm::SmallVector<int64_t> getParameterBytes(mlir::LLVM::LLVMFuncOp kernel);

/// The global that holds the work of all kernels.
inline constexpr llvm::StringLiteral kKernelWorkName = "heddle_kernel_work";
/// The global that holds the products of all programs.
inline constexpr llvm::StringLiteral kProductsName = "heddle_products";
/// The global that holds the attentions of all programs.
inline constexpr llvm::StringLiteral kAttentionsName = "heddle_attentions";

/// Builds one program function `i32 (device, frame)` by appending ops.
class RuntimeFunction {
public:
  RuntimeFunction(RuntimeModule &runtime, mlir::LLVM::LLVMFuncOp function);

  mlir::Value i32(int64_t value);
  mlir::Value i64(int64_t value);
  mlir::Value null();
  mlir::Value addressOf(mlir::LLVM::GlobalOp global);
  /// Returns the buffer's address; null, with an error at `user`, if the module
  /// lacks its symbol.
  mlir::Value addressOf(mlir::Operation *user, rt::BufferAttr buffer);
  /// Returns this device's index along the mesh's axis number `axis`.
  mlir::Value coordinate(int64_t axis);
  /// Returns the address of this device's indices along all axes.
  mlir::Value getCoordinates() const { return coordinates; }
  /// Stores 64-bit integers in memory that is valid only for the next call, and
  /// returns its address.
  mlir::Value words(mlir::ValueRange values);
  /// Stores pointers in memory that is valid only for the next call, and
  /// returns its address.
  mlir::Value pointers(mlir::ValueRange values);
  /// Returns the address `bytes` behind `pointer`.
  mlir::Value offset(mlir::Value pointer, int64_t bytes);

  /// Calls the runtime with the device and then `operands`. If the status is
  /// not 0, the program returns it.
  void call(llvm::StringRef function, mlir::ValueRange operands);
  /// Appends a loop: runs the ops that `before` builds and, while the condition
  /// is true, the ops of `after` and then of `before` again. `before` returns
  /// the address of the condition, a truth value of one byte.
  void loop(llvm::function_ref<mlir::Value()> before,
            llvm::function_ref<void()> after);
  void finish();

  mlir::OpBuilder builder;
  mlir::Location loc;

private:
  mlir::Value fieldOfFrame(int64_t index);
  /// Memory on the stack for the operands of one call at a time.
  struct Scratch {
    mlir::LLVM::AllocaOp memory;
    int64_t size = 0; ///< the most elements that a call needs
  };
  mlir::Value store(Scratch &scratch, mlir::ValueRange values);
  /// Adds a block in front of the block that returns failures.
  mlir::Block *addBlock();

  RuntimeModule &runtime;
  mlir::LLVM::LLVMFuncOp function;
  mlir::Block *entry, *failed;
  mlir::Value arena, variables, arguments, results, coordinates;
  Scratch wordScratch, pointerScratch;
};

} // namespace heddle

#endif // HEDDLE_LIB_LOWER_CONVERTRTTOLLVM_RUNTIMECALLS_H
