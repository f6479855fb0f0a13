//===- AtomicFileTest.cpp - Files that appear whole or not at all ---------===//

#include "TestFolder.h"

#include "heddle_rt/atomic_file.h"

using namespace heddle::runtime;
using namespace heddle::test;

namespace {

using AtomicFileTest = FolderTest;

std::span<const std::byte> bytes(std::string_view text) {
  return std::as_bytes(std::span(text));
}

TEST_F(AtomicFileTest, ReplacesOnCommitOnly) {
  write("f", "old");
  Expected<AtomicFile> file = AtomicFile::create(path("f"));
  ASSERT_TRUE(file.ok()) << file.message();
  ASSERT_TRUE(file->writeAt(3, bytes("def")).ok());
  ASSERT_TRUE(file->writeAt(0, bytes("abc")).ok());
  EXPECT_EQ(read("f"), "old");
  Status status = file->commit();
  EXPECT_TRUE(status.ok()) << status.message();
  EXPECT_EQ(read("f"), "abcdef");
  EXPECT_EQ(files(), std::set<std::string>{"f"});
}

TEST_F(AtomicFileTest, DiscardsWhatWasNotCommitted) {
  write("f", "old");
  {
    Expected<AtomicFile> file = AtomicFile::create(path("f"));
    ASSERT_TRUE(file.ok()) << file.message();
    ASSERT_TRUE(file->writeAt(0, bytes("new")).ok());
  }
  EXPECT_EQ(read("f"), "old");
  EXPECT_EQ(files(), std::set<std::string>{"f"});
}

TEST_F(AtomicFileTest, TwoWritersDoNotMeet) {
  Expected<AtomicFile> a = AtomicFile::create(path("f"));
  Expected<AtomicFile> b = AtomicFile::create(path("f"));
  ASSERT_TRUE(a.ok() && b.ok());
  ASSERT_TRUE(a->writeAt(0, bytes("a")).ok());
  ASSERT_TRUE(b->writeAt(0, bytes("b")).ok());
  ASSERT_TRUE(a->commit().ok());
  ASSERT_TRUE(b->commit().ok());
  EXPECT_EQ(read("f"), "b");
  EXPECT_EQ(files(), std::set<std::string>{"f"});
}

TEST_F(AtomicFileTest, FullDiskLeavesTheOldFile) {
  write("f", "old");
  Status status;
  {
    FileSizeLimit limit(1000);
    status = writeFileAtomically(path("f"), std::string(5000, 'x'));
  }
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("File too large"), std::string::npos)
      << status.message();
  EXPECT_NE(status.message().find(path("f")), std::string::npos);
  EXPECT_EQ(read("f"), "old");
  EXPECT_EQ(files(), std::set<std::string>{"f"});
}

TEST_F(AtomicFileTest, FailureWhileWritingLeavesTheOldFile) {
  write("f", "old");
  Status status;
  {
    FileSizeLimit limit(1000);
    Expected<AtomicFile> file = AtomicFile::create(path("f")); // no reservation
    ASSERT_TRUE(file.ok()) << file.message();
    status = file->writeAt(0, bytes(std::string(5000, 'x')));
  }
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(read("f"), "old");
  EXPECT_EQ(files(), std::set<std::string>{"f"});
}

TEST_F(AtomicFileTest, NoFolder) {
  Status status = writeFileAtomically(path("none/f"), "x");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("No such file or directory"),
            std::string::npos)
      << status.message();
}

TEST_F(AtomicFileTest, DestinationIsAFolder) {
  Status status = writeFileAtomically(folder.string(), "x");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("it is a directory"), std::string::npos)
      << status.message();
}

TEST_F(AtomicFileTest, ALinkStays) {
  write("f", "old");
  std::filesystem::create_symlink(path("f"), path("link"));
  ASSERT_TRUE(writeFileAtomically(path("link"), "new").ok());
  EXPECT_TRUE(std::filesystem::is_symlink(path("link")));
  EXPECT_EQ(read("f"), "new");
}

TEST_F(AtomicFileTest, APipeIsNotReplaced) {
  ASSERT_EQ(::mkfifo(path("pipe").c_str(), 0600), 0);
  Status status = writeFileAtomically(path("pipe"), "x");
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("it is not a regular file"),
            std::string::npos)
      << status.message();
  EXPECT_TRUE(std::filesystem::is_fifo(path("pipe")));
}

} // namespace
