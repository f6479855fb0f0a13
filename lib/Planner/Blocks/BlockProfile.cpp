//===- BlockProfile.cpp - Reading profiles of blocks ----------------------===//

#include "heddle/Planner/Blocks.h"
#include "heddle/Support/JsonReader.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/MemoryBuffer.h"

using namespace heddle;
using llvm::StringRef;
using Json = nlohmann::json;

/// The largest amount of memory that a profile may state. With this limit, the
/// sum over a model's blocks fits in 64 bits.
static constexpr int64_t kMostBytes = int64_t(1) << 48;
/// The longest time that a profile may state.
static constexpr double kMostSeconds = 1e6;

namespace {

class BlockProfileReader : JsonReader {
public:
  explicit BlockProfileReader(StringRef source) : JsonReader(source.str()) {}

  llvm::Expected<BlockProfile> read(StringRef text) {
    Json root = parse(text);
    BlockProfile profile;
    profile.source = source;
    checkKeys(root, "$", {"version", "mesh", "blocks"}, {"bytes"});
    if (!hasProblem() && root["version"] != 1)
      fail("$.version", "expected 1, got " + showJson(root["version"]));
    readMesh(root, profile.mesh);
    if (!hasProblem() && root.contains("bytes"))
      profile.bytes = readBytes(root, "$");
    each(root, "$", "blocks", [&](const Json &value, const std::string &at) {
      profile.blocks.push_back(readBlock(value, at));
    });
    if (!hasProblem() && profile.blocks.empty())
      fail("$.blocks", "expected one or more blocks, got none");
    // All blocks are known by now.
    for (size_t i = 0; !hasProblem() && i < profile.blocks.size(); ++i) {
      MeasuredBlock &block = profile.blocks[i];
      const Json &value = root["blocks"][i];
      if (value.contains("next"))
        block.next = readChanges(value["next"],
                                 "$.blocks[" + std::to_string(i) + "].next",
                                 block, profile.blocks);
    }
    if (hasProblem())
      return llvm::createStringError(problem);
    return profile;
  }

private:
  double readSeconds(const Json &value, const std::string &path) {
    if (value.is_number() && value.get<double>() >= 0 &&
        value.get<double>() <= kMostSeconds)
      return value.get<double>();
    fail(path, "expected seconds from 0 to 1e6, got " + showJson(value));
    return 0;
  }

  int64_t readBytes(const Json &object, const std::string &path) {
    const Json &value = object["bytes"];
    if (value.is_number_integer() && value.get<int64_t>() >= 0 &&
        value.get<int64_t>() <= kMostBytes)
      return value.get<int64_t>();
    fail(path + ".bytes", "expected a whole number of bytes from 0 to " +
                              std::to_string(kMostBytes) + ", got " +
                              showJson(value));
    return 0;
  }

  void readMesh(const Json &root, DefaultMesh &mesh) {
    std::string text = readText(root, "$", "mesh");
    if (hasProblem())
      return;
    llvm::Expected<DefaultMesh> parsed = parseDefaultMesh(text);
    if (!parsed)
      return fail("$.mesh", llvm::toString(parsed.takeError()));
    if (parsed->pipeline > 1 || parsed->context > 1)
      return fail("$.mesh", "expected the axes dp and tp, got '" + text + "'");
    mesh = std::move(*parsed);
    auto sizes = [](const std::vector<int64_t> &list) {
      return list.size() == 1 ? Json(list.front()) : Json(list);
    };
    // An entry may name only axes of more than one device.
    axes = Json::object();
    if (mesh.data != std::vector<int64_t>{1})
      axes["dp"] = sizes(mesh.data);
    if (mesh.tensor != std::vector<int64_t>{1})
      axes["tp"] = sizes(mesh.tensor);
  }

  MeasuredBlock readBlock(const Json &value, const std::string &at) {
    MeasuredBlock block;
    checkKeys(value, at, {"glob", "strategies"}, {"next"});
    block.glob = readText(value, at, "glob");
    each(value, at, "strategies", [&](const Json &one, const std::string &at) {
      BlockStrategy strategy = readStrategy(one, at);
      if (llvm::any_of(block.strategies, [&](const BlockStrategy &other) {
            return other.name == strategy.name;
          }))
        fail(at + ".name",
             "expected a name that no other strategy of the block "
             "has, got '" +
                 strategy.name + "'");
      block.strategies.push_back(std::move(strategy));
    });
    if (!hasProblem() && block.strategies.empty())
      fail(at + ".strategies", "expected one or more, got none");
    return block;
  }

