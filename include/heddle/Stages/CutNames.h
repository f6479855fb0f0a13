//===- CutNames.h - Values between stages -----------------------*- C++ -*-===//

#ifndef HEDDLE_STAGES_CUTNAMES_H
#define HEDDLE_STAGES_CUTNAMES_H

#include "llvm/ADT/StringExtras.h"
#include <string>

namespace heddle {

/// Returns the name of a value that goes from one part of a pipeline to
/// another, unique by its number: "cut5.h.0.ln_1". The operator may be empty.
inline std::string getCutName(unsigned number, llvm::StringRef maker) {
  return "cut" + std::to_string(number) +
         (maker.empty() ? "" : "." + maker.str());
}

/// Returns the operator that makes such a value, "h.0.ln_1"; "" if it has no
/// name.
inline llvm::StringRef getMakerOfCut(llvm::StringRef name) {
  llvm::StringRef rest = name;
  if (!rest.consume_front("cut") || rest.empty() || !llvm::isDigit(rest[0]))
    return name;
  rest = rest.drop_while(llvm::isDigit);
  return rest.empty() || rest.consume_front(".") ? rest : name;
}

} // namespace heddle

#endif // HEDDLE_STAGES_CUTNAMES_H
