//===- TestFolder.h - A temporary folder for a test -------------*- C++ -*-===//

#ifndef HEDDLE_TEST_UNIT_SAFETENSORS_TESTFOLDER_H
#define HEDDLE_TEST_UNIT_SAFETENSORS_TESTFOLDER_H

#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <set>
#include <string>
#include <sys/resource.h>

namespace heddle::test {

/// A fixture with a temporary folder that it removes at the end.
class FolderTest : public ::testing::Test {
protected:
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/heddle-XXXXXX";
    ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
    folder = pattern;
  }
  void TearDown() override { std::filesystem::remove_all(folder); }

  std::string path(const std::string &name) const {
    return (folder / name).string();
  }

  void write(const std::string &name, const std::string &content) const {
    std::ofstream(path(name), std::ios::binary) << content;
  }

  std::string read(const std::string &name) const {
    std::ifstream stream(path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(stream), {}};
  }

  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto &entry : std::filesystem::directory_iterator(folder))
      names.insert(entry.path().filename().string());
    return names;
  }

  /// Returns the bytes of a safetensors file of this header and data.
  static std::string file(const std::string &header, const std::string &data) {
    uint64_t size = header.size();
    std::string content(sizeof(size), '\0');
    std::memcpy(content.data(), &size, sizeof(size));
    return content + header + data;
  }

  std::filesystem::path folder;
};

/// Imitates a full disk for this process: a write beyond byte `bytes` of a file
/// fails with an errno, as it does with ENOSPC.
class FileSizeLimit {
public:
  explicit FileSizeLimit(uint64_t bytes) {
    oldHandler = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &oldLimit);
    rlimit limit = oldLimit;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &oldLimit);
    std::signal(SIGXFSZ, oldHandler);
  }

private:
  void (*oldHandler)(int);
  rlimit oldLimit;
};

} // namespace heddle::test

#endif // HEDDLE_TEST_UNIT_SAFETENSORS_TESTFOLDER_H
