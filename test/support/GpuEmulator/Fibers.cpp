//===- Fibers.cpp - The threads of an emulated block ----------------------===//

#include "Fibers.h"
#include <sys/mman.h>

using namespace heddle;

#if !defined(__x86_64__)
#error "the emulator of GPUs switches stacks in assembly of x86-64"
#endif

static constexpr size_t kStackBytes = 1 << 18;

/// Stores the registers that a callee must preserve on the stack, and the stack
/// pointer in `save`. Then goes on with the stack `load`.
extern "C" void heddle_switch_stack(void **save, void *load);
asm(R"(
.text
.local heddle_switch_stack
.type heddle_switch_stack, @function
heddle_switch_stack:
  push %rbp
  push %rbx
  push %r12
  push %r13
  push %r14
  push %r15
  mov %rsp, (%rdi)
  mov %rsi, %rsp
  pop %r15
  pop %r14
  pop %r13
  pop %r12
  pop %rbx
  pop %rbp
  ret
.size heddle_switch_stack, .-heddle_switch_stack
)");

thread_local Fibers *Fibers::current = nullptr;

Fibers::Fibers(int32_t threads) : fibers(threads) {
  for (Fiber &fiber : fibers)
    fiber.stack = mmap(nullptr, kStackBytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

Fibers::~Fibers() {
  for (Fiber &fiber : fibers)
    munmap(fiber.stack, kStackBytes);
}

void Fibers::enter() {
  Fibers &self = *current;
  (*self.body)();
  self.wait(State::Ended); // never returns
  std::abort();
}

void Fibers::start(Fiber &fiber) {
  // As heddle_switch_stack leaves a stack: six registers, then the address to
  // return to. A function starts with a stack that is 8 beside a multiple of
  // 16.
  auto *top =
      reinterpret_cast<void **>(static_cast<char *>(fiber.stack) + kStackBytes);
  top -= 2;
  *top = reinterpret_cast<void *>(&enter);
  for (int i = 0; i < 6; ++i)
    *--top = nullptr;
  fiber.pointer = top;
  fiber.state = State::Ready;
}

void Fibers::wait(State state) {
  Fiber &fiber = fibers[running];
  fiber.state = state;
  heddle_switch_stack(&fiber.pointer, scheduler);
}

void Fibers::fault(std::string text) {
  if (message.empty())
    message = std::move(text);
}

void Fibers::waitForBlock() { wait(State::AtBlock); }
void Fibers::waitForWarp() { wait(State::AtWarp); }

uint32_t Fibers::exchange(uint32_t value, uint32_t distance) {
  Fiber &fiber = fibers[running];
  fiber.value = value;
  wait(State::AtExchange);
  size_t other = size_t(running) ^ distance;
  uint32_t result = other < fibers.size() ? fibers[other].value : value;
  // No lane may change its value before all have read it.
  wait(State::AtExchange);
  return result;
}

void Fibers::access(uintptr_t address, size_t bytes, bool isWrite) {
  if (!accesses)
    return;
  const Fiber &fiber = fibers[running];
  auto stack = reinterpret_cast<uintptr_t>(fiber.stack);
  if (address >= stack && address + bytes <= stack + kStackBytes)
    return;
  std::string text = accesses->check(fiber.time, address, bytes, isWrite);
  if (text.empty())
    return;
  fault(text);
  wait(State::Ended);
}

void Fibers::releaseWarp(size_t first, size_t end) {
  State state = fibers[first].state;
  if (state != State::AtWarp && state != State::AtExchange)
    return;
  for (size_t i = first; i < end; ++i)
    if (fibers[i].state != state)
      return;
  for (size_t i = first; i < end; ++i) {
    fibers[i].state = State::Ready;
    // Only a barrier orders accesses to memory, an exchange does not.
    fibers[i].time.warpBarriers += state == State::AtWarp;
  }
}

bool Fibers::release() {
  auto all = [&](State state) {
    return std::all_of(fibers.begin(), fibers.end(), [&](const Fiber &fiber) {
      return fiber.state == state;
    });
  };
  if (all(State::AtBlock)) {
    for (Fiber &fiber : fibers) {
      fiber.state = State::Ready;
      ++fiber.time.blockBarriers;
      ++fiber.time.warpBarriers;
    }
    return true;
  }
  for (size_t first = 0; first < fibers.size(); first += kWarp)
    releaseWarp(first, std::min<size_t>(first + kWarp, fibers.size()));
  return std::any_of(fibers.begin(), fibers.end(), [](const Fiber &fiber) {
    return fiber.state == State::Ready;
  });
}

std::string Fibers::run(int32_t block, bool backwards, Accesses *shadow,
                        const std::function<void()> &function) {
  current = this;
  blockIndex = block;
  body = &function;
  accesses = shadow;
  message.clear();
  for (auto [i, fiber] : llvm::enumerate(fibers)) {
    start(fiber);
    fiber.time = {block, int32_t(i), 0, 0};
  }
  do {
    for (size_t i = 0; i < fibers.size() && message.empty(); ++i) {
      running = int32_t(backwards ? fibers.size() - 1 - i : i);
      Fiber &fiber = fibers[running];
      if (fiber.state == State::Ready)
        heddle_switch_stack(&scheduler, fiber.pointer);
    }
  } while (message.empty() && release());
  for (auto [i, fiber] : llvm::enumerate(fibers))
    if (fiber.state != State::Ended)
      fault("thread " + std::to_string(i) + " of block " +
            std::to_string(block) +
            " waits at a barrier that not all threads reach");
  current = nullptr;
  return message;
}
