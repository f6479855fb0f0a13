//===- LlvmJson.h - Parses JSON of unknown depth by LLVM --------*- C++ -*-===//

#ifndef HEDDLE_SUPPORT_LLVMJSON_H
#define HEDDLE_SUPPORT_LLVMJSON_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

namespace heddle {

/// Parses a text. Unlike llvm::json::parse, which recurses into lists and
/// objects until the stack overflows, refuses texts that nest too deeply. The
/// limit is that of parseJson (JsonText.h).
inline llvm::Expected<llvm::json::Value> parseLlvmJson(llvm::StringRef text) {
  constexpr unsigned kMaxDepth = 64;
  unsigned depth = 0;
  bool isInString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (isInString) {
      i += c == '\\'; // and what it escapes
      isInString = c != '"';
    } else if (c == '"') {
      isInString = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxDepth)
        return llvm::createStringError(
            "expected at most " + llvm::Twine(kMaxDepth) +
            " lists and objects within one another, got more");
    } else if ((c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return llvm::json::parse(text);
}

} // namespace heddle

#endif // HEDDLE_SUPPORT_LLVMJSON_H
