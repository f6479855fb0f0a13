//===- GpuLayout.cpp - Teams of threads and their shares ------------------===//

#include "GpuEmitter.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

/// The shared memory of a block for values of its rows. A kernel that uses up
/// to 48 KiB need not ask the driver. The remaining 16 KiB are for sums.
static constexpr int64_t kSharedBytes = 32 << 10;

int64_t SharedNest::count(size_t begin, size_t end) const {
  int64_t product = 1;
  for (size_t loop = begin; loop < end; ++loop)
    product *= loops.extents[loop];
  return product;
}

static bool isSum(const Statement &statement) {
  return statement.kind == StatementKind::Reduce;
}

//===----------------------------------------------------------------------===//
// Shares of a nest
//===----------------------------------------------------------------------===//

void GpuLayout::chooseSharing(SharedNest &shared) {
  const Statement *sum = nullptr;
  bool combines = true;
  for (unsigned index : shared.nest->statements) {
    const Statement &statement = plan.statements[index];
    if (!isSum(statement))
      continue;
    sum = &statement;
    for (unsigned result = 0; result < statement.writes.size(); ++result)
      combines &= getCombiner(statement, result).op != nullptr;
  }
  shared.combines = combines;
  if (!sum)
    return;
  auto borderAt = [&](int64_t loop) {
    return llvm::count_if(shared.loops.lastOf,
                          [&](int64_t last) { return last < loop; });
  };
  if (sum->firstReduced < 0) {
    int64_t reduced = 0;
    while (reduced < (int64_t)sum->loops.size() &&
           sum->writes[0].loops[reduced] == 0)
      ++reduced;
    shared.sharing = Sharing::Columns;
    shared.border = borderAt(reduced);
  } else if (sum->firstReduced == 0) {
    shared.sharing = combines ? Sharing::Elements : Sharing::Repeated;
  } else {
    // A warp needs enough elements to be worth its shuffles.
    constexpr int64_t kWorthAWarp = 16;
    shared.sharing = Sharing::Outer;
    shared.border = borderAt(sum->firstReduced);
    if (combines &&
        shared.count(shared.border, shared.loops.extents.size()) >= kWorthAWarp)
      shared.group = kWarp;
  }
}

int64_t GpuLayout::getAlignment(Value value) const {
  if (Value owner = plan.host.lookup(value))
    value = owner;
  auto found = alignments.find(value);
  return found == alignments.end() ? 16 : found->second; // scratch: 16
}

int64_t GpuLayout::getPiece(const Access &access, ArrayRef<int64_t> joined,
                            int64_t width) const {
  Type element =
      cast<RankedTensorType>(access.value.getType()).getElementType();
  bool isScratch = plan.scratch.contains(access.value);
  ElementType type(isScratch ? ElementType(element).compute : element);
  int64_t bytes = type.memory.getIntOrFloatBitWidth() / 8;
  if (bytes < 2 || joined.back() != 1)
    return 1;
  for (int64_t piece = std::min(width, 16 / bytes); piece > 1; piece /= 2) {
    auto isMultiple = [&](int64_t step) { return step % piece == 0; };
    if (isMultiple(access.constant) &&
        llvm::all_of(joined.drop_back(), isMultiple) &&
        (isScratch || llvm::all_of(access.rows, isMultiple)) &&
        getAlignment(access.value) % (piece * bytes) == 0)
      return piece;
  }
  return 1;
}

