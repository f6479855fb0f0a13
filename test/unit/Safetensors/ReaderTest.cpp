//===- ReaderTest.cpp - Files that the reader accepts and refuses ---------===//

#include "TestFolder.h"

#include "heddle_rt/safetensors.h"

#include <cmath>
#include <limits>

using namespace heddle::runtime;
using namespace heddle::runtime::safetensors;
using namespace heddle::test;

namespace {

class ReaderTest : public FolderTest {
protected:
  /// Returns the error of opening a file of this content; "" if it opens.
  std::string refusal(const std::string &content) {
    write("x.safetensors", content);
    return messageOf(path("x.safetensors"));
  }
  std::string messageOf(const std::string &path) {
    return std::string(Reader::open(path).message());
  }

  /// Returns a file of one tensor "a" with this header entry and `bytes` bytes
  /// of data.
  std::string one(const std::string &entry, size_t bytes) {
    return file("{\"a\":" + entry + "}", std::string(bytes, '\0'));
  }
};

::testing::AssertionResult contains(const std::string &text,
                                    const std::string &part) {
  if (text.find(part) != std::string::npos)
    return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure()
         << "expected a text with '" << part << "', got '" << text << "'";
}
#define EXPECT_CONTAINS(TEXT, PART) EXPECT_TRUE(contains(TEXT, PART))

template <typename T> std::string raw(std::initializer_list<T> values) {
  std::string text(values.size() * sizeof(T), '\0');
  std::memcpy(text.data(), values.begin(), text.size());
  return text;
}

TEST_F(ReaderTest, ReadsWhatAnotherWriterWrote) {
  // The format allows spaces as padding, and unaligned tensors.
  write("x.safetensors",
        file(R"({"__metadata__":{"format":"pt"},)"
             R"("u":{"dtype":"U8","shape":[3],"data_offsets":[0,3]},)"
             R"("m":{"dtype":"F32","shape":[2,2],"data_offsets":[3,19]},)"
             R"("s":{"dtype":"I64","shape":[],"data_offsets":[19,27]},)"
             R"("e":{"dtype":"F32","shape":[0,4],"data_offsets":[27,27]}}  )",
             raw<uint8_t>({1, 2, 255}) + raw<float>({1, 2, 3, 4.5}) +
                 raw<int64_t>({-7})));
  Expected<Reader> reader = Reader::open(path("x.safetensors"));
  ASSERT_TRUE(reader.ok()) << reader.message();
  EXPECT_EQ(reader->tensors().size(), 4u);
  EXPECT_EQ(reader->metadata().at("format"), "pt");
  EXPECT_EQ(reader->find("none"), nullptr);

  const Tensor *m = reader->find("m");
  ASSERT_NE(m, nullptr);
  EXPECT_EQ(m->shape, (std::vector<int64_t>{2, 2}));
  std::vector<float> row(2);
  ASSERT_TRUE(m->readF32(2, row).ok());
  EXPECT_EQ(row, (std::vector<float>{3, 4.5}));
  EXPECT_CONTAINS(std::string(m->readF32(3, row).message()),
                  "expected elements within its 4, got 2 from 3");
  EXPECT_FALSE(m->readF32(-1, row).ok());
  int64_t integer;
  EXPECT_CONTAINS(std::string(m->readI64(0, {&integer, 1}).message()),
                  "expected an integer type, got F32");

  ASSERT_TRUE(reader->find("s")->readI64(0, {&integer, 1}).ok());
  EXPECT_EQ(integer, -7);
  ASSERT_TRUE(reader->find("u")->readI64(2, {&integer, 1}).ok());
  EXPECT_EQ(integer, 255);
  EXPECT_EQ(reader->find("e")->elements, 0);
}

TEST_F(ReaderTest, ConvertsEveryType) {
  struct Case {
    const char *dtype;
    std::string data;
    float expected;
  };
  for (const Case &c : {Case{"BOOL", raw<uint8_t>({1}), 1},
                        {"U8", raw<uint8_t>({200}), 200},
                        {"I8", raw<int8_t>({-5}), -5},
                        {"U16", raw<uint16_t>({65535}), 65535},
                        {"I16", raw<int16_t>({-300}), -300},
                        {"U32", raw<uint32_t>({4000000000u}), 4e9f},
                        {"I32", raw<int32_t>({-70000}), -70000},
                        {"U64", raw<uint64_t>({1ull << 63}), 0x1p63f},
                        {"I64", raw<int64_t>({-(1ll << 40)}), -0x1p40f},
                        {"F16", raw<uint16_t>({0xc500}), -5.0f},
                        {"BF16", raw<uint16_t>({0x3fc0}), 1.5f},
                        {"F32", raw<float>({0.1f}), 0.1f},
                        {"F64", raw<double>({0.1}), 0.1f}}) {
    write("x.safetensors", file("{\"a\":{\"dtype\":\"" + std::string(c.dtype) +
                                    "\",\"shape\":[1],\"data_offsets\":[0," +
                                    std::to_string(c.data.size()) + "]}}",
                                c.data));
    Expected<Reader> reader = Reader::open(path("x.safetensors"));
    ASSERT_TRUE(reader.ok()) << c.dtype << ": " << reader.message();
    float value = 0;
    ASSERT_TRUE(reader->find("a")->readF32(0, {&value, 1}).ok());
    EXPECT_EQ(value, c.expected) << c.dtype;
  }
}

TEST_F(ReaderTest, ConvertsEveryHalf) {
  std::string data;
  for (uint32_t bits = 0; bits < 0x10000; ++bits)
    data += raw<uint16_t>({static_cast<uint16_t>(bits)});
  write(
      "x.safetensors",
      file(R"({"a":{"dtype":"F16","shape":[65536],"data_offsets":[0,131072]}})",
           data));
  Expected<Reader> reader = Reader::open(path("x.safetensors"));
  ASSERT_TRUE(reader.ok()) << reader.message();
  std::vector<float> values(65536);
  ASSERT_TRUE(reader->find("a")->readF32(0, values).ok());
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    int exponent = (bits >> 10) & 31;
    float mantissa = static_cast<float>(bits & 1023);
    float expected = exponent == 0 ? std::ldexp(mantissa, -24)
                                   : std::ldexp(mantissa + 1024, exponent - 25);
    if (bits & 0x8000)
      expected = -expected;
    if (exponent == 31 && mantissa != 0)
      EXPECT_TRUE(std::isnan(values[bits])) << bits;
    else if (exponent == 31)
      EXPECT_TRUE(std::isinf(values[bits]) &&
                  std::signbit(values[bits]) == ((bits & 0x8000) != 0));
    else
      EXPECT_TRUE(values[bits] == expected &&
                  std::signbit(values[bits]) == std::signbit(expected))
          << bits;
  }
}

