//===- ReusedMemoryTest.cpp - Kernels compiled one after another ----------===//
//
// The kernels of a module must not depend on modules that the process compiled
// before. In this program, memory that is freed is used again as soon as
// possible, so modules and functions get the addresses of earlier ones. The
// program has one thread.
//
//===----------------------------------------------------------------------===//

#include "Kernels.h"
#include <cstdlib>
#include <malloc.h>
#include <new>
#include <utility>

namespace {

/// Freed blocks of one size; the last one is used first.
struct FreeBlock {
  FreeBlock *next;
};
constexpr size_t kLargestKept = 1 << 14;
FreeBlock *kept[kLargestKept / 16 + 1];

} // namespace

// All other forms of new in the process call this one, also those in LLVM.
void *operator new(size_t size) {
  // The sizes that malloc can use are 8 above multiples of 16.
  size_t index = (std::max<size_t>(size, 24) + 7) / 16;
  if (index < std::size(kept) && kept[index])
    return std::exchange(kept[index], kept[index]->next);
  if (void *memory = std::malloc(index * 16 + 8))
    return memory;
  throw std::bad_alloc();
}
void operator delete(void *memory) noexcept {
  size_t usable = memory ? malloc_usable_size(memory) : 0;
  size_t index = usable < 24 ? 0 : (usable - 8) / 16;
  if (index == 0 || index >= std::size(kept))
    return std::free(memory);
  auto *block = static_cast<FreeBlock *>(memory);
  block->next = kept[index];
  kept[index] = block;
}
void operator delete(void *memory, size_t) noexcept { operator delete(memory); }

using namespace heddle::test;

namespace {

constexpr int kFunctions = 32;

/// Returns functions that each sum `count` elements, scaled by a different
/// number so that their kernels differ.
std::string makeSums(int count) {
  std::string text, type = "tensor<" + std::to_string(count) + "xf32>";
  for (int i = 0; i < kFunctions; ++i)
    text += "func.func @f" + std::to_string(i) + "(%x: " + type +
            ") -> tensor<f32> {\n  %c = arith.constant dense<" +
            std::to_string(i + 1) + ".0> : " + type +
            "\n  %y = arith.mulf %x, %c : " + type +
            "\n  %s = heddle.reduce sum %y over [0] : " + type +
            " -> tensor<f32>\n  return %s : tensor<f32>\n}\n";
  return text;
}

/// Each sum has a block of as many warps as its elements need. A check of
/// bounds must not be dropped because an earlier kernel had fewer threads.
TEST(ReusedMemory, BlocksOfOtherSizes) {
  for (int count = 133; count < 400; count += 32) {
    heddle::KernelRunner::Options options;
    options.gpuRows = "block";
    auto runner = heddle::KernelRunner::compile(makeSums(count), options);
    ASSERT_TRUE(bool(runner)) << llvm::toString(runner.takeError());
    Floats x = draw(count, 1), sum(1);
    double expected = 0;
    for (float value : x)
      expected += value;
    for (int i = 0; i < kFunctions; ++i) {
      run(**runner, "f" + std::to_string(i), pointers(x), pointers(sum));
      expectNear(sum, {(i + 1) * expected}, 1e-4, "sum");
    }
  }
}

} // namespace
