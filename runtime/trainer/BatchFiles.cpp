//===- BatchFiles.cpp - Training on batches from files --------------------===//

#include "Batch.h"
#include "Trainer.h"
#include "heddle_rt/checksum.h"

#include <algorithm>
#include <cmath>
#include <sstream>
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
  // Not a range-based loop, whose increment throws.
  for (fs::directory_iterator entry(data, failure), end;
       !failure && entry != end; entry.increment(failure)) {
    std::error_code ignored; // reading the file reports it
    if (entry->path().extension() == batchExtension &&
        !entry->is_directory(ignored))
      files.push_back(entry->path());
  }
  if (failure)
    return error("folder '" + data.string() + "': " + failure.message());
  if (files.empty())
    return error("folder '" + data.string() +
                 "': expected batches (.safetensors), got none");
  std::ranges::sort(files);
  return files;
}

/// Returns a checksum of the names and sizes of files, or an error.
static Expected<uint64_t> checksumOfFiles(const std::vector<fs::path> &files) {
  Checksum checksum;
  for (const fs::path &file : files) {
    std::error_code failure;
    uint64_t size = fs::file_size(file, failure);
    if (failure)
      return error("batch '" + file.string() + "': " + failure.message());
    std::string name = file.filename().string();
    checksum.update(std::as_bytes(std::span(name.c_str(), name.size() + 1)));
    checksum.update(std::as_bytes(std::span(&size, 1)));
  }
  return checksum.value();
}

Status Trainer::openBatches() {
  auto files = listBatches(options.data);
  if (!files.ok())
    return std::move(files).status();
  auto held = static_cast<size_t>(options.heldOutFraction *
                                  static_cast<double>(files->size()));
  held = std::min(held, files->size() - 1);
  std::error_code ignored;
  if (fs::is_directory(options.data, ignored)) {
    auto checksum = checksumOfFiles(*files);
    if (!checksum.ok())
      return std::move(checksum).status();
    filesChecksum = *checksum;
    if (held == 0 && options.heldOutFraction > 0) {
      std::ostringstream text;
      text << "no batch is held out: a fraction of " << options.heldOutFraction
           << " of " << files->size() << " is less than one batch";
      observer.note(text.str());
    }
  }
  batches.assign(files->begin(), files->end() - held);
  heldOutBatches.assign(files->end() - held, files->end());
  auto first = readBatchOf(batches.front());
  if (!first.ok())
    return std::move(first).status();
  inputs = *std::move(first);
  // Checks all files now, so that no late step fails because of an unfit file.
  for (size_t i = 1; i < files->size(); ++i)
    HEDDLE_RT_RETURN_IF_ERROR(checkBatch((*files)[i]));
  return Status::success();
}

/// Checks that a file has the rows of a step.
Status Trainer::checkRows(const fs::path &file, int64_t rows) const {
  if (rows == tables.rowsPerStep())
    return Status::success();
  return error("batch '" + file.string() + "': expected " +
               std::to_string(tables.rowsPerStep()) +
               " rows, those of a step, got " + std::to_string(rows));
}

/// Checks the types and shapes of a file's tensors, without reading its data.
Status Trainer::checkBatch(const fs::path &file) const {
  auto opened = readBatchShapes(file);
  if (!opened.ok())
    return std::move(opened).status();
  auto rows = matchShapes(*opened, session.manifest(), tables.inputs,
                          tables.microBatches);
  if (!rows.ok())
    return std::move(rows).status();
  return checkRows(file, *rows);
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
  HEDDLE_RT_RETURN_IF_ERROR(checkRows(file, matched->rows));
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
