//===- Pins.cpp - What the user has decided -------------------------------===//

#include "heddle/Planner/Planner.h"
#include "llvm/ADT/StringExtras.h"

using namespace heddle;
using llvm::StringRef;

static llvm::Error reject(StringRef text, const llvm::Twine &expected) {
  return llvm::createStringError("expected " + expected + ", got '" + text +
                                 "'");
}

static llvm::Error readNumber(StringRef text, StringRef value, int64_t least,
                              int64_t most, std::optional<int64_t> &pin) {
  int64_t number = 0;
  if (value.getAsInteger(10, number) || number < least || number > most)
    return reject(text, "a number from " + llvm::Twine(least) + " to " +
                            llvm::Twine(most));
  pin = number;
  return llvm::Error::success();
}

llvm::Error heddle::parsePin(StringRef text, PlanPins &pins) {
  auto [key, value] = text.rsplit('=');
  if (key.empty() || value.empty())
    return reject(text, "KEY=VALUE, such as tp=4");
  const std::pair<StringRef, std::optional<int64_t> *> numbers[] = {
      {"dp", &pins.data},
      {"tp", &pins.tensor},
      {"cp", &pins.context},
      {"pp", &pins.pipeline},
      {"micro-batches", &pins.microBatches},
      {"sub-batches", &pins.subBatches}};
  for (const auto &[name, pin] : numbers)
    if (key == name)
      return readNumber(text, value, 1, 1 << 20, *pin);
  if (key == "zero")
    return readNumber(text, value, 0, 3, pins.zeroLevel);
  if (key == "sequence") {
    if (value != "on" && value != "off")
      return reject(text, "sequence=on or sequence=off");
    pins.sequence = value == "on";
    return llvm::Error::success();
  }
  if (key == "recompute") {
    pins.recompute = parseRecomputeMode(value);
    if (!pins.recompute)
      return reject(text, "recompute=none, layer, communication or optimal");
    return llvm::Error::success();
  }
  if (key == "overlap") {
    const NamedSchedule *schedule = findNamedSchedule(value);
    if (!schedule) {
      std::string names;
      for (const NamedSchedule &known : getNamedSchedules())
        names += (names.empty() ? "" : ", ") + known.name.str();
      return reject(text, "a schedule, one of " + names);
    }
    pins.overlap = schedule->overlap;
    return llvm::Error::success();
  }
  if (value != "replicated")
    return reject(text, "dp, cp, tp, pp, zero, micro-batches or sub-batches=N, "
                        "sequence=on or off, recompute=MODE, overlap=SCHEDULE "
                        "or GLOB=replicated");
  pins.replicated.push_back(key.str());
  return llvm::Error::success();
}
