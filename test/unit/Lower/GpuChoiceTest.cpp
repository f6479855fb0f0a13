//===- GpuChoiceTest.cpp - Measured algorithms of products ----------------===//

#include "GpuTraining.h"
#include <fstream>
#include <nlohmann/json.hpp>

using namespace heddle;

namespace {

class GpuChoiceTest : public GpuTraining {
protected:
  void measureAndKeep();
  void damageFile();

  void SetUp() override {
    machine.algorithms = 3; // the last one is the fastest
    emulated::setMachine(machine);
  }
  ~GpuChoiceTest() override { emulated::setMachine({}); }

  /// Runs the model, and expects the losses of the first run.
  emulated::Counts train(std::string &remarks) {
    emulated::takeCounts();
    ::testing::internal::CaptureStderr();
    std::vector<float> losses = run(true);
    remarks = ::testing::internal::GetCapturedStderr();
    EXPECT_EQ(message, "");
    EXPECT_EQ(emulated::takeFault(), "");
    if (expected.empty())
      expected = losses;
    EXPECT_EQ(losses, expected);
    return emulated::takeCounts();
  }
  nlohmann::json read() const {
    std::ifstream file(directory / "products.json");
    return nlohmann::json::parse(file, nullptr, false);
  }

  emulated::Machine machine;
  std::vector<float> expected;
};

void GpuChoiceTest::measureAndKeep() {
  std::string remarks;
  emulated::Counts first = train(remarks);
  EXPECT_EQ(remarks, "");
  EXPECT_LT(first.fastest, first.products); // the others were measured
  nlohmann::json file = read();
  ASSERT_TRUE(file.is_object());
  EXPECT_EQ(file["gpu"], "an emulated GPU (sm_90)");
  EXPECT_EQ(file["cublaslt"], 130000);
  ASSERT_GT(file["products"].size(), 3u);
  for (const nlohmann::json &product : file["products"]) {
    EXPECT_EQ(product["candidates"], 3);
    // The time of the fastest candidate.
    EXPECT_NEAR(product["microseconds"].get<double>(), 1, 1e-3);
  }

  emulated::Counts second = train(remarks);
  EXPECT_EQ(remarks, "");
  EXPECT_EQ(second.fastest, second.products);
  EXPECT_LT(second.products, first.products);

  // Another version of the library, or another GPU, measures again.
  machine.cublasLtVersion = 130100;
  emulated::setMachine(machine);
  emulated::Counts third = train(remarks);
  EXPECT_NE(remarks.find("products.json: measured with cuBLASLt 130000 on an "
                         "emulated GPU (sm_90), this machine has 130100 and an "
                         "emulated GPU (sm_90): products are measured again"),
            std::string::npos)
      << remarks;
  EXPECT_EQ(third.products, first.products);
  machine.minor = 6;
  emulated::setMachine(machine);
  train(remarks);
  EXPECT_NE(remarks.find("this machine has 130100 and an emulated GPU (sm_96)"),
            std::string::npos)
      << remarks;
  EXPECT_EQ(read()["gpu"], "an emulated GPU (sm_96)");
}

void GpuChoiceTest::damageFile() {
  machine = {};
  machine.algorithms = 3;
  emulated::setMachine(machine);
  std::filesystem::remove(directory / "products.json");
  std::string remarks;
  emulated::Counts first = train(remarks);
  nlohmann::json file = read();
  auto trainWith = [&](const std::string &text) {
    std::ofstream(directory / "products.json") << text;
    return train(remarks);
  };
  EXPECT_EQ(trainWith("{").products, first.products);
  EXPECT_NE(remarks.find("expected an object of JSON: products are measured "
                         "again"),
            std::string::npos)
      << remarks;
  nlohmann::json cut = file;
  cut["products"][1]["algorithm"].erase(7);
  EXPECT_EQ(trainWith(cut.dump()).products, first.products);
  EXPECT_NE(remarks.find("products[1].algorithm"), std::string::npos)
      << remarks;
  // An algorithm that the library does not know.
  nlohmann::json strange = file;
  strange["products"][0]["algorithm"][0] = 5;
  EXPECT_LT(trainWith(strange.dump()).products, first.products);
  EXPECT_NE(remarks.find("cuBLASLt refuses the algorithm of the product"),
            std::string::npos)
      << remarks;
  EXPECT_EQ(read(), file);
}

// One compiled program serves both.
TEST_F(GpuChoiceTest, OneRank) {
  CompileOptions options;
  options.targetGpu = "sm_80";
  ASSERT_TRUE(compile("gpt2", options));
  measureAndKeep();
  damageFile();
}

/// One rank measures, and the other ranks take its choices over.
TEST_F(GpuChoiceTest, IsSharedByRanks) {
  CompileOptions options;
  options.targetGpu = "sm_80";
  options.mesh.data = {2};
  ASSERT_TRUE(compile("gpt2", options));
  std::string remarks;
  emulated::Counts first = train(remarks), second = train(remarks);
  EXPECT_EQ(second.fastest, second.products);
  auto count = int64_t(read()["products"].size());
  // One product that loads a kernel and three that are measured, of each of
  // three algorithms.
  EXPECT_EQ(first.products, second.products + count * 12);
}

} // namespace