  /// Reads the tables of changes from the block at `at` to others of `blocks`.
  std::vector<BlockChange> readChanges(const Json &value, const std::string &at,
                                       const MeasuredBlock &block,
                                       llvm::ArrayRef<MeasuredBlock> blocks) {
    std::vector<BlockChange> changes;
    if (!value.is_object()) {
      fail(at, "expected an object with tables by the glob of the block after "
               "this one, got " +
                   showJson(value));
      return changes;
    }
    for (const auto &[glob, table] : value.items()) {
      const auto *after =
          llvm::find_if(blocks, [&, &glob = glob](const MeasuredBlock &other) {
            return other.glob == glob;
          });
      if (after == blocks.end()) {
        fail(at, "expected the globs of blocks, got '" + glob + "'");
        return changes;
      }
      changes.push_back(
          {glob, readTable(value, at, glob, block.strategies.size(),
                           after->strategies.size())});
    }
    return changes;
  }

  std::vector<double> readTable(const Json &object, const std::string &path,
                                const std::string &key, size_t rows,
                                size_t columns) {
    std::vector<double> seconds;
    auto isList = [](const Json &value, size_t size) {
      return value.is_array() && value.size() == size;
    };
    if (!hasProblem() && !isList(object[key], rows))
      fail(path + "." + key, "expected a row for each of the " +
                                 std::to_string(rows) + " strategies, got " +
                                 showJson(object[key]));
    each(object, path, key, [&](const Json &row, const std::string &at) {
      if (!isList(row, columns))
        return fail(at, "expected seconds for each of the " +
                            std::to_string(columns) + " strategies of '" + key +
                            "', got " + showJson(row));
      for (size_t i = 0; i < columns; ++i)
        seconds.push_back(
            readSeconds(row[i], at + "[" + std::to_string(i) + "]"));
    });
    return seconds;
  }

  BlockStrategy readStrategy(const Json &value, const std::string &at) {
    BlockStrategy strategy;
    checkKeys(value, at, {"name", "seconds", "bytes"},
              {"operators", "storage"});
    strategy.name = readText(value, at, "name");
    if (hasProblem())
      return strategy;
    strategy.seconds = readSeconds(value["seconds"], at + ".seconds");
    strategy.bytes = readBytes(value, at);
    // The entries are those of a plan.
    Json plan = {{"version", 1}, {"mesh", axes}};
    for (const char *key : {"operators", "storage"})
      if (value.contains(key))
        plan[key] = value[key];
    llvm::Expected<Plan> parsed = parsePlan(plan.dump(), at);
    if (!parsed) {
      // The line and column refer to generated text, not to the user's file.
      llvm::handleAllErrors(parsed.takeError(), [&](const PlanError &error) {
        StringRef message = error.message;
        if (message.consume_front("$"))
          problem = source + ": " + at + message.str();
        else
          fail(at, message.str());
      });
      return strategy;
    }
    checkAxes(parsed->operators, at + ".operators", *parsed);
    checkAxes(parsed->storage, at + ".storage", *parsed);
    strategy.operators = std::move(parsed->operators);
    strategy.storage = std::move(parsed->storage);
    return strategy;
  }

  template <typename EntryT>
  void checkAxes(const std::vector<EntryT> &entries, const std::string &at,
                 const Plan &plan) {
    for (const EntryT &entry : entries)
      for (const auto &assignment : entry.assignments)
        for (const std::string &axis : assignment.axes)
          if (plan.getAxisSize(axis) <= 1)
            fail(at + "[\"" + entry.glob + "\"]",
                 "expected axes that split the mesh of the blocks, got \"" +
                     axis + "\"");
  }

  Json axes; ///< of the mesh, as in a plan
};

} // namespace

llvm::Expected<BlockProfile> heddle::parseBlockProfile(StringRef text,
                                                       StringRef source) {
  return BlockProfileReader(source).read(text);
}

llvm::Expected<BlockProfile> heddle::loadBlockProfile(StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path);
  if (!file)
    return llvm::createStringError("cannot read '" + path +
                                   "': " + file.getError().message());
  return parseBlockProfile((*file)->getBuffer(), path);
}
