//===- Kernels.cpp - Fused kernels against their memory bound -------------===//
//
// kernel_bench [filter]: compiles each kernel from the ops of the model, runs
// it on one and on two threads, and prints the best of many runs. Beside it
// stands the bound: the time that the kernel's memory traffic needs at the
// bandwidth measured in the same run. The bound counts every operand once and
// every result once. A result that is not written in place also costs a read,
// because a store fetches its cache line first.
//
//===----------------------------------------------------------------------===//

#include "test/support/KernelRunner/KernelRunner.h"
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

using heddle::KernelFunction;
using heddle::KernelRunner;

namespace {

/// Runs two tasks on two threads. The second thread spins for a moment before
/// it sleeps.
class Pair {
public:
  Pair() : worker([this] { work(); }) {}
  ~Pair() {
    stop = true;
    ready = true;
    ready.notify_one();
    worker.join();
  }
  template <typename Left, typename Right> void run(Left left, Right right) {
    task = right;
    ready.store(true, std::memory_order_release);
    ready.notify_one();
    left();
    while (ready.load(std::memory_order_acquire))
      ;
  }

private:
  void work() {
    for (int spins = 0;; ++spins) {
      if (!ready.load(std::memory_order_acquire)) {
        if (spins > 100000)
          ready.wait(false);
        continue;
      }
      if (stop)
        return;
      spins = 0;
      task();
      ready.store(false, std::memory_order_release);
    }
  }
  std::function<void()> task;
  std::atomic<bool> ready{false}, stop{false};
  std::thread worker;
};

struct Free {
  void operator()(char *pointer) const { std::free(pointer); }
};
using Buffer = std::unique_ptr<char, Free>;

/// Allocates a buffer of f32 or bf16 values in [-1, 1). Subnormal numbers would
/// slow kernels down, so the low bf16 value of each 32-bit word is a copy of
/// the high one. Buffers of other types get arbitrary bits.
Buffer allocate(size_t bytes, bool bf16 = false) {
  size_t rounded = (bytes + 63) / 64 * 64;
  Buffer buffer(static_cast<char *>(std::aligned_alloc(64, rounded)));
  auto *floats = reinterpret_cast<float *>(buffer.get());
  for (size_t i = 0; i < rounded / 4; ++i)
    floats[i] = float((i * 2654435761u >> 8) & 0xFFFF) / 32768 - 1;
  auto *words = reinterpret_cast<uint32_t *>(buffer.get());
  for (size_t i = 0; bf16 && i < rounded / 4; ++i)
    words[i] = (words[i] & 0xFFFF0000u) | words[i] >> 16;
  return buffer;
}

template <typename Body> double bestSeconds(Body body) {
  double best = 1e9;
  auto start = std::chrono::steady_clock::now();
  auto elapsed = [](auto since) {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() -
                                         since)
        .count();
  };
  for (int run = 0; run < 200 && (run < 7 || elapsed(start) < 0.6); ++run) {
    auto begin = std::chrono::steady_clock::now();
    body();
    best = std::min(best, elapsed(begin));
  }
  return best;
}

/// Measures the bytes a second of a scan over as much memory as the kernel
/// touches. So a kernel whose data fits a cache is compared with the cache's
/// bandwidth.
double measureBandwidth(size_t bytes, bool write, int threads, Pair &pair) {
  size_t count = std::max<size_t>(bytes / 4, 1024) / 64 * 64;
  Buffer buffer = allocate(count * 4);
  auto *data = reinterpret_cast<float *>(buffer.get());
  std::atomic<float> sink{0};
  auto scan = [&](size_t begin, size_t end) {
    if (write) {
#pragma clang loop vectorize(enable) interleave(enable)
      for (size_t i = begin; i < end; ++i)
        data[i] = data[i] * 1.0000001f;
      return;
    }
    // The compiler may not reassociate one sum, so add to 64 sums.
    float sums[64] = {};
    for (size_t i = begin; i + 64 <= end; i += 64)
      for (int j = 0; j < 64; ++j)
        sums[j] += data[i + j];
    float total = 0;
    for (float sum : sums)
      total += sum;
    sink = total;
  };
  size_t half = count / 128 * 64;
  double seconds = bestSeconds([&] {
    if (threads == 1)
      scan(0, count);
    else
      pair.run([&] { scan(0, half); }, [&] { scan(half, count); });
  });
  return count * 4 * (write ? 2 : 1) / seconds;
}

struct Case {
  std::string name, text;
  std::vector<size_t> arguments, results; ///< sizes in bytes
  /// For each result the argument that shares its buffer, or -1.
  std::vector<int> inPlace;
};