TEST_F(ReaderTest, TruncatedFiles) {
  EXPECT_CONTAINS(refusal(""), "at least 8 bytes, got 0");
  EXPECT_CONTAINS(refusal("abc"), "at least 8 bytes, got 3");
  std::string whole =
      one(R"({"dtype":"F32","shape":[4],"data_offsets":[0,16]})", 16);
  EXPECT_EQ(refusal(whole), "");
  // Every cut is refused.
  for (size_t size = 0; size < whole.size(); ++size)
    EXPECT_NE(refusal(whole.substr(0, size)), "") << size;
  EXPECT_CONTAINS(refusal(whole.substr(0, 20)), "the file is truncated");
  EXPECT_CONTAINS(refusal(whole.substr(0, whole.size() - 1)),
                  "within the file's 15 bytes");
  EXPECT_CONTAINS(refusal(whole + "x"),
                  "expected 16 bytes of data after the header, got 17");
}

TEST_F(ReaderTest, LyingHeaderLength) {
  EXPECT_CONTAINS(refusal(std::string(8, '\xff') + "{}"),
                  "expected a header of at most");
  EXPECT_CONTAINS(refusal(raw<uint64_t>({3}) + "{}"), "the file is truncated");
  EXPECT_CONTAINS(refusal(raw<uint64_t>({0})), "begin with '{'");
  EXPECT_CONTAINS(refusal(file(" {}", "")), "begin with '{'");
  EXPECT_CONTAINS(refusal(file("{\"a\":", "")), "expected JSON");
  EXPECT_CONTAINS(refusal(file("{} x", "")), "expected JSON");
  EXPECT_CONTAINS(refusal(file("{\n\"a\": 1e999}", "")),
                  "header:2:6: expected a number that a double can hold, got "
                  "1e999");
  EXPECT_CONTAINS(refusal(file("{\"a\": " + std::string(400, '7') + "}", "")),
                  "header:1:7: expected a number that a double can hold, got "
                  "7777777777777777777777777777777777777777...");
  EXPECT_EQ(refusal(file("{}", "")), "");
}

