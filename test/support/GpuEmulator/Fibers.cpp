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

void Fibers::wait(State state, Site site) {
  Fiber &fiber = fibers[running];
  fiber.state = state;
  fiber.site = site;
  heddle_switch_stack(&fiber.pointer, scheduler);
}

void Fibers::fault(std::string text) {
  if (message.empty())
    message = std::move(text);
}

void Fibers::endWithFault(std::string text) {
  fault(std::move(text));
  wait(State::Ended);
}

void Fibers::checkLanes(uint32_t lanes) {
  if (lanes != ~uint32_t(0))
    endWithFault("thread " + std::to_string(running) + " of block " +
                 std::to_string(blockIndex) +
                 " waits for some lanes of its warp, not for all");
}

void Fibers::waitForBlock(Site site) { wait(State::AtBlock, site); }

void Fibers::waitForWarp(Site site, uint32_t lanes) {
  checkLanes(lanes);
  wait(State::AtWarp, site);
}

uint32_t Fibers::exchange(Site site, uint32_t lanes, uint32_t value,
                          uint32_t distance) {
  checkLanes(lanes);
  fibers[running].value = value;
  wait(State::AtExchange, site);
  size_t other = size_t(running) ^ distance;
  uint32_t result = other < fibers.size() ? fibers[other].value : value;
  // No lane may change its value before all have read it.
  wait(State::AtExchange, site);
  return result;
}

uint32_t Fibers::vote(Site site, uint32_t lanes, bool condition) {
  checkLanes(lanes);
  fibers[running].value = condition;
  wait(State::AtExchange, site);
  size_t first = size_t(running / kWarp * kWarp);
  uint32_t result = 0;
  for (size_t i = first; i < std::min(first + kWarp, fibers.size()); ++i)
    result |= fibers[i].value << (i - first);
  wait(State::AtExchange, site);
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
  endWithFault(text);
}

bool Fibers::haveOneSite(size_t first, size_t end) {
  for (size_t i = first + 1; i < end; ++i)
    if (fibers[i].site != fibers[first].site) {
      fault("thread " + std::to_string(i) + " of block " +
            std::to_string(blockIndex) + " waits for thread " +
            std::to_string(first) +
            " of its warp, which waits at another place of the kernel");
      return false;
    }
  return true;
}

void Fibers::releaseWarp(size_t first, size_t end) {
  State state = fibers[first].state;
  if (state != State::AtWarp && state != State::AtExchange)
    return;
  for (size_t i = first; i < end; ++i)
    if (fibers[i].state != state)
      return;
  if (!haveOneSite(first, end))
    return;
  for (size_t i = first; i < end; ++i) {
    fibers[i].state = State::Ready;
    // Only a barrier orders accesses to memory, an exchange does not.
    fibers[i].time.warpBarriers += state == State::AtWarp;
  }
}

bool Fibers::release() {
  bool allAtBlock =
      std::all_of(fibers.begin(), fibers.end(), [](const Fiber &fiber) {
        return fiber.state == State::AtBlock;
      });
  for (size_t first = 0; first < fibers.size(); first += kWarp) {
    size_t end = std::min<size_t>(first + kWarp, fibers.size());
    // Different warps may wait for the block at different places.
    if (!allAtBlock)
      releaseWarp(first, end);
    else if (!haveOneSite(first, end))
      return false;
  }
  if (!message.empty())
    return false;
  if (allAtBlock)
    for (Fiber &fiber : fibers) {
      fiber.state = State::Ready;
      ++fiber.time.blockBarriers;
      ++fiber.time.warpBarriers;
    }
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
