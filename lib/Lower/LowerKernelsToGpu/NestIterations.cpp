//===- NestIterations.cpp - Which thread runs which iteration -------------===//

#include "SharedNestEmitter.h"
#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

GpuEmitter::Carried GpuEmitter::strided(
    Value first, int64_t step, int64_t count, ValueRange init, bool inChunk,
    int64_t width, int64_t mostUnrolled,
    llvm::function_ref<Carried(Value, Value, ValueRange)> body) {
  int64_t trips = llvm::divideCeil(count, step);
  auto iteration = [&](Value counter, ValueRange carried) {
    Value index = step == 1 ? counter : b.addI(first, b.mulI(counter, step));
    Value inRange;
    auto require = [&](Value value, Value end) {
      Value below =
          b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, value, end);
      inRange = inRange ? b.create<arith::AndIOp>(inRange, below) : below;
    };
    if (trips * step != count)
      require(index, b.i64(count));
    if (inChunk && plan.chunk && plan.rows % plan.chunk != 0)
      require(b.mulI(index, width), chunkEnd);
    return when(inRange, carried,
                [&] { return body(index, counter, carried); });
  };
  if (trips == 1)
    return iteration(b.i64(0), init);
  LLVM::LoopAnnotationAttr annotation;
  if (trips <= mostUnrolled) {
    auto unroll = LLVM::LoopUnrollAttr::get(b.getContext(), {}, {}, {},
                                            b.getBoolAttr(true), {}, {}, {});
    annotation =
        LLVM::LoopAnnotationAttr::get(b.getContext(), {}, {}, {}, unroll, {},
                                      {}, {}, {}, {}, {}, {}, {}, {}, {}, {});
  }
  return b.loop(b.i64(0), b.i64(trips), /*mayBeEmpty=*/false, init, annotation,
                iteration);
}

void GpuEmitter::delinearize(NestState &state, Value index, size_t begin,
                             size_t end) {
  for (size_t loop = end; loop-- > begin;) {
    if (loop == begin) {
      state.indices[loop] = index;
      break;
    }
    Value extent = b.i64(state.shared.loops.extents[loop]);
    state.indices[loop] = b.create<arith::RemUIOp>(index, extent);
    index = b.create<arith::DivUIOp>(index, extent);
  }
}

void GpuEmitter::iterate(NestState &state, llvm::function_ref<void(Value)> body,
                         llvm::function_ref<void(ValueRange)> finish) {
  const SharedNest &shared = state.shared;
  size_t loops = shared.loops.extents.size(), border = shared.border;
  int64_t width = shared.width, unrolled = layout.getMostUnrolled(shared);
  auto run = [&](Value counter, ValueRange carried) {
    state.takeSums(carried);
    body(counter);
    return state.getSums();
  };
  auto initial = [&] {
    Carried values;
    for (NestState::Sum &sum : state.sums) {
      Value value = b.create<arith::ConstantOp>(sum.initial);
      values.append(sum.current.size(), value);
    }
    return values;
  };
  if (shared.sharing == Sharing::Elements ||
      shared.sharing == Sharing::Repeated) {
    bool isRepeated = shared.sharing == Sharing::Repeated;
    Carried sums =
        strided(isRepeated ? b.i64(0) : lane, isRepeated ? 1 : layout.team,
                shared.count() / width, initial(), /*inChunk=*/true, width,
                unrolled, [&](Value index, Value counter, ValueRange carried) {
                  delinearize(state, b.mulI(index, width), 0, loops);
                  return run(counter, carried);
                });
    finish(sums);
    return;
  }
  int64_t before = shared.count(0, border), after = shared.count(border, loops);
  if (shared.parts > 1) {
    iterateParts(state, body);
    return;
  }
  if (shared.sharing == Sharing::Columns) {
    strided(lane, layout.team, after / width, {}, /*inChunk=*/true, width,
            unrolled, [&](Value column, Value outer, ValueRange) {
              delinearize(state, b.mulI(column, width), border, loops);
              Carried sums = strided(
                  b.i64(0), 1, before, initial(), /*inChunk=*/false, 1,
                  unrolled, [&](Value index, Value inner, ValueRange carried) {
                    delinearize(state, index, 0, border);
                    return run(b.addI(b.mulI(outer, before), inner), carried);
                  });
              finish(sums);
              return Carried();
            });
    return;
  }
  int64_t group = shared.group;
  int64_t inner = llvm::divideCeil(after / width, group);
  strided(group == 1 ? lane : warp, layout.team / group, before, {},
          /*inChunk=*/false, 1, unrolled,
          [&](Value kept, Value outer, ValueRange) {
            delinearize(state, kept, 0, border);
            Carried sums = strided(
                group == 1 ? b.i64(0) : laneOfWarp, group, after / width,
                initial(), /*inChunk=*/false, width, unrolled,
                [&](Value index, Value counter, ValueRange carried) {
                  delinearize(state, b.mulI(index, width), border, loops);
                  return run(b.addI(b.mulI(outer, inner), counter), carried);
                });
            finish(sums);
            return Carried();
          });
}