/// Chooses how many adjacent elements a thread takes at a time: as many as the
/// smallest element type needs for 16 bytes.
void GpuLayout::chooseWidths() {
  // The elements of one iteration lie in one row of the last loop. The length
  // of that loop depends on which loops the nest's accesses allow to join.
  auto divides = [&](const SharedNest &shared, int64_t width) {
    int64_t last = plan.chunk ? plan.rows : shared.loops.extents.back();
    return last % width == 0 && (!plan.chunk || plan.chunk % width == 0);
  };
  for (SharedNest &shared : nests) {
    if (shared.isScalar() || shared.sharing == Sharing::Repeated)
      continue;
    for (int64_t width : {8, 4, 2}) {
      bool good = divides(shared, width);
      bool isWide = false;
      auto visit = [&](const Access &access) {
        Type element =
            cast<RankedTensorType>(access.value.getType()).getElementType();
        int64_t bytes = ElementType(element).memory.getIntOrFloatBitWidth() / 8;
        isWide |=
            width * bytes <= 16 &&
            getPiece(access, shared.loops.join(access.loops), width) == width;
      };
      for (unsigned index : shared.nest->statements) {
        const Statement &statement = plan.statements[index];
        llvm::for_each(statement.reads, visit);
        if (statement.kind == StatementKind::Map)
          llvm::for_each(statement.writes, visit);
      }
      if (good && isWide) {
        shared.width = width;
        break;
      }
    }
  }
  // Nests of the same loops share values in registers only if each thread has
  // the same elements in each of these nests. An access of wider elements then
  // takes several pieces of 16 bytes.
  for (SharedNest &shared : nests) {
    if (shared.isScalar() || shared.sharing != Sharing::Elements)
      continue;
    auto isAlike = [&](const SharedNest &other) {
      return other.nest->loops == shared.nest->loops &&
             other.sharing == Sharing::Elements;
    };
    int64_t width = 1;
    for (const SharedNest &other : nests)
      if (isAlike(other))
        width = std::max(width, other.width);
    for (const SharedNest &other : nests)
      while (isAlike(other) && !divides(other, width))
        width /= 2;
    for (SharedNest &other : nests)
      if (isAlike(other))
        other.width = width;
  }
}

int64_t GpuLayout::countOfThread(const SharedNest &shared) const {
  size_t loops = shared.loops.extents.size();
  int64_t before = shared.count(0, shared.border),
          after = shared.count(shared.border, loops);
  switch (shared.sharing) {
  case Sharing::Elements:
    return llvm::divideCeil(shared.count() / shared.width, team);
  case Sharing::Columns:
    return shared.parts == 1
               ? llvm::divideCeil(after / shared.width, team) * before
               : llvm::divideCeil(before, shared.parts);
  case Sharing::Outer:
    return llvm::divideCeil(before, team / shared.group) *
           llvm::divideCeil(after / shared.width, shared.group);
  case Sharing::Repeated:
    return shared.count();
  }
  return 0;
}

//===----------------------------------------------------------------------===//
// Teams
//===----------------------------------------------------------------------===//

/// The most threads of a team. A thread of a team of 256 may have 255
/// registers. A kernel with many sums needs that many, because it keeps all of
/// them in registers until the last one is known.
static constexpr int64_t kMostThreads = 512, kThreadsOfManyRegisters = 256,
                         kManySums = 8;

/// Returns how many threads may share a long sum of each column. A thread adds
/// eight elements at least.
static int64_t chooseParts(const SharedNest &shared) {
  int64_t columns = shared.countColumns(),
          length = shared.count(0, shared.border);
  if (shared.sharing != Sharing::Columns || !shared.combines ||
      columns > kMostThreads / 2)
    return 1;
  return std::max<int64_t>(1, std::min(length / 8, kMostThreads / columns));
}

void GpuLayout::chooseTeam(GpuRows rows, int64_t most) {
  constexpr int64_t kFewThreads = 2, kThreads = 128;
  // A reduction over blocks of rows has few teams. As warps, four of them would
  // be one block of threads, and many multiprocessors would have one block.
  const int64_t mostOfWarp = plan.blockUnits > 1 ? kWarp : 4 * kWarp;
  int64_t need = 1; // threads that have an iteration of their own
  for (const SharedNest &shared : nests) {
    if (shared.isScalar())
      continue;
    if (shared.sharing == Sharing::Elements)
      need = std::max(need, shared.count() / shared.width);
    else if (shared.sharing == Sharing::Columns)
      need = std::max(need, shared.countColumns() * chooseParts(shared));
    else if (shared.sharing == Sharing::Outer)
      need = std::max(need, shared.count(0, shared.border) * shared.group);
  }
  if (rows == GpuRows::Auto)
    rows = need <= kFewThreads  ? GpuRows::Thread
           : need <= mostOfWarp ? GpuRows::Warp
                                : GpuRows::Block;
  if (rows == GpuRows::Block) {
    int64_t iterations = llvm::divideCeil(need, most);
    team = std::max<int64_t>(
        2 * kWarp, llvm::alignTo(llvm::divideCeil(need, iterations), kWarp));
  } else {
    team = rows == GpuRows::Warp ? kWarp : 1;
    teamsInBlock = kThreads / team;
  }
  for (SharedNest &shared : nests) {
    if (team == 1)
      shared.group = 1;
    if (!shared.isScalar() && shared.sharing == Sharing::Columns)
      shared.parts = std::clamp<int64_t>(team / shared.countColumns(), 1,
                                         chooseParts(shared));
  }
}

