//===- PlanOptionsJson.cpp - Keys of a plan with one value ----------------===//

#include "PlanReader.h"
#include "heddle/Support/JsonText.h"

using namespace heddle;
using llvm::Error;
using llvm::StringRef;
using json = PlanReader::Json;

Error PlanReader::readOptions(const json &root, Plan &plan) {
  Error problems = Error::success();
  auto read = [&](const char *key, auto readValue) {
    if (root.contains(key))
      problems = llvm::joinErrors(std::move(problems), readValue(root[key]));
  };
  read("hierarchy", [&](const json &value) -> Error {
    std::optional<Hierarchy> hierarchy =
        value.is_string() ? symbolizeHierarchy(value.get<std::string>())
                          : std::nullopt;
    if (!hierarchy)
      return error(locate("hierarchy", 0), "$.hierarchy",
                   "expected \"auto\", \"always\" or \"never\", got " +
                       showJson(value));
    plan.hierarchy = *hierarchy;
    return Error::success();
  });
  read("reduce_gradients", [&](const json &value) -> Error {
    std::optional<GradientReduction> reduction =
        value.is_string() ? symbolizeGradientReduction(value.get<std::string>())
                          : std::nullopt;
    if (!reduction)
      return error(locate("reduce_gradients", 0), "$.reduce_gradients",
                   "expected \"step\" or \"micro_batch\", got " +
                       showJson(value));
    plan.reduceGradients = *reduction;
    return Error::success();
  });
  read("sub_batches", [&](const json &value) -> Error {
    auto isSize = [](const json &size) {
      return size.is_number_unsigned() && size.get<uint64_t>() >= 1 &&
             size.get<uint64_t>() <= uint64_t(kMaxSubBatchSize);
    };
    bool isList = value.is_array() && !value.empty() &&
                  value.size() <= size_t(kMaxSubBatches) &&
                  llvm::all_of(value, isSize);
    if (!isList && !(isSize(value) && value.get<int64_t>() <= kMaxSubBatches))
      return error(
          locate("sub_batches", 0), "$.sub_batches",
          "expected a number from 1 to " + std::to_string(kMaxSubBatches) +
              ", or a list of at most so many sizes, each from 1 to " +
              std::to_string(kMaxSubBatchSize) + ", got " + showJson(value));
    if (isList)
      plan.subBatchSizes = value.get<std::vector<int64_t>>();
    plan.subBatches = isList ? int64_t(value.size()) : value.get<int64_t>();
    return Error::success();
  });
  read("recompute", [&](const json &value) -> Error {
    if (value.is_string())
      plan.recompute = parseRecomputeMode(value.get<std::string>());
    if (!plan.recompute)
      return error(locate("recompute", 0), "$.recompute",
                   "expected \"none\", \"layer\", \"communication\" or "
                   "\"optimal\", got " +
                       showJson(value));
    return Error::success();
  });
  read("recompute_bytes", [&](const json &value) -> Error {
    if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 ||
        value.get<uint64_t>() > uint64_t(kMaxRecomputeBytes))
      return error(locate("recompute_bytes", 0), "$.recompute_bytes",
                   "expected a positive number of bytes, got " +
                       showJson(value));
    if (plan.recompute != RecomputeMode::Optimal)
      return error(locate("recompute_bytes", 0), "$.recompute_bytes",
                   "expected \"recompute\": \"optimal\" beside it");
    plan.recomputeBytes = value.get<int64_t>();
    return Error::success();
  });
  read("exchange_chunks", [&](const json &value) -> Error {
    if (!value.is_number_unsigned() || value.get<uint64_t>() < 1 ||
        value.get<uint64_t>() > uint64_t(kMaxExchangeChunks))
      return error(locate("exchange_chunks", 0), "$.exchange_chunks",
                   "expected a number from 1 to " +
                       std::to_string(kMaxExchangeChunks) + ", got " +
                       showJson(value));
    plan.exchangeChunks = value.get<int64_t>();
    return Error::success();
  });
  auto readFlag = [&](const char *key, bool &flag) {
    read(key, [&, key](const json &value) -> Error {
      if (!value.is_boolean())
        return error(locate(key, 0), "$." + std::string(key),
                     "expected true or false, got " + showJson(value));
      flag = value.get<bool>();
      return Error::success();
    });
  };
  readFlag("exchange_ring", plan.exchangeRing);
  readFlag("scatter_sums", plan.scatterSums);
  read("overlap", [&](const json &value) -> Error {
    const NamedSchedule *schedule =
        value.is_string() ? findNamedSchedule(value.get<std::string>())
                          : nullptr;
    if (!schedule) {
      std::string names;
      for (const NamedSchedule &known : getNamedSchedules())
        names += (names.empty() ? "" : ", ") + json(known.name.str()).dump();
      return error(locate("overlap", 0), "$.overlap",
                   "expected one of " + names + ", got " + showJson(value));
    }
    plan.overlap = schedule->overlap;
    return Error::success();
  });
  return problems;
}

std::string heddle::writeOptions(const Plan &plan) {
  std::string text;
  if (plan.reduceGradients != GradientReduction::Step)
    text += ",\n  \"reduce_gradients\": " +
            json(stringifyGradientReduction(plan.reduceGradients).str()).dump();
  if (plan.hierarchy != Hierarchy::Auto)
    text += ",\n  \"hierarchy\": " +
            json(stringifyHierarchy(plan.hierarchy).str()).dump();
  if (!plan.subBatchSizes.empty())
    text += ",\n  \"sub_batches\": " + json(plan.subBatchSizes).dump();
  else if (plan.subBatches)
    text += ",\n  \"sub_batches\": " + std::to_string(*plan.subBatches);
  if (plan.recompute)
    text += ",\n  \"recompute\": " +
            json(stringifyRecomputeMode(*plan.recompute).str()).dump();
  if (plan.recomputeBytes)
    text += ",\n  \"recompute_bytes\": " + std::to_string(*plan.recomputeBytes);
  if (plan.exchangeChunks)
    text += ",\n  \"exchange_chunks\": " + std::to_string(*plan.exchangeChunks);
  if (plan.exchangeRing)
    text += ",\n  \"exchange_ring\": true";
  if (plan.scatterSums)
    text += ",\n  \"scatter_sums\": true";
  if (plan.overlap != Overlap::None)
    text += ",\n  \"overlap\": " +
            json(getNamedSchedule(plan.overlap).name.str()).dump();
  return text;
}