void GpuEmitter::iterateParts(NestState &state,
                              llvm::function_ref<void(Value)> body) {
  const SharedNest &shared = state.shared;
  int64_t columns = shared.countColumns(), parts = shared.parts,
          width = shared.width, length = shared.count(0, shared.border);
  Value count = b.i64(columns);
  Value part = b.create<arith::DivUIOp>(lane, count);
  Value column = b.create<arith::RemUIOp>(lane, count);
  auto isBelow = [&](Value value, Value end) -> Value {
    return b.create<arith::CmpIOp>(arith::CmpIPredicate::slt, value, end);
  };
  Value inRange;
  if (columns * parts != layout.team)
    inRange = isBelow(lane, b.i64(columns * parts));
  if (plan.chunk && plan.rows % plan.chunk != 0) {
    Value inChunk = isBelow(b.mulI(column, width), chunkEnd);
    inRange = inRange ? b.create<arith::AndIOp>(inRange, inChunk) : inChunk;
  }
  Carried initial;
  for (NestState::Sum &sum : state.sums) {
    Value value = b.create<arith::ConstantOp>(sum.initial);
    initial.append(sum.current.size(), value);
  }
  delinearize(state, b.mulI(column, width), shared.border,
              shared.loops.extents.size());
  Carried sums = when(inRange, initial, [&] {
    return strided(part, parts, length, initial, /*inChunk=*/false, 1,
                   layout.getMostUnrolled(shared),
                   [&](Value index, Value counter, ValueRange carried) {
                     delinearize(state, index, 0, shared.border);
                     state.takeSums(carried);
                     body(counter);
                     return state.getSums();
                   });
  });
  if (failedOnce || state.sums.empty())
    return;
  // Each part stores its sums in shared memory. Then the threads of the first
  // part add those of the others.
  SmallVector<Value> slots;
  for (Value sum : sums) {
    ElementType type(sum.getType());
    int64_t bytes =
        std::max<int64_t>(1, sum.getType().getIntOrFloatBitWidth() / 8);
    Value slot = shareBytes(bytes * layout.team * layout.teamsInBlock);
    Value team = b.mulI(teamInBlock, layout.team);
    slots.push_back(b.address(slot, b.addI(team, column), type));
  }
  auto slotAt = [&](size_t i, Value index) {
    ElementType type(sums[i].getType());
    return b.address(slots[i],
                     b.create<arith::MulIOp>(index, count).getResult(), type);
  };
  when(inRange, {}, [&] {
    for (auto [i, sum] : llvm::enumerate(sums))
      b.store(sum, slotAt(i, part), ElementType(sum.getType()), {});
    return Carried();
  });
  barrier();
  Value isFirst = isBelow(lane, count);
  if (inRange)
    isFirst = b.create<arith::AndIOp>(isFirst, inRange);
  when(isFirst, {}, [&] {
    Carried totals = b.loop(
        b.i64(1), b.i64(parts), /*mayBeEmpty=*/false, sums, {},
        [&](Value index, ValueRange carried) {
          Carried next;
          size_t at = 0;
          for (NestState::Sum &sum : state.sums)
            for (size_t i = 0; i < sum.current.size(); ++i, ++at) {
              ElementType type(sums[at].getType());
              next.push_back(combine(sum.combiner, carried[at],
                                     b.load(slotAt(at, index), type, {})));
            }
          return next;
        });
    finishKeptSums(state, totals);
    return Carried();
  });
}
