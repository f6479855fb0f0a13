//===- OpenPartTest.cpp - Parts of the runtime that load on demand --------===//

#include "support/OpenPart.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

using namespace heddle::runtime;

namespace {

/// A table of version 7.
Part testPart(const char *file = HEDDLE_TEST_PART) {
  return {file, "test_part_table", 7, "does nothing", "do without it"};
}

/// Expects the error to contain the texts.
void expectError(const Part &part, std::initializer_list<const char *> texts) {
  std::string message(openPart(part).message());
  for (const char *text : texts)
    EXPECT_NE(message.find(text), std::string::npos)
        << "expected '" << text << "' in '" << message << "'";
}

TEST(OpenPart, ReturnsTheTable) {
  Expected<const PartVersion *> table = openPart(testPart());
  ASSERT_TRUE(table.ok()) << table.message();
  EXPECT_EQ((*table)->version, 7u);
}

TEST(OpenPart, RefusesAnotherVersion) {
  Part part = testPart();
  part.version = 8;
  expectError(part, {"expected version 8, got 7: take it and libheddle_rt.so "
                     "from the same build"});
}

TEST(OpenPart, RefusesALibraryWithoutTheTable) {
  Part part = testPart();
  part.table = "another_table";
  expectError(part, {"expected version 7, got none"});
}

TEST(OpenPart, NamesTheLibraryAndThePlacesIfThereIsNone) {
  expectError(testPart("libheddle_nothing.so"),
              {"cannot load libheddle_nothing.so, which does nothing: sought "
               "in /",
               "lib and on the system's library path: ",
               "No such file or directory", ": do without it"});
}

TEST(OpenPart, SaysWhyAFileCannotBeLoaded) {
  std::filesystem::path file =
      std::filesystem::path(testing::TempDir()) / "libheddle_broken.so";
  std::ofstream(file) << "no library";
  expectError(testPart(file.c_str()),
              {"libheddle_broken.so", "file too short"});
  std::filesystem::remove(file);
}

} // namespace
