//===- ProductChoices.cpp - Measured algorithms of products ---------------===//

#include "backends/cuda/products/ProductChoices.h"
#include "heddle_rt/atomic_file.h"
#include "manifest/JsonReader.h"
#include "support/ReadFile.h"

#include <cstdio>
#include <iterator>

namespace heddle::runtime::cuda {

static constexpr int64_t kFormat = 1;

static void remark(const std::string &text) {
  std::fprintf(stderr, "heddle: %s\n", text.c_str());
}

void ProductChoices::open(const Card &card, const blas::CublasLt &library) {
  if (std::exchange(isOpen, true))
    return;
  gpu = concat(card.name(), " (sm_", card.capability(), ")");
  version = library.getVersion();
  if (file.empty() || !std::filesystem::exists(file))
    return;
  if (Status status = read(); !status.ok()) {
    choices.clear();
    remark(concat(file.string(), ": ", status.message(),
                  ": products are measured again"));
  }
}

Status ProductChoices::read() {
  std::optional<std::string> text = readFile(file);
  if (!text)
    return Status::error("cannot be read");
  Json json = Json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object())
    return Status::error("expected an object of JSON");
  JsonReader reader;
  int64_t format = reader.integer(json, "", "version", 1);
  std::string ofGpu = reader.string(json, "", "gpu");
  int64_t ofVersion = reader.integer(json, "", "cublaslt", 0);
  HEDDLE_RT_RETURN_IF_ERROR(reader.status);
  if (format != kFormat)
    return errorOf("expected the version ", kFormat, ", got ", format);
  if (ofGpu != gpu || size_t(ofVersion) != version)
    return errorOf("measured with cuBLASLt ", ofVersion, " on ", ofGpu,
                   ", this machine has ", version, " and ", gpu);
  reader.eachObject(
      json, "", "products", [&](const Json &each, const std::string &path) {
        std::string product = reader.string(each, path, "product");
        Choice choice;
        choice.microseconds = reader.number(each, path, "microseconds");
        choice.candidates = int(reader.integer(each, path, "candidates", 1));
        size_t words = 0;
        reader.each(each, path, "algorithm",
                    [&](const Json &word, const std::string &at) {
                      if (!word.is_number_unsigned())
                        reader.fail(at, "a number of 64 bits",
                                    JsonReader::describe(word));
                      else if (words < std::size(choice.algorithm.data))
                        choice.algorithm.data[words] = word.get<uint64_t>();
                      ++words;
                    });
        if (reader.status.ok() && words != std::size(choice.algorithm.data))
          reader.fail(JsonReader::join(path, "algorithm"), "8 numbers",
                      std::to_string(words));
        choices[product] = choice;
      });
  return reader.status;
}

std::optional<ProductChoices::Choice>
ProductChoices::find(const std::string &product) const {
  auto found = choices.find(product);
  return found == choices.end() ? std::nullopt : std::optional(found->second);
}

void ProductChoices::add(const std::string &product, const Choice &choice) {
  choices[product] = choice;
  isChanged = true;
}

void ProductChoices::refuse(const std::string &product) {
  choices.erase(product);
  remark(concat(file.string(),
                ": cuBLASLt refuses the algorithm of the product ", product,
                ": it is measured again"));
}

void ProductChoices::write() {
  std::lock_guard lock(measuring);
  if (file.empty() || !std::exchange(isChanged, false))
    return;
  Json products = Json::array();
  for (auto &[product, choice] : choices)
    products.push_back({{"product", product},
                        {"algorithm", choice.algorithm.data},
                        {"microseconds", choice.microseconds},
                        {"candidates", choice.candidates}});
  Json json = {{"version", kFormat},
               {"gpu", gpu},
               {"cublaslt", version},
               {"products", products}};
  Status status = writeFileAtomically(file.string(), json.dump(1) + "\n");
  if (!status.ok() && !std::exchange(hasFailed, true))
    remark(concat("the measured algorithms of products are not kept, and later "
                  "runs may have other bits: ",
                  status.message()));
}

} // namespace heddle::runtime::cuda