TEST_F(ReaderTest, WrongShapeOfHeader) {
  EXPECT_CONTAINS(refusal(one("3", 4)), "'a': expected an object, got number");
  EXPECT_CONTAINS(refusal(one(R"({"dtype":"F32","shape":[1]})", 4)),
                  "expected a key 'data_offsets', got none");
  EXPECT_CONTAINS(
      refusal(
          one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1})", 4)),
      "got key 'x'");
  EXPECT_CONTAINS(
      refusal(one(R"({"dtype":"F32","shape":1,"data_offsets":[0,4]})", 4)),
      "expected shape to be a list");
  EXPECT_CONTAINS(
      refusal(one(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", 4)),
      "non-negative integers, got -1");
  EXPECT_CONTAINS(
      refusal(one(R"({"dtype":"F32","shape":[1.0],"data_offsets":[0,4]})", 4)),
      "non-negative integers, got 1.0");
  EXPECT_CONTAINS(
      refusal(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0]})", 4)),
      "two non-negative integers, got [0]");
  EXPECT_CONTAINS(
      refusal(one(R"({"dtype":"F32","shape":[1],"data_offsets":[0,"4"]})", 4)),
      "two non-negative integers");
  EXPECT_CONTAINS(refusal(file(R"({"__metadata__":{"k":1}})", "")),
                  "expected __metadata__ to hold strings, got 1 for 'k'");
}

TEST_F(ReaderTest, UnknownType) {
  EXPECT_CONTAINS(
      refusal(one(R"({"dtype":"F7","shape":[1],"data_offsets":[0,4]})", 4)),
      "got \"F7\"");
  EXPECT_CONTAINS(
      refusal(one(R"({"dtype":32,"shape":[1],"data_offsets":[0,4]})", 4)),
      "got 32");
}

TEST_F(ReaderTest, WrongSize) {
  EXPECT_CONTAINS(
      refusal(one(R"({"dtype":"F64","shape":[2],"data_offsets":[0,8]})", 8)),
      "expected 16 bytes for shape [2] of F64, got 8");
}

TEST_F(ReaderTest, OverflowingShape) {
  // 2^32 * 2^32 elements wrap around to 0, and so do 2^61 elements of 8 bytes.
  EXPECT_CONTAINS(
      refusal(one(
          R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]})",
          0)),
      "is too large");
  EXPECT_CONTAINS(
      refusal(one(
          R"({"dtype":"F64","shape":[2305843009213693952],"data_offsets":[0,0]})",
          0)),
      "is too large");
  EXPECT_CONTAINS(
      refusal(one(
          R"({"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,0]})",
          0)),
      "non-negative integers, got 18446744073709551615");
  EXPECT_CONTAINS(
      refusal(one(
          R"({"dtype":"U8","shape":[4],"data_offsets":[0,18446744073709551620]})",
          4)),
      "two non-negative integers");
}

