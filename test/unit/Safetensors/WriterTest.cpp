//===- WriterTest.cpp - Writing in pieces, shards, and full disks ---------===//

#include "TestFolder.h"

#include "heddle_rt/safetensors.h"

#include <numeric>

using namespace heddle::runtime;
using namespace heddle::runtime::safetensors;
using namespace heddle::test;

namespace {

using WriterTest = FolderTest;

template <typename T>
std::span<const std::byte> bytes(const std::vector<T> &values, size_t first,
                                 size_t count) {
  return std::as_bytes(std::span(values).subspan(first, count));
}

std::vector<float> ramp(size_t size) {
  std::vector<float> values(size);
  std::iota(values.begin(), values.end(), 1.0f);
  return values;
}

std::vector<float> all(const Tensor *tensor) {
  std::vector<float> values(static_cast<size_t>(tensor->elements));
  EXPECT_TRUE(tensor->readF32(0, values).ok());
  return values;
}

TEST_F(WriterTest, PiecesInAnyOrder) {
  std::vector<float> weight = ramp(12);
  std::vector<uint8_t> flags = {1, 0, 1};
  Expected<FileWriter> writer = FileWriter::create(path("x.safetensors"),
                                                   {{"flags", DType::Bool, {3}},
                                                    {"w", DType::F32, {3, 4}},
                                                    {"e", DType::F32, {0}}},
                                                   pytorchMetadata());
  ASSERT_TRUE(writer.ok()) << writer.message();
  ASSERT_TRUE(writer->write(1, 8, bytes(weight, 8, 4)).ok());
  ASSERT_TRUE(writer->write(0, 0, bytes(flags, 0, 3)).ok());
  ASSERT_TRUE(writer->write(1, 0, bytes(weight, 0, 8)).ok());
  Status status = writer->commit();
  ASSERT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(files(), std::set<std::string>{"x.safetensors"});

  Expected<Reader> reader = Reader::open(path("x.safetensors"));
  ASSERT_TRUE(reader.ok()) << reader.message();
  EXPECT_EQ(all(reader->find("w")), weight);
  EXPECT_EQ(all(reader->find("flags")), (std::vector<float>{1, 0, 1}));
  EXPECT_EQ(reader->find("e")->elements, 0);
  EXPECT_EQ(reader->metadata().at("format"), "pt");
  // Tensors of wide elements come first, so the float tensor is aligned.
  EXPECT_EQ(reinterpret_cast<uintptr_t>(reader->find("w")->data.data()) % 8,
            0u);
}

TEST_F(WriterTest, RefusesWhatIsNotWhole) {
  std::vector<float> weight = ramp(8);
  auto create = [&] {
    return FileWriter::create(
        path("x.safetensors"),
        {{"w", DType::F32, {2, 4}}, {"v", DType::F32, {1}}}, {});
  };
  Expected<FileWriter> writer = create();
  ASSERT_TRUE(writer.ok()) << writer.message();
  EXPECT_FALSE(writer->write(2, 0, bytes(weight, 0, 1)).ok());
  EXPECT_FALSE(writer->write(0, 7, bytes(weight, 0, 2)).ok());
  EXPECT_FALSE(writer->write(0, -1, bytes(weight, 0, 1)).ok());
  EXPECT_FALSE(writer->write(0, 9, bytes(weight, 0, 0)).ok());
  EXPECT_FALSE(writer->write(0, 0, bytes(weight, 0, 1).first(3)).ok());
  ASSERT_TRUE(writer->write(0, 2, bytes(weight, 0, 2)).ok());
  EXPECT_FALSE(writer->write(0, 3, bytes(weight, 0, 2)).ok()) << "overlap";
  EXPECT_FALSE(writer->write(0, 0, bytes(weight, 0, 8)).ok()) << "overlap";
  Status status = writer->commit();
  EXPECT_NE(status.message().find("tensor 'w' was not written whole"),
            std::string::npos)
      << status.message();
  *writer = *create();
  EXPECT_EQ(files().size(), 1u) << "the first temporary is gone";
}

TEST_F(WriterTest, RefusesBadNamesAndShapes) {
  auto message = [&](std::vector<TensorInfo> infos) {
    return std::string(
        FileWriter::create(path("x.safetensors"), std::move(infos), {})
            .message());
  };
  EXPECT_NE(
      message({{"a", DType::F32, {1}}, {"a", DType::F32, {1}}}).find("'a'"),
      std::string::npos);
  EXPECT_NE(message({{"__metadata__", DType::F32, {1}}}), "");
  EXPECT_NE(
      message({{"a", DType::F32, {1ll << 32, 1ll << 32}}}).find("too large"),
      std::string::npos);
  EXPECT_NE(message({{"a", DType::F32, {-1}}}), "");
  EXPECT_NE(message({{"\xff", DType::F32, {1}}}).find("UTF-8"),
            std::string::npos);
  EXPECT_TRUE(files().empty());
}

TEST_F(WriterTest, FullDiskLeavesTheOldFile) {
  write("x.safetensors", "old");
  Status status;
  {
    FileSizeLimit limit(4096);
    status = FileWriter::create(path("x.safetensors"),
                                {{"w", DType::F32, {4096}}}, {})
                 .status();
  }
  EXPECT_NE(status.message().find("File too large"), std::string::npos)
      << status.message();
  EXPECT_EQ(read("x.safetensors"), "old");
  EXPECT_EQ(files(), std::set<std::string>{"x.safetensors"});
}

TEST_F(WriterTest, ShardsBySize) {
  std::vector<float> values = ramp(100);
  std::vector<TensorInfo> infos = {{"a", DType::F32, {10}},
                                   {"b", DType::F32, {10}},
                                   {"c", DType::F32, {100}},
                                   {"d", DType::F32, {1}}};
  Expected<DirectoryWriter> writer =
      DirectoryWriter::create(path("m"), infos, pytorchMetadata(), 80);
  ASSERT_TRUE(writer.ok()) << writer.message();
  for (size_t i = 0; i < infos.size(); ++i)
    ASSERT_TRUE(
        writer->write(i, 0, bytes(values, 0, size_t(infos[i].shape[0]))).ok());
  Status status = writer->commit();
  ASSERT_TRUE(status.ok()) << status.message();
  folder /= "m";
  EXPECT_EQ(files(), (std::set<std::string>{"model-00001-of-00003.safetensors",
                                            "model-00002-of-00003.safetensors",
                                            "model-00003-of-00003.safetensors",
                                            "model.safetensors.index.json"}));
  Expected<Reader> reader = Reader::open(folder.string());
  ASSERT_TRUE(reader.ok()) << reader.message();
  for (const TensorInfo &info : infos)
    EXPECT_EQ(all(reader->find(info.name)), ramp(size_t(info.shape[0])));

  // A smaller model in the same folder leaves one file and nothing of the first
  // model.
  Expected<DirectoryWriter> single =
      DirectoryWriter::create(folder.string(), {{"z", DType::F32, {2}}}, {});
  ASSERT_TRUE(single.ok()) << single.message();
  ASSERT_TRUE(single->write(0, 0, bytes(values, 0, 2)).ok());
  ASSERT_TRUE(single->commit().ok());
  EXPECT_EQ(files(), std::set<std::string>{"model.safetensors"});
  folder = folder.parent_path();
}

TEST_F(WriterTest, FullDiskLeavesTheOldFolder) {
  std::vector<float> values = ramp(10000);
  auto save = [&](int64_t size) -> Status {
    Expected<DirectoryWriter> writer = DirectoryWriter::create(
        folder.string(), {{"a", DType::F32, {10}}, {"b", DType::F32, {size}}},
        pytorchMetadata(), 64);
    if (!writer.ok())
      return writer.status();
    HEDDLE_RT_RETURN_IF_ERROR(writer->write(0, 0, bytes(values, 0, 10)));
    HEDDLE_RT_RETURN_IF_ERROR(
        writer->write(1, 0, bytes(values, 0, size_t(size))));
    return writer->commit();
  };
  ASSERT_TRUE(save(20).ok());
  std::set<std::string> before = files();
  std::string oldIndex = read("model.safetensors.index.json");
  Status status;
  {
    FileSizeLimit limit(8192); // the first shard fits, the second does not
    status = save(10000);
  }
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(files(), before);
  EXPECT_EQ(read("model.safetensors.index.json"), oldIndex);
  Expected<Reader> reader = Reader::open(folder.string());
  ASSERT_TRUE(reader.ok()) << reader.message();
  EXPECT_EQ(all(reader->find("b")), ramp(20));
}

} // namespace
