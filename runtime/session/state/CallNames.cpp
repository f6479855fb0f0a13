//===- CallNames.cpp - What the calls of programs serve -------------------===//

#include "session/state/CallNames.h"
#include "support/Message.h"

namespace heddle::runtime {

using Json = nlohmann::json;

std::string joinOperators(const Json &call) {
  auto operators = call.find("operators");
  if (operators == call.end() || !operators->is_array() || operators->empty() ||
      !operators->front().is_string())
    return "";
  auto first = operators->front().get<std::string>();
  if (operators->size() == 1)
    return first;
  if (operators->size() == 2 && operators->back().is_string())
    return first + ", " + operators->back().get<std::string>();
  return concat(first, " and ", operators->size() - 1, " more");
}

void CallNames::add(Program &program, const Json &items, bool inLoop) {
  for (const Json &item : items) {
    if (!item.is_object())
      continue;
    auto before = item.find("before"), after = item.find("after");
    if (before == item.end() || after == item.end()) {
      indices[&item] = int64_t(program.items.size());
      program.items.push_back(&item);
      continue;
    }
    // A program reports only how many calls it made. The iterations of a loop
    // follow from this number if the program has no other loop.
    program.isOrderKnown &= !inLoop && !program.hasLoop;
    bool isFirst = !program.hasLoop;
    program.hasLoop = true;
    if (isFirst)
      program.before = program.items.size();
    add(program, *before, true);
    if (isFirst)
      program.after = program.items.size();
    add(program, *after, true);
    if (isFirst)
      program.end = program.items.size();
  }
}

CallNames::CallNames(const char *text) {
  if (!text)
    return;
  table = Json::parse(text, nullptr, false);
  if (!table.is_object())
    return;
  for (const auto &[name, items] : table.items())
    add(programs[name], items, false);
}

const Json *CallNames::find(const std::string &name, int64_t call,
                            int64_t total) const {
  auto found = programs.find(name);
  if (found == programs.end() || call < 0)
    return nullptr;
  const Program &program = found->second;
  auto index = size_t(call);
  if (program.hasLoop && index >= program.before) {
    size_t before = program.after - program.before,
           after = program.end - program.after,
           rest = program.items.size() - program.end;
    size_t fixed = program.before + before + rest;
    if (!program.isOrderKnown || before + after == 0 || size_t(total) < fixed)
      return nullptr;
    size_t looped = size_t(total) - program.before - rest;
    size_t inLoop = index - program.before;
    index = inLoop < looped ? program.before + inLoop % (before + after)
                            : program.end + (inLoop - looped);
  }
  return index < program.items.size() ? program.items[index] : nullptr;
}

int64_t CallNames::getIndex(const Json *item) const {
  auto found = indices.find(item);
  return found == indices.end() ? -1 : found->second;
}

} // namespace heddle::runtime
