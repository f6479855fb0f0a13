//===- Config.cpp - Reads config.json and refuses unknown keys ------------===//

#include "Config.h"
#include "heddle/Import/Import.h"
#include "heddle/Support/JsonText.h"

#include "llvm/Support/MemoryBuffer.h"

#include <cmath>

using namespace mlir;
using namespace heddle;
using nlohmann::json;

Config::Config(MLIRContext &context, json value, StringRef path, StringRef text)
    : context(&context), value(std::move(value)), path(path), text(text) {}

FailureOr<Config> Config::read(MLIRContext &context, StringRef path) {
  auto buffer = llvm::MemoryBuffer::getFile(path, /*IsText=*/true);
  if (!buffer)
    return emitError(UnknownLoc::get(&context))
           << "cannot read '" << path << "': " << buffer.getError().message();
  StringRef text = (*buffer)->getBuffer();
  json value;
  if (auto problem = parseJson(text, value)) {
    TextPosition at = getTextPosition(text, problem->offset);
    return emitError(FileLineColLoc::get(&context, path, at.line, at.column))
           << problem->message;
  }
  Config config(context, std::move(value), path, text);
  if (!config.value.is_object())
    return emitError(FileLineColLoc::get(&context, path, 1, 1))
           << "expected a JSON object, got " << config.value.type_name();
  if (std::string other =
          describeOtherKind(config.value, "model_type", "a model's config");
      !other.empty())
    return emitError(FileLineColLoc::get(&context, path, 1, 1)) << other;
  return config;
}

Location Config::locate(StringRef key) const {
  if (path.empty())
    return UnknownLoc::get(context);
  // Finds the first quoted occurrence that is followed by a colon.
  std::string quoted = ("\"" + key + "\"").str();
  StringRef content(text);
  for (size_t at = content.find(quoted); at != StringRef::npos;
       at = content.find(quoted, at + 1)) {
    if (!content.substr(at + quoted.size()).ltrim().starts_with(":"))
      continue;
    TextPosition position = getTextPosition(content, at);
    return FileLineColLoc::get(context, path, position.line, position.column);
  }
  return FileLineColLoc::get(context, path, 1, 1);
}

void Config::error(StringRef key, const Twine &text) {
  failed = true;
  emitError(locate(key)) << "config key '" << prefix << key << "': " << text;
}

void Config::warning(StringRef key, const Twine &text) {
  emitWarning(locate(key)) << "config key '" << prefix << key << "': " << text;
}

void Config::missing(StringRef key) {
  failed = true;
  emitError(locate(key)) << "config key '" << prefix << key
                         << "' is missing, and needed";
}

void Config::remark(StringRef key, const Twine &text) {
  emitRemark(locate(key)) << "config key '" << prefix << key << "': " << text;
}

const json *Config::get(Keys keys) {
  const json *found = nullptr;
  StringRef used;
  for (StringRef key : keys) {
    accounted.insert(key);
    auto entry = value.find(key.str());
    if (entry == value.end() || (entry->is_null() && nullable.contains(key)))
      continue;
    if (found && *found != *entry)
      error(key, "expected " + Twine(showJson(*found)) + " as '" + used +
                     "', another name of it, says, got " + showJson(*entry));
    if (!found) {
      found = &*entry;
      used = key;
    }
  }
  return found;
}

void Config::mayBeNull(Keys keys) {
  for (StringRef key : keys)
    nullable.insert(key);
}

StringRef Config::spelling(Keys keys) const {
  for (StringRef key : keys)
    if (value.contains(key.str()))
      return key;
  return keys.front();
}

bool Config::has(StringRef key) const {
  auto found = value.find(key.str());
  return found != value.end() && !found->is_null();
}