void GpuLayout::findOwn() {
  auto isOwn = [&](Value value) {
    unsigned index = plan.producer.lookup(value);
    const Statement &from = plan.statements[index];
    const SharedNest &home = nests[plan.getHome(index)];
    if (from.kind != StatementKind::Map || home.sharing != Sharing::Elements)
      return false;
    for (const SharedNest &shared : nests)
      for (unsigned reader : shared.nest->statements) {
        const Statement &to = plan.statements[reader];
        for (auto [extracted, aligned] : getExtracted(to.op, plan.rowDims))
          if (extracted == value)
            return false;
        for (const Access &read : to.reads)
          if (read.value == value && (!plan.canForward(from, to, read) ||
                                      shared.sharing != Sharing::Elements ||
                                      shared.width != home.width))
            return false;
      }
    return true;
  };
  int64_t bytes = 0;
  for (Value value : plan.scratch) {
    if (isOwn(value)) {
      own.insert(value);
      continue;
    }
    auto type = cast<RankedTensorType>(value.getType());
    int64_t size = ElementType(ElementType(type.getElementType()).compute)
                       .memory.getIntOrFloatBitWidth() /
                   8;
    for (int64_t extent : type.getShape().drop_front(plan.rowDims))
      size *= extent;
    bytes += llvm::alignTo(size * std::max<int64_t>(plan.chunk, 1), 16);
  }
  if (team == kWarp)
    while (teamsInBlock > 1 && teamsInBlock * bytes > kSharedBytes)
      teamsInBlock /= 2;
}

bool GpuLayout::isFlexible() const {
  return llvm::all_of(plan.statements,
                      [](const Statement &statement) {
                        return statement.kind == StatementKind::Map;
                      }) &&
         llvm::all_of(plan.scratch,
                      [&](Value value) { return own.contains(value); });
}

void GpuLayout::setThreads(int64_t count) {
  assert(isFlexible() && count % kWarp == 0);
  if (team > kWarp)
    team = count;
  else
    teamsInBlock = count / team;
  blocks = llvm::divideCeil(std::max<int64_t>(plan.blocks, 1), teamsInBlock);
  placeBarriers();
}

GpuLayout::GpuLayout(const KernelPlan &plan, GpuRows rows,
                     ArrayRef<int64_t> list)
    : plan(plan) {
  SmallVector<Value> values(plan.kernel.getArguments());
  llvm::append_range(
      values, plan.kernel.getBody().front().getTerminator()->getOperands());
  for (auto [value, alignment] : llvm::zip(values, list)) {
    int64_t &known = alignments.try_emplace(value, alignment).first->second;
    known = std::min(known, alignment);
  }
  for (const Nest &nest : plan.nests)
    chooseSharing(nests.emplace_back(plan, nest));
  chooseWidths();
  chooseTeam(rows, kMostThreads);
  findOwn();
  needsManyRegisters = llvm::count_if(plan.statements, isSum) > kManySums ||
                       countRegisters() > getMostRegisters();
  if (needsManyRegisters && team > kThreadsOfManyRegisters)
    chooseTeam(rows, kThreadsOfManyRegisters);
  teamsInBlock = std::min(teamsInBlock, std::max<int64_t>(plan.blocks, 1));
  blocks = llvm::divideCeil(std::max<int64_t>(plan.blocks, 1), teamsInBlock);
  placeBarriers();
}