std::string replaced(std::string text, const std::string &from,
                     const std::string &to) {
  for (size_t at = 0; (at = text.find(from, at)) != std::string::npos;
       at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

std::vector<Case> makeCases() {
  std::vector<Case> cases;
  auto add = [&](std::string name, std::string text,
                 std::vector<size_t> arguments, std::vector<size_t> results,
                 std::vector<int> inPlace) {
    cases.push_back({name, text, arguments, results, inPlace});
  };
  for (std::string t : {"f32", "bf16"}) {
    size_t w = t == "f32" ? 4 : 2, rows = 1024, h = 768, f = 3072;
    auto typed = [&](const char *text) {
      return replaced(
          replaced(replaced(text, "BIG", "tensor<4x256x3072x" + t + ">"),
                   "ROWS", "tensor<4x256x768x" + t + ">"),
          "ELEMENT", t);
    };
    add("bias + GELU forward 1024x3072 " + t, typed(R"(
func.func @f(%x: BIG, %b: tensor<3072xELEMENT>) -> BIG {
  %bb = heddle.broadcast %b along [2] : tensor<3072xELEMENT> -> BIG
  %s = arith.addf %x, %bb : BIG
  %y = heddle.gelu %s approximate(tanh) : BIG
  return %y : BIG
})"),
        {rows * f * w, f * w}, {rows * f * w}, {-1});
    add("GELU backward + bias gradient 1024x3072 " + t, typed(R"(
func.func @f(%x: BIG, %dy: BIG) -> (BIG, tensor<3072xf32>) {
  %dx = heddle.gelu_grad %x, %dy approximate(tanh) : BIG
  %db = heddle.reduce sum %dx over [0, 1] : BIG -> tensor<3072xf32>
  return %dx, %db : BIG, tensor<3072xf32>
})"),
        {rows * f * w, rows * f * w}, {rows * f * w, f * 4}, {1, -1});
    add("add + LayerNorm forward 1024x768 " + t, typed(R"(
func.func @f(%x: ROWS, %r: ROWS, %w: tensor<768xf32>, %b: tensor<768xf32>) -> (ROWS, ROWS, tensor<4x256xf32>, tensor<4x256xf32>) {
  %s = arith.addf %x, %r : ROWS
  %y, %mean, %rstd = heddle.layer_norm %s, %w, %b epsilon(1.0e-5)
    : (ROWS, tensor<768xf32>, tensor<768xf32>) -> (ROWS, tensor<4x256xf32>, tensor<4x256xf32>)
  return %s, %y, %mean, %rstd : ROWS, ROWS, tensor<4x256xf32>, tensor<4x256xf32>
})"),
        {rows * h * w, rows * h * w, h * 4, h * 4},
        {rows * h * w, rows * h * w, rows * 4, rows * 4}, {0, -1, -1, -1});
    add("LayerNorm backward, all gradients 1024x768 " + t, typed(R"(
func.func @f(%x: ROWS, %w: tensor<768xf32>, %mean: tensor<4x256xf32>, %rstd: tensor<4x256xf32>, %dy: ROWS) -> (ROWS, tensor<768xf32>, tensor<768xf32>) {
  %dx, %dw, %db = heddle.layer_norm_grad %x, %w, %mean, %rstd, %dy
    : (ROWS, tensor<768xf32>, tensor<4x256xf32>, tensor<4x256xf32>, ROWS) -> (ROWS, tensor<768xf32>, tensor<768xf32>)
  return %dx, %dw, %db : ROWS, tensor<768xf32>, tensor<768xf32>
})"),
        {rows * h * w, h * 4, rows * 4, rows * 4, rows * h * w},
        {rows * h * w, h * 4, h * 4}, {4, -1, -1});
    add("cross-entropy + gradient 1024x50257 " + t,
        replaced(typed(R"(
func.func @f(%x: WORDS, %t: tensor<4x256xi32>, %g: tensor<f32>) -> (tensor<4x256xf32>, WORDS) {
  %loss, %lse = heddle.cross_entropy %x, %t : WORDS, tensor<4x256xi32> -> tensor<4x256xf32>, tensor<4x256xf32>
  %gs = heddle.broadcast %g along [] : tensor<f32> -> tensor<4x256xf32>
  %dx = heddle.cross_entropy_grad %x, %t, %lse, %gs
    : WORDS, tensor<4x256xi32>, tensor<4x256xf32>, tensor<4x256xf32> -> WORDS
  return %loss, %dx : tensor<4x256xf32>, WORDS
})"),
                 "WORDS", "tensor<4x256x50257x" + t + ">"),
        {rows * 50257 * w, rows * 4, 4}, {rows * 4, rows * 50257 * w}, {-1, 0});
  }
  size_t parameters = 50257ull * 768 * 4;
  add("AdamW 38.6 M f32", R"(
!p = tensor<50257x768xf32>
func.func @f(%p: !p, %g: !p, %m: !p, %v: !p, %lr: tensor<f32>, %clip: tensor<f32>) -> (!p, !p, !p) {
  %b1 = arith.constant dense<0.9> : !p
  %c1 = arith.constant dense<0.1> : !p
  %b2 = arith.constant dense<0.99> : !p
  %c2 = arith.constant dense<0.01> : !p
  %eps = arith.constant dense<1.0e-8> : !p
  %wd = arith.constant dense<0.1> : !p
  %lrs = heddle.broadcast %lr along [] : tensor<f32> -> !p
  %clips = heddle.broadcast %clip along [] : tensor<f32> -> !p
  %gc = arith.mulf %g, %clips : !p
  %m0 = arith.mulf %m, %b1 : !p
  %m1 = arith.mulf %gc, %c1 : !p
  %mn = arith.addf %m0, %m1 : !p
  %gg = arith.mulf %gc, %gc : !p
  %v0 = arith.mulf %v, %b2 : !p
  %v1 = arith.mulf %gg, %c2 : !p
  %vn = arith.addf %v0, %v1 : !p
  %sq = math.sqrt %vn : !p
  %den = arith.addf %sq, %eps : !p
  %q = arith.divf %mn, %den : !p
  %wp = arith.mulf %p, %wd : !p
  %u = arith.addf %q, %wp : !p
  %ul = arith.mulf %u, %lrs : !p
  %pn = arith.subf %p, %ul : !p
  return %pn, %mn, %vn : !p, !p, !p
})",
      {parameters, parameters, parameters, parameters, 4, 4},
      {parameters, parameters, parameters}, {0, 2, 3});
  return cases;
}

void runCase(const Case &test, Pair &pair, bool dump) {
  KernelRunner::Options options;
  options.dump = dump;
  auto start = std::chrono::steady_clock::now();
  auto runner = KernelRunner::compile(test.text, options);
  if (!runner) {
    std::printf("%s: %s\n", test.name.c_str(),
                llvm::toString(runner.takeError()).c_str());
    std::exit(1);
  }
  double compile =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - start)
          .count();
  std::vector<Buffer> buffers;
  std::vector<void *> arguments, results;
  size_t reads = 0, writes = 0, updates = 0;
  bool bf16 = test.name.find("bf16") != std::string::npos;
  for (size_t bytes : test.arguments) {
    buffers.push_back(allocate(bytes, bf16));
    arguments.push_back(buffers.back().get());
    reads += bytes;
  }
  for (size_t i = 0; i < test.results.size(); ++i) {
    int argument = test.inPlace[i];
    if (argument >= 0 && (*runner)->canReuse("f", i, argument)) {
      results.push_back(arguments[argument]);
      updates += 2 * test.results[i];
      reads -= test.results[i];
      continue;
    }
    if (argument >= 0)
      std::printf("%s: result %zu is not in place\n", test.name.c_str(), i);
    buffers.push_back(allocate(test.results[i]));
    results.push_back(buffers.back().get());
    writes += test.results[i];
  }
  // Labels must be in the vocabulary.
  if (test.name.find("cross-entropy") == 0)
    std::memset(arguments[1], 0, test.arguments[1]);
  size_t touched = reads + writes + updates / 2;
  for (int threads : {1, 2}) {
    double readRate = measureBandwidth(touched, false, threads, pair);
    double updateRate = measureBandwidth(touched, true, threads, pair);
    double bound = reads / readRate + (updates + 2.0 * writes) / updateRate;
    KernelRunner::Launcher launch;
    if (threads == 2)
      launch = [&](KernelFunction kernel, void *const *all, int64_t blocks,
                   int64_t grain) {
        if (blocks < 2 * grain)
          return kernel(all, 0, blocks);
        pair.run([&] { kernel(all, 0, blocks / 2); },
                 [&] { kernel(all, blocks / 2, blocks); });
      };
    double seconds = bestSeconds([&] {
      if (llvm::Error error = (*runner)->run("f", arguments, results, launch)) {
        std::printf("%s\n", llvm::toString(std::move(error)).c_str());
        std::exit(1);
      }
    });
    std::printf("%-46s %d thread%s %8.2f ms  bound %7.2f ms (%5.1f GB/s read, "
                "%5.1f in place)  %4.2f x  %u kernels, compiled in %.2f s\n",
                test.name.c_str(), threads, threads == 1 ? " " : "s",
                seconds * 1e3, bound * 1e3, readRate / 1e9, updateRate / 1e9,
                seconds / bound, (*runner)->countKernels("f"), compile);
    std::fflush(stdout);
  }
}

} // namespace

int main(int argc, char **argv) {
  Pair pair;
  bool dump = argc > 2 && std::string(argv[2]) == "--dump";
  for (const Case &test : makeCases())
    if (argc < 2 || test.name.find(argv[1]) != std::string::npos)
      runCase(test, pair, dump);
  return 0;
}
