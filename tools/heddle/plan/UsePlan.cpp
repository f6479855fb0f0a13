//===- UsePlan.cpp - The command line that uses a plan --------------------===//

#include "UsePlan.h"

using namespace heddle;
using namespace heddle::tools;

/// Returns a word of a shell's command line.
static std::string quote(const std::string &word) {
  static const char *safe = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWX"
                            "YZ0123456789_-./=,:+";
  if (!word.empty() && word.find_first_not_of(safe) == std::string::npos)
    return word;
  std::string quoted = "'";
  for (char c : word)
    quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string tools::getCompileCommand(const CompileFlags &flags,
                                     const PlanSearch &search,
                                     const std::string &path) {
  std::string text = "heddle compile";
  auto add = [&](const std::string &option, const std::string &value) {
    text += " " + option + (value.empty() ? "" : " " + quote(value));
  };
  const ModelFlags &model = flags.model;
  if (model.isParametric()) {
    add("--layers", std::to_string(model.gpt.layers));
    add("--hidden", std::to_string(model.gpt.hidden));
    add("--heads", std::to_string(model.gpt.heads));
    add("--vocab", std::to_string(model.gpt.vocabulary));
  } else {
    text += " " + quote(model.path);
  }
  add("--plan", path.empty() ? "PLAN" : path);
  add("--cluster", flags.options.cluster.getName().str());
  const PlanRequest &request = search.request;
  int64_t microBatches = search.report.winner.microBatches;
  // A program with fixed sizes states its rows itself.
  if (!request.program.microBatchRows)
    add("--batch", std::to_string(request.program.rows / microBatches));
  if (microBatches > 1)
    add("--micro-batches", std::to_string(microBatches));
  if (model.sequence)
    add("--seq", std::to_string(*model.sequence));
  if (model.dropout)
    add("--dropout", CLI::detail::to_string(*model.dropout));
  for (const CLI::Option *option : flags.trainingOptions)
    if (option->count() > 0 && option->get_name() != "--micro-batches")
      add(option->get_name(), option->get_items_expected_max() == 0
                                  ? ""
                                  : option->results().back());
  return text;
}
