//===- BatchFiles.cpp - Training on batches from files --------------------===//

#include "Batch.h"
#include "Trainer.h"

#include <algorithm>
#include <cmath>
#include <system_error>

namespace fs = std::filesystem;
using namespace heddle::runtime;

static constexpr std::string_view batchExtension = ".safetensors";

bool heddle::runtime::isBatchData(const fs::path &data) {
  std::error_code failure;
  return data.extension() == batchExtension || fs::is_directory(data, failure);
}

Expected<std::vector<fs::path>>
heddle::runtime::listBatches(const fs::path &data) {
  std::error_code failure;
  if (!fs::is_directory(data, failure))
    return std::vector<fs::path>{data};
  std::vector<fs::path> files;
  for (const fs::directory_entry &entry : fs::directory_iterator(data, failure))
    if (entry.path().extension() == batchExtension)
      files.push_back(entry.path());
  if (failure)
    return error("folder '" + data.string() + "': " + failure.message());
  if (files.empty())
    return error("folder '" + data.string() +
                 "': expected batches (.safetensors), got none");
  std::ranges::sort(files);
  return files;
}

Status Trainer::openBatches() {
  auto files = listBatches(options.data);
  if (!files.ok())
    return std::move(files).status();
  auto held = static_cast<size_t>(options.heldOutFraction *
                                  static_cast<double>(files->size()));
  held = std::min(held, files->size() - 1);
  batches.assign(files->begin(), files->end() - held);
  heldOutBatches.assign(files->end() - held, files->end());
  auto first = readBatchOf(batches.front());
  if (!first.ok())
    return std::move(first).status();
  inputs = *std::move(first);
  return Status::success();
}

/// Returns the values of each input that a file holds, of all micro-batches.
Expected<std::vector<std::vector<std::byte>>>
Trainer::readBatchOf(const fs::path &file) const {
  auto opened = readBatch(file);
  if (!opened.ok())
    return std::move(opened).status();
  auto matched = matchBatch(*opened, session.manifest(), tables.inputs,
                            tables.microBatches);
  if (!matched.ok())
    return std::move(matched).status();
  if (matched->rows != tables.rowsPerStep())
    return error("batch '" + file.string() + "': expected " +
                 std::to_string(tables.rowsPerStep()) +
                 " rows, those of a step, got " +
                 std::to_string(matched->rows));
  return std::move(matched->values);
}

/// Fills the inputs of a step, whose memory stays where it is. The files follow
/// each other by their names, again and again.
Status Trainer::readStep(int64_t step) {
  if (batches.size() == 1)
    return Status::success();
  auto values =
      readBatchOf(batches[static_cast<size_t>(step) % batches.size()]);
  if (!values.ok())
    return std::move(values).status();
  for (size_t i = 0; i < inputs.size(); ++i)
    std::ranges::copy((*values)[i], inputs[i].begin());
  return Status::success();
}

Status Trainer::addHeldOutBatches(double &lossSum, double &count) {
  std::span<const fs::path> files = heldOutBatches;
  if (options.evaluateWindows > 0)
    files = files.first(
        std::min(files.size(), static_cast<size_t>(options.evaluateWindows)));
  for (const fs::path &file : files) {
    auto values = readBatchOf(file);
    if (!values.ok())
      return std::move(values).status();
    for (int64_t part = 0; part < tables.microBatches; ++part) {
      std::vector<ConstBytes> arguments;
      for (size_t i = 0; i < values->size(); ++i) {
        size_t bytes = tables.inputs[i].bytes();
        arguments.push_back(
            ConstBytes((*values)[i])
                .subspan(static_cast<size_t>(part) * bytes, bytes));
      }
      HEDDLE_RT_RETURN_IF_ERROR(addEvaluated(arguments, lossSum, count));
    }
  }
  return Status::success();
}