int64_t Config::positiveInteger(Keys keys, std::optional<int64_t> byDefault) {
  // The bound keeps products of a few sizes within 64 bits.
  constexpr int64_t most = int64_t(1) << 30;
  const json *found = get(keys);
  if (!found) {
    if (!byDefault)
      missing(keys.front());
    return byDefault.value_or(1);
  }
  if (found->is_number_integer() && *found > 0 && *found <= most)
    return found->get<int64_t>();
  error(spelling(keys),
        "expected an integer from 1 to 2^30, got " + Twine(showJson(*found)));
  return byDefault.value_or(1);
}

int64_t Config::numLayers(Keys keys) {
  int64_t layers = positiveInteger(keys);
  if (layers <= kMaxLayers)
    return layers;
  error(spelling(keys), "expected at most " + Twine(kMaxLayers) +
                            " layers, got " + Twine(layers) +
                            ": each becomes ops of its own; choose fewer and "
                            "wider ones");
  return 1;
}

double Config::number(Keys keys, double least, double most,
                      std::optional<double> byDefault) {
  const json *found = get(keys);
  if (!found) {
    if (!byDefault)
      missing(keys.front());
    return byDefault.value_or(least);
  }
  if (found->is_number()) {
    double number = found->get<double>();
    if (std::isfinite(number) && number >= least && number <= most)
      return number;
  }
  error(spelling(keys), "expected a number from " +
                            Twine(showJson(json(least))) + " to " +
                            showJson(json(most)) + ", got " + showJson(*found));
  return byDefault.value_or(least);
}

bool Config::boolean(Keys keys, bool byDefault) {
  const json *found = get(keys);
  if (!found)
    return byDefault;
  if (found->is_boolean())
    return found->get<bool>();
  if (found->is_null() && !byDefault)
    return false;
  error(spelling(keys),
        "expected true or false, got " + Twine(showJson(*found)));
  return byDefault;
}

std::string Config::string(Keys keys, std::optional<std::string> byDefault) {
  const json *found = get(keys);
  if (!found) {
    if (!byDefault)
      missing(keys.front());
    return byDefault.value_or("");
  }
  if (found->is_string())
    return found->get<std::string>();
  error(spelling(keys), "expected a string, got " + Twine(showJson(*found)));
  return byDefault.value_or("");
}

std::vector<std::string> Config::strings(StringRef key) {
  const json *found = get({key});
  std::vector<std::string> texts;
  if (!found || found->is_null())
    return texts;
  bool good = found->is_array();
  for (const json &text : *found)
    good &= text.is_string();
  if (!good) {
    error(key, "expected an array of strings, got " + Twine(showJson(*found)));
    return texts;
  }
  for (const json &text : *found)
    texts.push_back(text.get<std::string>());
  return texts;
}

std::optional<Config> Config::object(StringRef key) {
  const json *found = get({key});
  if (!found || found->is_null())
    return std::nullopt;
  if (!found->is_object()) {
    error(key, "expected an object, got " + Twine(showJson(*found)));
    return std::nullopt;
  }
  Config nested(*context, *found, path, text);
  nested.prefix = prefix + key.str() + ".";
  return nested;
}

void Config::ignore(Keys keys) {
  for (StringRef key : keys)
    accounted.insert(key);
}

void Config::ignoreAll() {
  for (const auto &[key, unused] : value.items())
    accounted.insert(key);
}

void Config::finishNested(Config &nested, StringRef reader) {
  failed |= mlir::failed(nested.finish(reader));
}

void Config::expectNeutral(StringRef key, std::initializer_list<json> values) {
  accounted.insert(key);
  auto found = value.find(key.str());
  if (found == value.end())
    return;
  std::string allowed;
  for (const json &neutral : values) {
    if (*found == neutral)
      return;
    allowed += (allowed.empty() ? "" : " or ") + showJson(neutral);
  }
  error(key,
        "only " + Twine(allowed) + " is supported, got " + showJson(*found));
}

LogicalResult Config::finish(StringRef reader) {
  for (const auto &[key, unknown] : value.items())
    if (!accounted.contains(key))
      error(key, "not known to the import of " + Twine(reader) +
                     ", so it may change the computation; its value is " +
                     showJson(unknown));
  return success(!failed);
}
