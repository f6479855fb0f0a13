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

/// Returns the name of a value of the update that a device of a pipeline gives
/// to another one: "of1.grad.wte.weight" or "of1.sum0".
inline std::string getGivenName(int64_t device, const llvm::Twine &what) {
  return ("of" + llvm::Twine(device) + "." + what).str();
}

/// Returns what such a name names: "grad.wte.weight"; "" for any other name.
inline llvm::StringRef getGiven(llvm::StringRef name) {
  if (!name.consume_front("of") || name.empty() || !llvm::isDigit(name[0]))
    return "";
  name = name.drop_while(llvm::isDigit);
  return name.consume_front(".") ? name : "";
}

/// Returns whether a device gives the value to a sum over stages, or a sum over
/// the stages so far: "term0" or "sum0" of getGiven().
inline bool isSumOverStages(llvm::StringRef given) {
  return (given.consume_front("term") || given.consume_front("sum")) &&
         !given.empty() && llvm::all_of(given, llvm::isDigit);
}

/// Returns whether the value is another one that the report of the last device
/// needs: "value0" of getGiven().
inline bool isNeededByReport(llvm::StringRef given) {
  return given.consume_front("value") && !given.empty() &&
         llvm::all_of(given, llvm::isDigit);
}

} // namespace heddle

#endif // HEDDLE_STAGES_CUTNAMES_H
