//===- BufferSharing.cpp - Tensors that share memory ----------------------===//

#include "BufferSharing.h"
#include <algorithm>

using namespace heddle;
using llvm::ArrayRef;
using llvm::SmallVector;

int BufferSharing::add(int64_t bytes, int64_t first, int64_t last) {
  int content = contents.size(), group = groups.size();
  contents.push_back(
      {bytes, first, last, first, group, 0, {{bytes, content, 0}}});
  groups.push_back({{content}, 0, bytes, -1, 0, 0});
  return content;
}

void BufferSharing::pin(int content, int memory) {
  Group &group = groups[contents[content].group];
  group.memory = memory;
  group.memoryLow = contents[content].offset;
  group.memoryHigh = group.memoryLow + contents[content].bytes;
}

void BufferSharing::extend(int content, int64_t last) {
  contents[content].last = std::max(contents[content].last, last);
}

void BufferSharing::append(llvm::SmallVectorImpl<Values> &list, Values values) {
  if (values.bytes <= 0)
    return;
  if (!list.empty() && list.back().origin == values.origin &&
      list.back().offset + list.back().bytes == values.offset)
    list.back().bytes += values.bytes;
  else
    list.push_back(values);
}

void BufferSharing::setValues(int content, int other, int64_t offset) {
  SmallVector<Values, 1> list;
  int64_t left = contents[content].bytes, start = 0;
  for (const Values &run : contents[other].values) {
    int64_t skip = std::max<int64_t>(0, offset - start);
    start += run.bytes;
    if (skip >= run.bytes || left <= 0)
      continue;
    int64_t bytes = std::min(run.bytes - skip, left);
    append(list, {bytes, run.origin, run.offset + skip});
    left -= bytes;
  }
  contents[content].values = std::move(list);
}

void BufferSharing::setValues(int content, ArrayRef<int> parts) {
  SmallVector<Values, 1> list;
  for (int part : parts)
    for (const Values &run : contents[part].values)
      append(list, run);
  contents[content].values = std::move(list);
}

bool BufferSharing::sameValues(const Content &x, const Content &y,
                               int64_t shift) {
  // Byte `at` of x and byte `at + shift` of y have the same place.
  int64_t at = std::max<int64_t>(0, -shift);
  int64_t end = std::min(x.bytes, y.bytes - shift);
  auto find = [](const Content &content, int64_t byte) {
    for (const Values &run : content.values) {
      if (byte < run.bytes)
        return Values{run.bytes - byte, run.origin, run.offset + byte};
      byte -= run.bytes;
    }
    return Values{0, -1, 0};
  };
  while (at < end) {
    Values a = find(x, at), b = find(y, at + shift);
    if (a.origin < 0 || a.origin != b.origin || a.offset != b.offset)
      return false;
    at += std::min(a.bytes, b.bytes);
  }
  return true;
}

bool BufferSharing::conflict(int a, int b, int64_t shiftOfB) const {
  const Content &x = contents[a], &y = contents[b];
  int64_t yOffset = y.offset + shiftOfB;
  if (x.offset + x.bytes <= yOffset || yOffset + y.bytes <= x.offset)
    return false;
  if (x.last < y.first || y.last < x.first || x.last < x.first ||
      y.last < y.first)
    return false;
  if (sameValues(x, y, x.offset - yOffset))
    return false;
  if (x.offset != yOffset || x.bytes != y.bytes)
    return true;
  if (x.last == y.ready && x.first < y.first)
    return !mayOverwrite(a, b);
  if (y.last == x.ready && y.first < x.first)
    return !mayOverwrite(b, a);
  return true;
}

bool BufferSharing::tryPlace(int a, int b, int64_t offset) {
  int first = contents[a].group, second = contents[b].group;
  int64_t shift = contents[a].offset + offset - contents[b].offset;
  if (first == second)
    return shift == 0;
  Group &to = groups[first], &from = groups[second];
  if (to.memory >= 0 && from.memory >= 0)
    return false;
  int64_t low = std::min(to.low, from.low + shift);
  int64_t high = std::max(to.high, from.high + shift);
  if (to.memory >= 0 && (low < to.memoryLow || high > to.memoryHigh))
    return false;
  if (from.memory >= 0 &&
      (low < from.memoryLow + shift || high > from.memoryHigh + shift))
    return false;

  for (int x : to.members)
    for (int y : from.members)
      if (conflict(x, y, shift))
        return false;

  if (from.memory >= 0) {
    to.memory = from.memory;
    to.memoryLow = from.memoryLow + shift;
    to.memoryHigh = from.memoryHigh + shift;
  }
  to.low = low;
  to.high = high;
  for (int member : from.members) {
    contents[member].group = first;
    contents[member].offset += shift;
    to.members.push_back(member);
  }
  from = {};
  return true;
}

int64_t BufferSharing::getOffset(int content) const {
  const Group &group = groups[contents[content].group];
  int64_t origin = group.memory >= 0 ? group.memoryLow : group.low;
  return contents[content].offset - origin;
}

bool BufferSharing::overlap(int a, int b) const {
  const Content &x = contents[a], &y = contents[b];
  return x.group == y.group && x.offset < y.offset + y.bytes &&
         y.offset < x.offset + x.bytes;
}

std::pair<int64_t, int64_t> BufferSharing::getLife(int group) const {
  int64_t first = INT64_MAX, last = INT64_MIN;
  for (int member : groups[group].members) {
    const Content &content = contents[member];
    if (content.last < content.first)
      continue;
    first = std::min(first, content.first);
    last = std::max(last, content.last);
  }
  return {first, last};
}
