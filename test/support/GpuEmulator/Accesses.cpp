//===- Accesses.cpp - Bounds and races of emulated threads ----------------===//

#include "Accesses.h"
#include "llvm/ADT/Twine.h"

using namespace heddle;

static constexpr size_t kPageElements = 1024;

Accesses::Accesses(llvm::ArrayRef<GpuBuffer> buffers) {
  for (const GpuBuffer &buffer : buffers)
    if (buffer.bytes > 0)
      shadows.push_back(
          {buffer,
           std::vector<std::vector<Element>>(
               buffer.bytes / buffer.elementBytes / kPageElements + 1)});
}

Accesses::Element &Accesses::Shadow::getElement(size_t index) {
  std::vector<Element> &page = pages[index / kPageElements];
  if (page.empty())
    page.resize(kPageElements);
  return page[index % kPageElements];
}

void Accesses::forget(const void *data) {
  for (Shadow &shadow : shadows)
    if (shadow.buffer.data == data)
      for (std::vector<Element> &page : shadow.pages)
        page.clear();
}

/// Returns whether a barrier stands between an earlier access and now.
static bool isOrdered(const ThreadTime &before, const ThreadTime &now) {
  if (before.block < 0)
    return true;
  if (before.block != now.block)
    return false;
  if (before.thread == now.thread)
    return true;
  if (before.thread / kWarp == now.thread / kWarp)
    return before.warpBarriers < now.warpBarriers;
  return before.blockBarriers < now.blockBarriers;
}

static std::string describe(const ThreadTime &time) {
  return ("thread " + llvm::Twine(time.thread) + " of block " +
          llvm::Twine(time.block))
      .str();
}

std::string Accesses::check(const ThreadTime &now, uintptr_t address,
                            size_t bytes, bool isWrite) {
  auto contains = [&](const Shadow &shadow) {
    auto begin = reinterpret_cast<uintptr_t>(shadow.buffer.data);
    return address >= begin && address + bytes <= begin + shadow.buffer.bytes;
  };
  auto found = std::find_if(shadows.begin(), shadows.end(), contains);
  if (found == shadows.end())
    return describe(now) + (isWrite ? " writes " : " reads ") +
           std::to_string(bytes) + " bytes out of bounds";
  size_t size = found->buffer.elementBytes;
  size_t offset = address - reinterpret_cast<uintptr_t>(found->buffer.data);
  for (size_t i = offset / size; i <= (offset + bytes - 1) / size; ++i) {
    Element &element = found->getElement(i);
    auto report = [&](const ThreadTime &other, const char *what) {
      return describe(now) + (isWrite ? " writes" : " reads") + " what " +
             describe(other) + what +
             ", with no barrier between them: " + std::to_string(bytes) +
             " bytes from element " + std::to_string(offset / size) +
             " of buffer " + std::to_string(found - shadows.begin());
    };
    if (!isOrdered(element.writer, now))
      return report(element.writer, " wrote");
    if (!isWrite) {
      bool isLast = element.readers[0].thread == now.thread &&
                    element.readers[0].block == now.block;
      if (!isLast)
        element.readers[1] = element.readers[0];
      element.readers[0] = now;
      continue;
    }
    for (const ThreadTime &reader : element.readers)
      if (!isOrdered(reader, now))
        return report(reader, " read");
    element.writer = now;
  }
  return "";
}
