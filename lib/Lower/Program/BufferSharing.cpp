//===- BufferSharing.cpp - Which tensors can share memory -----------------===//

#include "BufferSharing.h"
#include <algorithm>

using namespace llvm;
using namespace heddle;

int BufferSharing::add(int64_t bytes, int64_t first, int64_t last) {
  int content = contents.size(), group = groups.size();
  contents.push_back({bytes, first, last, group, 0, content});
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

void BufferSharing::startEarlier(int content, int64_t first) {
  contents[content].first = std::min(contents[content].first, first);
}

int BufferSharing::findValues(int content) const {
  // No path compression, so that tryPlace can take a join back; the paths are
  // short (part of a view, view, stack).
  while (contents[content].values != content)
    content = contents[content].values;
  return content;
}

void BufferSharing::addView(int outer, int inner, int64_t offset) {
  Content &content = contents[inner];
  groups[content.group] = {};
  content.group = contents[outer].group;
  content.offset = contents[outer].offset + offset;
  contents[findValues(inner)].values = findValues(outer);
  groups[content.group].members.push_back(inner);
}

bool BufferSharing::conflict(int a, int b, int64_t shiftOfB) const {
  const Content &x = contents[a], &y = contents[b];
  int64_t yOffset = y.offset + shiftOfB;
  if (x.offset + x.bytes <= yOffset || yOffset + y.bytes <= x.offset)
    return false;
  if (x.last < y.first || y.last < x.first || x.last < x.first ||
      y.last < y.first)
    return false;
  if (findValues(a) == findValues(b))
    return false;
  if (x.offset != yOffset || x.bytes != y.bytes)
    return true;
  if (x.last == y.first && x.first < y.first)
    return !mayOverwrite(a, b);
  if (y.last == x.first && y.first < x.first)
    return !mayOverwrite(b, a);
  return true;
}

bool BufferSharing::tryPlace(int a, int b, int64_t offset, bool same) {
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

  // Contents of the same values do not conflict: join them before the check,
  // and part them again if it fails.
  int joined = -1;
  if (same && findValues(b) != findValues(a)) {
    joined = findValues(b);
    contents[joined].values = findValues(a);
  }
  for (int x : to.members)
    for (int y : from.members)
      if (conflict(x, y, shift)) {
        if (joined >= 0)
          contents[joined].values = joined;
        return false;
      }

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
