//===- CheckOutput.cpp - Files to write, before long work -----------------===//

#include "CheckOutput.h"

#include <filesystem>
#include <unistd.h>

namespace fs = std::filesystem;

std::string heddle::tools::checkOutput(const std::string &option,
                                       const std::string &path) {
  fs::path folder = fs::path(path).parent_path();
  std::error_code failure;
  if (fs::is_directory(path, failure))
    return option + ": expected a file to write, got the folder '" + path + "'";
  if (folder.empty())
    folder = ".";
  if (!fs::is_directory(folder, failure))
    return option + " " + path + ": no such folder '" + folder.string() + "'";
  if (::access(folder.c_str(), W_OK | X_OK) != 0)
    return option + " " + path + ": cannot write to the folder '" +
           folder.string() + "'";
  return "";
}
