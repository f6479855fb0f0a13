//===- Pins.cpp - The user's pins -----------------------------------------===//

#include "heddle/Planner/Planner.h"
#include "llvm/ADT/StringExtras.h"

using namespace heddle;
using llvm::StringRef;

static llvm::Error reject(StringRef text, const llvm::Twine &expected) {
  return llvm::createStringError("expected " + expected + ", got '" + text +
                                 "'");
}

/// Sets a pin. Fails if the pin already has another value.
template <typename T>
static llvm::Error setPin(StringRef text, T value, std::optional<T> &pin) {
  if (pin && *pin != value)
    return llvm::createStringError(
        "'" + text + "' contradicts what is pinned already for '" +
        text.rsplit('=').first + "': expected one value for each key");
  pin = value;
  return llvm::Error::success();
}

static llvm::Error readNumber(StringRef text, StringRef value, int64_t least,
                              int64_t most, std::optional<int64_t> &pin) {
  int64_t number = 0;
  if (value.getAsInteger(10, number) || number < least || number > most)
    return reject(text, "a number from " + llvm::Twine(least) + " to " +
                            llvm::Twine(most));
  return setPin(text, number, pin);
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
    return setPin(text, value == "on", pins.sequence);
  }
  if (key == "context") {
    std::optional<ContextParallelism> kind = parseContextParallelism(value);
    if (!kind)
      return reject(text, "context=ring, gather or heads");
    return setPin(text, *kind, pins.attention);
  }
  if (key == "recompute") {
    std::optional<RecomputeMode> mode = parseRecomputeMode(value);
    if (!mode)
      return reject(text, "recompute=none, layer, communication or optimal");
    return setPin(text, *mode, pins.recompute);
  }
  if (key == "overlap") {
    const NamedSchedule *schedule = findNamedSchedule(value);
    if (!schedule) {
      std::string names;
      for (const NamedSchedule &known : getNamedSchedules())
        names += (names.empty() ? "" : ", ") + known.name.str();
      return reject(text, "a schedule, one of " + names);
    }
    return setPin(text, schedule->overlap, pins.overlap);
  }
  if (value != "replicated")
    return reject(text, "dp, cp, tp, pp, zero, micro-batches or sub-batches=N, "
                        "sequence=on or off, context=KIND, recompute=MODE, "
                        "overlap=SCHEDULE or GLOB=replicated");
  pins.replicated.push_back(key.str());
  return llvm::Error::success();
}