TEST_F(ReaderTest, OffsetsOutOfBoundsOrReversed) {
  EXPECT_CONTAINS(
      refusal(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", 4)),
      "within the file's 4 bytes of data, got [4,8]");
  EXPECT_CONTAINS(
      refusal(one(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", 4)),
      "to increase");
}

TEST_F(ReaderTest, OverlapsAndHoles) {
  auto two = [&](const std::string &a, const std::string &b, size_t bytes) {
    return refusal(file(
        R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
            R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
        std::string(bytes, '\0')));
  };
  EXPECT_EQ(two("[4,8]", "[0,4]", 8), "");
  EXPECT_CONTAINS(two("[0,4]", "[2,6]", 6),
                  "'b': its data overlaps with that of 'a'");
  EXPECT_CONTAINS(two("[0,4]", "[0,4]", 4), "overlaps");
  EXPECT_CONTAINS(two("[0,4]", "[5,9]", 9),
                  "'b': expected its data at offset 4, got 5");
  EXPECT_CONTAINS(two("[1,5]", "[5,9]", 9), "at offset 0, got 1");
}

TEST_F(ReaderTest, DuplicateNames) {
  std::string entry = R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})";
  EXPECT_CONTAINS(
      refusal(file("{\"a\":" + entry + ",\"a\":" + entry + "}", "1234")),
      "header:1:54: expected each key once, got \"a\" twice");
  EXPECT_CONTAINS(
      refusal(one(
          R"({"dtype":"F32","dtype":"U8","shape":[4],"data_offsets":[0,4]})",
          4)),
      "header:1:21: expected each key once, got \"dtype\" twice");
}

TEST_F(ReaderTest, NoSuchFile) {
  EXPECT_CONTAINS(messageOf(path("none.safetensors")),
                  "No such file or directory");
  EXPECT_CONTAINS(messageOf(folder.string()), "has neither model.safetensors");
  EXPECT_FALSE(hasWeights(folder.string()));
  EXPECT_CONTAINS(messageOf("/dev/null"), "not a regular file");
}

class ShardsTest : public ReaderTest {
protected:
  void SetUp() override {
    ReaderTest::SetUp();
    write("1.safetensors",
          one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})", 4));
    write(
        "2.safetensors",
        file(R"({"b":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "xy"));
  }
  std::string index(const std::string &map) {
    write("model.safetensors.index.json",
          "{\"metadata\":{\"total_size\":0},\"weight_map\":" + map + "}");
    return messageOf(folder.string());
  }
};

TEST_F(ShardsTest, Opens) {
  EXPECT_EQ(index(R"({"a":"1.safetensors","b":"2.safetensors"})"), "");
  Expected<Reader> reader = Reader::open(path("model.safetensors.index.json"));
  ASSERT_TRUE(reader.ok()) << reader.message();
  int64_t value = 0;
  ASSERT_TRUE(reader->find("b")->readI64(1, {&value, 1}).ok());
  EXPECT_EQ(value, 'y');
  EXPECT_TRUE(hasWeights(folder.string()));
}

TEST_F(ShardsTest, Refusals) {
  EXPECT_CONTAINS(index("[]"), "an object 'weight_map'");
  EXPECT_CONTAINS(index(R"({"a":1})"), "expected a file name for 'a', got 1");
  EXPECT_CONTAINS(index(R"({"a":"../1.safetensors"})"), "in the same folder");
  EXPECT_CONTAINS(index(R"({"a":"3.safetensors"})"),
                  "No such file or directory");
  EXPECT_CONTAINS(
      index(R"({"a":"1.safetensors","b":"2.safetensors","c":"2.safetensors"})"),
      "expected tensor 'c' in shard \"2.safetensors\", which lacks it");
  EXPECT_CONTAINS(index(R"({"a":"1.safetensors","c":"2.safetensors"})"),
                  "tensor 'b' of shard '2.safetensors' is not in the index");
  EXPECT_CONTAINS(index(R"({"a":"2.safetensors","b":"1.safetensors"})"),
                  "expected tensor 'a' in shard \"2.safetensors\"");
  EXPECT_CONTAINS(index(R"({"a":"1.safetensors","a":"2.safetensors"})"),
                  "index.json:1:64: expected each key once, got \"a\" twice");
  write("3.safetensors",
        one(R"({"dtype":"U8","shape":[4],"data_offsets":[0,4]})", 4));
  EXPECT_CONTAINS(
      index(R"({"a":"1.safetensors","b":"2.safetensors","x":"3.safetensors"})"),
      "'a' is in another shard, too");
}

} // namespace
