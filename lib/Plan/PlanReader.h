//===- PlanReader.h - From JSON text to a plan ------------------*- C++ -*-===//

#ifndef HEDDLE_LIB_PLAN_PLANREADER_H
#define HEDDLE_LIB_PLAN_PLANREADER_H

#include "heddle/Plan/Plan.h"
#include "llvm/ADT/Twine.h"
#include <nlohmann/json.hpp>

namespace heddle {

/// Reads the text of one plan. The JSON library gives no positions of keys, so
/// the reader searches the text for a key, starting at the position of its
/// parent.
class PlanReader {
public:
  using Json = nlohmann::ordered_json; // keeps the order of the mesh's axes

  /// A part of a plan may lack its mesh.
  PlanReader(llvm::StringRef text, llvm::StringRef source, bool isPart)
      : text(text), source(source), isPart(isPart) {}

  llvm::Expected<Plan> read();

private:
  llvm::Error error(size_t offset, llvm::StringRef path,
                    const llvm::Twine &message);
  PlanPosition position(size_t offset);
  /// Returns the offset of the key, searched from `from` on; `from` if the text
  /// lacks the key.
  size_t locate(llvm::StringRef key, size_t from);

  // PlanJson.cpp
  llvm::Error parseText(Json &root);
  llvm::Error checkKeys(const Json &root);
  llvm::Error readMesh(const Json &value, size_t from, Plan &plan);

  // PlanEntriesJson.cpp: "operators", "storage", "pins", "splits" and
  // "priorities"
  llvm::Error readSections(const Json &root, Plan &plan);
  template <typename KeyT>
  llvm::Error readEntries(const Json &value, llvm::StringRef section,
                          size_t from, const Plan &plan,
                          std::vector<PlanEntry<KeyT>> &entries);
  llvm::Error readAxes(const Json &value, const std::string &path, size_t from,
                       const Plan &plan, std::vector<std::string> &axes);
  llvm::Error readSplits(const Json &value, size_t from, Plan &plan);
  llvm::Error readSplit(const Json &body, const std::string &path, size_t from,
                        PlanSplit &split);
  llvm::Error readPriorities(const Json &value, size_t from, Plan &plan);

  // PlanStagesJson.cpp: "stages" and "pipeline"
  llvm::Error readPipeline(const Json &root, Plan &plan);
  llvm::Error readStages(const Json &value, size_t from, Plan &plan);
  llvm::Error readScheduleName(const Json &value, size_t from, Plan &plan);
  llvm::Error readScheduleTable(const Json &value, size_t from, Plan &plan);

  // PlanOptionsJson.cpp: keys with one value
  llvm::Error readOptions(const Json &root, Plan &plan);

  llvm::StringRef text, source;
  bool isPart;
};

// Each function returns the text of its keys, with a comma before each.

std::string writeSections(const Plan &plan);
std::string writePipeline(const Plan &plan);
std::string writeOptions(const Plan &plan);

} // namespace heddle

#endif // HEDDLE_LIB_PLAN_PLANREADER_H
