//===- ProductChoices.h - Measured algorithms of products -------*- C++ -*-===//

#ifndef HEDDLE_RT_BACKENDS_CUDA_PRODUCTCHOICES_H
#define HEDDLE_RT_BACKENDS_CUDA_PRODUCTCHOICES_H

#include "backends/cuda/driver/Card.h"

#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>

namespace heddle::runtime::cuda {

/// The algorithms of cuBLASLt that were the fastest when the products of an
/// artifact were first computed. The ranks of a session share them, so equal
/// products have equal bits on all ranks. They are kept in a file beside the
/// artifact's, so later runs have the bits of the first one.
class ProductChoices {
public:
  struct Choice {
    blas::Algorithm algorithm{};
    double microseconds = 0; ///< of one product
    int candidates = 0;      ///< that were measured
  };

  /// Keeps the choices in `file`; an empty path: in no file.
  explicit ProductChoices(std::filesystem::path file) : file(std::move(file)) {}

  /// Held by a rank from find() to add(), so that a product is measured once.
  std::mutex measuring;
  /// Reads the file once. Ignores choices of another kind of GPU or another
  /// version of the library, with a remark on stderr.
  void open(const Card &card, const blas::CublasLt &library);
  std::optional<Choice> find(const std::string &product) const;
  void add(const std::string &product, const Choice &choice);
  /// Says on stderr that the library refuses a choice, and forgets it.
  void refuse(const std::string &product);

  /// Writes the file if there are new choices. If it cannot be written, says so
  /// on stderr once.
  void write();

private:
  Status read();

  const std::filesystem::path file;
  bool isOpen = false, isChanged = false, hasFailed = false;
  std::string gpu; ///< its name and compute capability
  size_t version = 0;
  std::map<std::string, Choice> choices; ///< by description of the product
};

} // namespace heddle::runtime::cuda

#endif // HEDDLE_RT_BACKENDS_CUDA_PRODUCTCHOICES_H
