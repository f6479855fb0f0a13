//===- LayoutTest.cpp - Shards of tensors in memory -----------------------===//

#include "session/state/Layout.h"
#include "communicators/Communicator.h"

#include <gtest/gtest.h>

using namespace heddle::runtime;

namespace {

const std::vector<MeshAxis> mesh = {{"dp", 2}, {"tp", 3}};

TEST(Mesh, RanksAreRowMajor) {
  EXPECT_EQ(coordinatesOf(mesh, 4), (std::vector<int64_t>{1, 1}));
  EXPECT_EQ(groupOf(mesh, {1}, 4).ranks, (std::vector<int32_t>{3, 4, 5}));
  EXPECT_EQ(groupOf(mesh, {0}, 4).ranks, (std::vector<int32_t>{1, 4}));
  EXPECT_EQ(groupOf(mesh, {0}, 4).member, 1);
  // The group's first axis is the slowest, in any order of the mesh's axes.
  EXPECT_EQ(groupOf(mesh, {1, 0}, 4).ranks,
            (std::vector<int32_t>{0, 3, 1, 4, 2, 5}));
  EXPECT_EQ(groupOf(mesh, std::vector<int32_t>(), 4).ranks,
            (std::vector<int32_t>{4}));
}

/// Returns the block, and the offset in it, of element `index` of the global
/// tensor, computed naively from the definition of a sharding.
std::pair<int64_t, int64_t> place(const TensorInfo &info, int64_t index) {
  std::vector<int64_t> coordinates(info.shape.size());
  for (size_t i = info.shape.size(); i-- > 0; index /= info.shape[i])
    coordinates[i] = index % info.shape[i];
  int64_t block = 0, offset = 0;
  for (size_t i = 0; i < info.shape.size(); ++i) {
    int64_t parts = 1;
    for (int32_t axis : info.sharding[i])
      parts *= mesh[size_t(axis)].size;
    int64_t local = (info.shape[i] + parts - 1) / parts;
    block = block * parts + coordinates[i] / local;
    offset = offset * local + coordinates[i] % local;
  }
  return {block, offset};
}

TEST(Layout, RunsAgreeWithTheDefinition) {
  const TensorInfo infos[] = {
      {"scalar", HEDDLE_RT_F32, {}, {}},
      {"whole", HEDDLE_RT_F32, {4, 5}, {{}, {}}},
      {"rows", HEDDLE_RT_F32, {7, 5}, {{1}, {}}},
      {"columns", HEDDLE_RT_F32, {3, 7}, {{}, {1}}},
      {"both", HEDDLE_RT_BF16, {5, 4, 7, 3}, {{0}, {}, {1}, {}}},
      {"compound", HEDDLE_RT_F32, {13, 2}, {{1, 0}, {}}},
      {"more parts than rows", HEDDLE_RT_F32, {2, 3}, {{1}, {0}}},
  };
  for (const TensorInfo &info : infos) {
    Layout layout(info, mesh);
    for (int64_t first : {int64_t(0), info.elements() / 3}) {
      int64_t next = first;
      layout.forEachRun(
          first, info.elements() - first,
          [&](int64_t block, int64_t offset, int64_t global, int64_t length) {
            EXPECT_EQ(global, next) << info.name;
            for (int64_t i = 0; i < length; ++i)
              EXPECT_EQ(std::pair(block, offset + i), place(info, global + i))
                  << info.name << " element " << global + i;
            next += length;
          });
      EXPECT_EQ(next, info.elements()) << info.name;
    }
  }
}

TEST(Layout, CompoundAxesAreMajorToMinor) {
  TensorInfo info{"x", HEDDLE_RT_F32, {12}, {{1, 0}}};
  Layout layout(info, mesh);
  EXPECT_EQ(layout.localElements(), 2);
  // Device 4 is dp 1, tp 1: part 1 * 2 + 1.
  EXPECT_EQ(layout.blockOf(4), 3);
}

TEST(Layout, ReplicasShareABlock) {
  TensorInfo info{"x", HEDDLE_RT_F32, {6}, {{1}}};
  Layout layout(info, mesh);
  EXPECT_EQ(layout.holders(1), (std::vector<int32_t>{1, 4}));
}

} // namespace
