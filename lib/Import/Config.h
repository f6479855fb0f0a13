//===- Config.h - Hugging Face's config.json, nothing overlooked *- C++ -*-===//
//
// A config whose every key must be accounted for: read by a getter, declared
// irrelevant, or required to hold values that change nothing. What is left at
// the end is an error, as it may change the computation.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_LIB_IMPORT_CONFIG_H
#define HEDDLE_LIB_IMPORT_CONFIG_H

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/ADT/StringSet.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

namespace heddle {

/// A JSON object. Getters that fail emit an error at the key's line and return
/// a harmless value, so that one import reports all that is wrong; `finish`
/// then fails.
class Config {
public:
  /// Reads a file; its errors stand at lines of it.
  static mlir::FailureOr<Config> read(mlir::MLIRContext &context,
                                      llvm::StringRef path);
  /// Takes a value made by ourselves.
  Config(mlir::MLIRContext &context, nlohmann::json value, llvm::StringRef path,
         llvm::StringRef text);

  /// Each getter takes the key and then other spellings of it; the first that
  /// is there counts, the others must agree, and all are accounted for. Without
  /// a default the key must be there. Null is a value of the wrong type, except
  /// that transformers takes it as false.
  using Keys = llvm::ArrayRef<llvm::StringRef>;
  int64_t positiveInteger(Keys keys, std::optional<int64_t> byDefault = {});
  /// A number of layers, at most kMaxLayers.
  int64_t numLayers(Keys keys);
  /// A finite number within [least, most].
  double number(Keys keys, double least, double most,
                std::optional<double> byDefault = {});
  bool boolean(Keys keys, bool byDefault);
  std::string string(Keys keys, std::optional<std::string> byDefault = {});
  /// The strings of an array; none if it is null or absent.
  std::vector<std::string> strings(llvm::StringRef key);
  /// A nested object, to be finished by the caller; nothing if it is null or
  /// absent.
  std::optional<Config> object(llvm::StringRef key);

  /// Keys for which transformers takes null as if they were absent.
  void mayBeNull(Keys keys);

  /// The spelling that is there, else the first.
  llvm::StringRef spelling(Keys keys) const;
  /// Whether the key is there and not null.
  bool has(llvm::StringRef key) const;

  /// The JSON text, on one line.
  std::string dump() const { return value.dump(); }

  /// Keys that do not change the computation.
  void ignore(Keys keys);
  /// A key that may only hold one of these values, in which it changes nothing.
  void expectNeutral(llvm::StringRef key,
                     std::initializer_list<nlohmann::json> values);

  /// An error at the key's line: "config key 'KEY': TEXT".
  void error(llvm::StringRef key, const llvm::Twine &text);
  void warning(llvm::StringRef key, const llvm::Twine &text);
  void remark(llvm::StringRef key, const llvm::Twine &text);
  /// Everything that is left, of a config that is an error anyway.
  void ignoreAll();
  /// Finishes a nested object: its errors become this config's.
  void finishNested(Config &nested, llvm::StringRef reader);
  /// Fails if an error was emitted or a key is not accounted for; `reader` says
  /// in the message who does not know it.
  mlir::LogicalResult finish(llvm::StringRef reader);
  /// Whether an error was emitted.
  bool hasFailed() const { return failed; }

private:
  /// The first of the keys that is there.
  const nlohmann::json *get(Keys keys);
  mlir::Location locate(llvm::StringRef key) const;
  void missing(llvm::StringRef key);

  mlir::MLIRContext *context;
  nlohmann::json value;
  std::string path, text;
  std::string prefix; ///< of nested keys in messages: "rope_scaling."
  llvm::StringSet<> accounted, nullable;
  bool failed = false;
};

} // namespace heddle

#endif // HEDDLE_LIB_IMPORT_CONFIG_H
