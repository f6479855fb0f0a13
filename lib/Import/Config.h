//===- Config.h - Hugging Face's config.json, nothing overlooked *- C++ -*-===//
//
// A config.json whose every key must be accounted for: read by a getter,
// declared irrelevant, or required to hold a value that changes nothing. Any
// other key is an error, because it may change the computation.
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

/// A JSON object. A getter that fails emits an error at the key's line and
/// returns a harmless value, so that one import reports all errors. `finish`
/// then fails.
class Config {
public:
  /// Reads a file. Errors are located at its lines.
  static mlir::FailureOr<Config> read(mlir::MLIRContext &context,
                                      llvm::StringRef path);
  /// Wraps a value that Heddle itself builds.
  Config(mlir::MLIRContext &context, nlohmann::json value, llvm::StringRef path,
         llvm::StringRef text);

  /// Each getter takes a key and then other spellings of it. It returns the
  /// value of the first spelling that is present. Other spellings must have the
  /// same value; all are accounted for. Without a default the key is required.
  /// Null is a value of the wrong type, except that a boolean with default
  /// false reads it as false, as in transformers.
  using Keys = llvm::ArrayRef<llvm::StringRef>;
  int64_t positiveInteger(Keys keys, std::optional<int64_t> byDefault = {});
  /// Reads a number of layers, at most kMaxLayers.
  int64_t numLayers(Keys keys);
  /// Reads a finite number within [least, most].
  double number(Keys keys, double least, double most,
                std::optional<double> byDefault = {});
  bool boolean(Keys keys, bool byDefault);
  std::string string(Keys keys, std::optional<std::string> byDefault = {});
  /// Reads an array of strings; empty if it is null or absent.
  std::vector<std::string> strings(llvm::StringRef key);
  /// Reads a nested object, which the caller must finish; nullopt if it is null
  /// or absent.
  std::optional<Config> object(llvm::StringRef key);

  /// Makes the getters read null as absence for these keys, as transformers
  /// does.
  void mayBeNull(Keys keys);

  /// Returns the first spelling that is present, or the first one if none is.
  llvm::StringRef spelling(Keys keys) const;
  /// Returns whether the key is present and not null.
  bool has(llvm::StringRef key) const;

  /// Returns the JSON text, on one line.
  std::string dump() const { return value.dump(); }

  /// Accounts for keys that do not change the computation.
  void ignore(Keys keys);
  /// Accounts for a key whose value must be one of `values`, which change
  /// nothing.
  void expectNeutral(llvm::StringRef key,
                     std::initializer_list<nlohmann::json> values);

  /// Emits an error at the key's line: "config key 'KEY': TEXT".
  void error(llvm::StringRef key, const llvm::Twine &text);
  void warning(llvm::StringRef key, const llvm::Twine &text);
  void remark(llvm::StringRef key, const llvm::Twine &text);
  /// Accounts for all keys, so that a config with an error gets no more errors.
  void ignoreAll();
  /// Finishes a nested object. Its errors become errors of this config.
  void finishNested(Config &nested, llvm::StringRef reader);
  /// Fails if an error was emitted or a key is not accounted for. The message
  /// says that `reader` does not know the key.
  mlir::LogicalResult finish(llvm::StringRef reader);
  /// Returns whether an error was emitted.
  bool hasFailed() const { return failed; }

private:
  /// Returns the value of the first spelling that is present, or null.
  const nlohmann::json *get(Keys keys);
  mlir::Location locate(llvm::StringRef key) const;
  void missing(llvm::StringRef key);

  mlir::MLIRContext *context;
  nlohmann::json value;
  std::string path, text;
  std::string prefix; ///< prefix of nested keys in messages: "rope_scaling."
  llvm::StringSet<> accounted, nullable;
  bool failed = false;
};

} // namespace heddle

#endif // HEDDLE_LIB_IMPORT_CONFIG_H
