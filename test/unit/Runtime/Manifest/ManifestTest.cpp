//===- ManifestTest.cpp - Manifests, right and wrong ----------------------===//

#include "heddle_rt/manifest.h"
#include "../Session/TestArtifact.h"
#include "backends/cpu/CpuFeatures.h"

#include <gtest/gtest.h>

using namespace heddle::runtime;
using Json = nlohmann::json;

namespace {

TEST(Manifest, ReadsEveryField) {
  Expected<Manifest> read = parseManifest(testManifest().dump(), "m");
  ASSERT_TRUE(read.ok()) << read.message();
  EXPECT_EQ(read->numDevices(), 4);
  EXPECT_EQ(read->groups,
            (std::vector<GroupInfo>{{{0}, {}}, {{1}, {}}, {{0, 1}, {}}}));
  ASSERT_EQ(read->code.size(), 1u);
  EXPECT_EQ(read->code[0].kind, "cpu");
  EXPECT_EQ(read->code[0].features, std::vector<std::string>{"sse2"});
  ASSERT_EQ(read->tables.size(), 3u);
  EXPECT_EQ(read->tables[0].name, "step");
  EXPECT_EQ(read->tables[0].lists[0].entries[0].program, 0u);
  const VariableInfo &weight = read->variables[0];
  EXPECT_EQ(weight.name, "weight");
  EXPECT_EQ(weight.shape, (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(weight.sharding, (Sharding{{0}, {1}}));
  EXPECT_EQ(weight.init.kind, Initializer::Kind::Normal);
  EXPECT_EQ(weight.init.std, 0.02);
  ASSERT_TRUE(weight.checkpoint.has_value());
  EXPECT_EQ(weight.checkpoint->name, "model.weight");
  EXPECT_EQ(read->variables[1].role, VariableRole::Counter);
  EXPECT_FALSE(read->variables[1].checkpoint);
  EXPECT_EQ(read->findProgram("fail"), std::optional<size_t>(1));
  EXPECT_FALSE(read->findProgram("train"));
  EXPECT_EQ(read->programs[0].results[1].sharding, (Sharding{{0, 1}}));
  EXPECT_EQ(read->programs[0].streams, 2);
  EXPECT_EQ(read->programs[1].streams, 1);
  EXPECT_EQ(Json::parse(read->model)["vocabulary"], 11);
}

/// Returns the error of the test manifest whose field at `pointer` is set to
/// `value`, or removed if `value` is discarded.
std::string errorAfter(const char *pointer, const Json &value) {
  Json manifest = testManifest();
  Json::json_pointer at(pointer);
  if (value.is_discarded())
    manifest[at.parent_pointer()].erase(at.back());
  else
    manifest[at] = value;
  return std::string(parseManifest(manifest.dump(), "m").message());
}

const Json gone = Json(Json::value_t::discarded);

TEST(Manifest, ErrorsNameTheField) {
  EXPECT_EQ(errorAfter("/version", gone),
            "m: version: expected a value, got nothing");
  EXPECT_EQ(errorAfter("/version", 1),
            "m: version: expected 2, which this runtime reads (compile the "
            "model again), got 1");
  EXPECT_EQ(errorAfter("/abi", 99),
            "m: abi: expected 4, which this runtime has (compile the model "
            "again), got 99");
  EXPECT_EQ(errorAfter("/variables/0/shape/1", "six"),
            "m: variables[0].shape[1]: expected a positive integer, got "
            "\"six\"");
  EXPECT_EQ(errorAfter("/variables/0/shape", Json::array({-1, 6})),
            "m: variables[0].shape[0]: expected a positive integer, got -1");
  EXPECT_EQ(errorAfter("/variables/0/type", "f12"),
            "m: variables[0].type: expected one of f32, bf16, f16, f64, i1, "
            "i8, i32, i64, got \"f12\"");
  EXPECT_EQ(errorAfter("/variables/0/storage", Json::array()),
            "m: variables[0].storage: expected one entry for each of 2 "
            "dimensions, got 0");
  EXPECT_EQ(errorAfter("/variables/0/storage/0/0", "pp"),
            "m: variables[0].storage[0][0]: expected the name of a mesh axis, "
            "got \"pp\"");
  EXPECT_EQ(errorAfter("/variables/0/storage/1/0", "dp"),
            "m: variables[0].storage[1]: expected each axis on one dimension "
            "only, got [\"dp\"]");
  EXPECT_EQ(errorAfter("/variables/0/init/std", gone),
            "m: variables[0].init.std: expected a value, got nothing");
  EXPECT_EQ(errorAfter("/variables/0/init/kind", "uniform"),
            "m: variables[0].init.kind: expected one of zeros, ones, constant, "
            "normal, got \"uniform\"");
  EXPECT_EQ(errorAfter("/variables/0/checkpoint/shape", Json::array({31})),
            "m: variables[0].checkpoint.shape: expected as many elements as "
            "the variable has, 30, got 31");
  EXPECT_EQ(errorAfter("/variables/1/name", "weight"),
            "m: variables[1].name: expected each name once, got \"weight\" "
            "again");
  EXPECT_EQ(errorAfter("/variables/1/role", "weights"),
            "m: variables[1].role: expected one of parameter, optimizer_state, "
            "gradient, counter, loss, buffer, setting, got \"weights\"");
  EXPECT_EQ(errorAfter("/programs/0/arena_bytes", 1.5),
            "m: programs[0].arena_bytes: expected a non-negative integer, got "
            "1.5");
  EXPECT_EQ(errorAfter("/programs/0/streams", 0),
            "m: programs[0].streams: expected a positive integer, got 0");
  EXPECT_EQ(errorAfter("/programs/0/staging", Json::array({64, 0, 8})),
            "m: programs[0].staging: expected at most 2 streams, got 3");
  EXPECT_EQ(errorAfter("/programs/0/staging/0", int64_t(1) << 62),
            "m: programs[0].staging[0]: expected at most 1073758208 bytes, got "
            "4611686018427387904");
  EXPECT_EQ(errorAfter("/programs/0/streams", 9),
            "m: programs[0].streams: expected at most 8 streams, got 9");
  EXPECT_EQ(errorAfter("/programs", Json::object()),
            "m: programs: expected an array, got object");
  EXPECT_EQ(errorAfter("/code/0/library", ""),
            "m: code[0].library: expected a file name without a folder, got "
            "\"\"");
  EXPECT_EQ(errorAfter("/code/0/library", "../program.so"),
            "m: code[0].library: expected a file name without a folder, got "
            "\"../program.so\"");
  EXPECT_EQ(errorAfter("/mesh/0/size", int64_t(1) << 40),
            "m: mesh[0].size: expected at most 65536 devices, got "
            "1099511627776");
  EXPECT_EQ(errorAfter("/mesh/0/size", UINT64_MAX),
            "m: mesh[0].size: expected a positive integer, got "
            "18446744073709551615");
}

TEST(Manifest, ErrorsOfRankSets) {
  Json set = {{"where", {{"dp", {1}}}}};
  EXPECT_EQ(errorAfter("/rank_sets", Json::array({set})),
            "m: rank_sets: expected the set of all ranks, {\"where\": {}}, "
            "first, got another");
  EXPECT_EQ(errorAfter("/rank_sets", Json::array()),
            "m: rank_sets: expected the set of all ranks, {\"where\": {}}, "
            "first, got none");
  EXPECT_EQ(errorAfter("/rank_sets/1", {{"where", {{"pp", {0}}}}}),
            "m: rank_sets[1].where: expected the name of a mesh axis, got "
            "\"pp\"");
  EXPECT_EQ(errorAfter("/rank_sets/1", {{"where", {{"dp", {2}}}}}),
            "m: rank_sets[1].where.dp[0]: expected a coordinate below 2, got "
            "2");
  EXPECT_EQ(errorAfter("/rank_sets/1", {{"where", {{"dp", {1, 0}}}}}),
            "m: rank_sets[1].where.dp[1]: expected ascending coordinates, got "
            "0");
  EXPECT_EQ(errorAfter("/rank_sets/1", {{"where", {{"dp", Json::array()}}}}),
            "m: rank_sets[1].where.dp: expected a coordinate, got none");
  EXPECT_EQ(errorAfter("/variables/0/ranks", 1),
            "m: variables[0].ranks: expected an index of a rank set, below 1, "
            "got 1");
  EXPECT_EQ(errorAfter("/groups/0/among", {{"tp", {0}}}),
            "m: groups[0].among: expected axes of the group, got \"tp\"");
  Json manifest = testManifest();
  manifest["rank_sets"].push_back(set);
  manifest["variables"][0]["ranks"] = 1;
  EXPECT_EQ(parseManifest(manifest.dump(), "m").message(),
            "m: variables[0].ranks: expected ranks of all coordinates along a "
            "split axis, got some along \"dp\"");
}

TEST(Manifest, ErrorsOfKernels) {
  Json code = {{"kind", "cuda"},
               {"library", "program.so"},
               {"triple", "x86_64-unknown-linux-gnu"},
               {"features", Json::array()},
               {"chip", "sm_80"},
               {"ptx", "program.ptx"}};
  auto error = [&](const Json &table) {
    code["kernels"] = {{{"symbol", "k"},
                        {"grid", 1},
                        {"block", 1},
                        {"shared_bytes", 0},
                        {"table", table},
                        {"parameters", Json::array()}}};
    return errorAfter("/code/0", code);
  };
  EXPECT_EQ(error(true), "");
  EXPECT_EQ(error(1), "m: code[0].kernels[0].table: expected true or false, "
                      "got 1");
  EXPECT_EQ(error("yes"), "m: code[0].kernels[0].table: expected true or "
                          "false, got \"yes\"");
  for (const char *choice : {"auto", "cudnn", "kernel"}) {
    code["attention"] = choice;
    EXPECT_EQ(error(true), "");
  }
  code["attention"] = "fast";
  EXPECT_EQ(error(true), "m: code[0].attention: expected \"auto\", \"cudnn\" "
                         "or \"kernel\", got \"fast\"");
}

TEST(Manifest, ErrorsOfTables) {
  const char *entry = "/tables/0/lists/0/entries/0";
  auto error = [&](const char *key, const Json &value) {
    return errorAfter((entry + std::string(key)).c_str(), value);
  };
  EXPECT_EQ(error("/call", "train"),
            "m: tables[0].lists[0].entries[0].call: expected the name of a "
            "program, got \"train\"");
  EXPECT_EQ(error("/call", gone),
            "m: tables[0].lists[0].entries[0]: expected a call, a send or a "
            "receive, got none of them");
  EXPECT_EQ(error("/micro_batch", 1),
            "m: tables[0].lists[0].entries[0].micro_batch: expected one below "
            "1, got 1");
  EXPECT_EQ(error("/arguments/0", {{"slot", 0}}),
            "m: tables[0].lists[0].entries[0].arguments[0].slot: expected an "
            "index below 0, got 0");
  EXPECT_EQ(error("/arguments/0", "input"),
            "m: tables[0].lists[0].entries[0].arguments[0]: expected "
            "{\"input\": N}, {\"output\": N}, {\"slot\": N} or "
            "\"micro_batch\", got \"input\"");
  EXPECT_EQ(errorAfter("/tables/0/outputs/0/of", "run"),
            "m: tables[0].outputs[0].of: expected step or micro_batch, got "
            "\"run\"");
  EXPECT_EQ(errorAfter("/tables/0/barrier", "always"),
            "m: tables[0].barrier: expected run or none, got \"always\"");
  EXPECT_EQ(errorAfter("/tables/1/name", "step"),
            "m: tables[1].name: expected each name once, got \"step\" again");
  EXPECT_EQ(errorAfter("/tables/0/role", "train"),
            "m: tables[0].role: expected one of step, evaluate, gradients, got "
            "\"train\"");
  Json manifest = testManifest();
  manifest["tables"][0]["role"] = manifest["tables"][2]["role"] = "step";
  EXPECT_EQ(parseManifest(manifest.dump(), "m").message(),
            "m: tables[2].role: expected each role once, got \"step\" again");
  EXPECT_EQ(errorAfter("/programs/0/results/0/in_place", {0, 1}),
            "m: programs[0].results[0].in_place[1]: expected an argument below "
            "1, got 1");
  EXPECT_EQ(errorAfter("/tables/0/inputs/0/role", "tokens"),
            "m: tables[0].inputs[0].role: expected one of features, labels, "
            "micro_batch, loss_sum, label_count, loss, gradient_norm, "
            "learning_rate, output, gradient, got \"tokens\"");
  Json send = {{"send", {{"input", 0}}},
               {"group", 0},
               {"peer", 1},
               {"stream", 1},
               {"after", {}}};
  EXPECT_EQ(error("", send),
            "m: tables[0].lists[0].entries[0].send: expected {\"slot\": N}, "
            "got {\"input\":0}");
}

TEST(Manifest, EveryFieldIsNeeded) {
  // Removing a field is an error unless the field is optional. No field crashes
  // the parser, whatever type its value has.
  Json flat = testManifest().flatten();
  for (auto &[pointer, value] : flat.items()) {
    for (const Json &other : {Json(), Json(true), Json(-1), Json("x"),
                              Json(1.5), Json::array(), Json::object()}) {
      if (pointer.find("/model") == 0 || pointer.find("/plan") == 0)
        continue;
      Json changed = testManifest();
      changed[Json::json_pointer(pointer)] = other;
      Expected<Manifest> read = parseManifest(changed.dump(), "m");
      if (!read.ok())
        EXPECT_NE(read.message().find("expected"), std::string::npos);
    }
  }
  EXPECT_EQ(parseManifest("{\"version\": 1", "m").message(),
            "m:1:14: expected JSON: syntax error while parsing object - "
            "unexpected end of input; expected '}' (the file may be cut "
            "short)");
  EXPECT_EQ(parseManifest("{\n \"seed\": 1e999}", "m").message(),
            "m:2:10: expected a number that a double can hold, got 1e999");
  EXPECT_EQ(parseManifest("{\"seed\": 1,\n \"seed\": 2}", "m").message(),
            "m:2:2: expected each key once, got \"seed\" twice");
  EXPECT_EQ(parseManifest("[]", "m").message(),
            "m: expected an object, got array");
}

TEST(Manifest, AFolderIsNoManifest) {
  EXPECT_EQ(readManifest(".").message(),
            "cannot read .: expected the manifest of a compiled model");
}

TEST(Manifest, SlicesMakeOneTensor) {
  Expected<Manifest> read = parseManifest(slicedManifest().dump(), "m");
  ASSERT_TRUE(read.ok()) << read.message();
  ASSERT_EQ(read->tensors.size(), 2u);
  const WholeTensor &weight = read->tensors[0];
  EXPECT_EQ(weight.name, "weight");
  EXPECT_EQ(weight.shape, (std::vector<int64_t>{5, 6}));
  EXPECT_EQ(weight.dim, 1);
  EXPECT_EQ(weight.parts, (std::vector<size_t>{2, 0}));
  EXPECT_EQ(weight.checkpoint->name, "model.weight");
  EXPECT_EQ(read->tensors[1].name, "steps");
  EXPECT_EQ(read->tensors[1].parts, (std::vector<size_t>{1}));
}

TEST(Manifest, SlicesCoverTheirTensor) {
  auto errorWith = [](const char *pointer, const Json &value) {
    Json manifest = slicedManifest();
    manifest[Json::json_pointer(pointer)] = value;
    return std::string(parseManifest(manifest.dump(), "m").message());
  };
  EXPECT_EQ(errorWith("/variables/0/slice/offset", 3),
            "m: variables[0].slice.offset: expected 4, where the slice before "
            "ends, got 3");
  EXPECT_EQ(errorWith("/variables/0/slice/offset", 5),
            "m: variables[0].slice: expected 2 rows within the whole of 6, got "
            "them at 5");
  EXPECT_EQ(errorWith("/variables/0/slice/dim", 2),
            "m: variables[0].slice.dim: expected a dimension below 2, the "
            "rank, got 2");
  EXPECT_EQ(errorWith("/variables/0/role", "gradient"),
            "m: variables[2].slice: expected type, role and whole shape of the "
            "other slices of weight, got others");
  EXPECT_EQ(errorWith("/variables/1/name", "weight"),
            "m: variables[1].name: expected type, role and whole shape of the "
            "other slices of weight, got others");
  EXPECT_EQ(errorWith("/variables/0/slice/of", "other"),
            "m: variables[0].slice.offset: expected 0, where the slice before "
            "ends, got 4");
  Json manifest = slicedManifest();
  manifest["variables"].erase(0);
  EXPECT_EQ(parseManifest(manifest.dump(), "m").message(),
            "m: variables: expected slices of weight up to 6, got slices up to "
            "4");
}

TEST(CpuFeatures, NamesWhatIsMissing) {
  EXPECT_TRUE(checkCpu("x86_64-pc-linux-gnu", {"sse2", "+cx8"}).ok());
  EXPECT_EQ(checkCpu("aarch64-linux-gnu", {}).message(),
            "the model was compiled for aarch64-linux-gnu, but this machine is "
            "x86_64: compile it again");
  // No CPU has both xop and amx-fp16.
  Status status = checkCpu("x86_64-linux", {"sse2", "xop", "amx-fp16"});
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("the model was compiled for a CPU with "),
            std::string::npos);
  EXPECT_EQ(checkCpu("x86_64-linux", {"warp-drive"}).message(),
            "the model needs the CPU feature warp-drive, which this runtime "
            "does not know");
}

} // namespace
