//===- CallKey.h - What makes calls take equally long -----------*- C++ -*-===//

#ifndef HEDDLE_PROFILE_CALLKEY_H
#define HEDDLE_PROFILE_CALLKEY_H

#include "dialects/Rt/Rt.h"
#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/DenseMap.h"
#include <map>
#include <string>

namespace heddle {

/// Names the calls of a module by what they compute: the kind of call, all
/// shapes, types and strides, and for a kernel a hash of its body. Places in
/// memory, streams and the names of operators do not count. So equal calls have
/// equal keys, also in different programs.
///
/// Example: "matmul a=1024x768xf32 a_strides=768,1 ... m=1024 n=768"
class CallKeys {
public:
  explicit CallKeys(mlir::ModuleOp module) : symbols(module) {}

  /// Returns the key. It lives as long as this object.
  const std::string &get(rt::DeviceCallOpInterface call);
  /// Returns the first word of a key: the kind of call.
  static llvm::StringRef getKind(llvm::StringRef key) {
    return key.take_until([](char c) { return c == ' '; });
  }
  /// Returns a key without its numbers, except those of 1: calls of equal form
  /// read their operands in the same order.
  ///
  /// Example: "matmul a=#x#xf# a_strides=#,1 ... m=# n=#"
  static std::string getForm(llvm::StringRef key);

private:
  std::string getKernel(rt::LaunchOp launch);

  mlir::SymbolTable symbols;
  std::map<mlir::Operation *, std::string> known;
  llvm::DenseMap<mlir::Attribute, std::string> kernels;
};

} // namespace heddle

#endif // HEDDLE_PROFILE_CALLKEY_H
