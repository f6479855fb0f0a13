//===- Philox.cpp - Random numbers in bodies ------------------------------===//

#include "Philox.h"

using namespace mlir;
using namespace heddle;
using namespace heddle::lower;

std::array<Value, 4> lower::philox(Body &b, Value index, Value step,
                                   uint32_t stream, uint64_t seed) {
  Type i64 = b.getI64Type();
  Value mask = b.integer(i64, 0xFFFFFFFFll), shift = b.integer(i64, 32);
  auto low = [&](Value v) -> Value { return b.create<arith::AndIOp>(v, mask); };
  auto high = [&](Value v) -> Value {
    return b.create<arith::ShRUIOp>(v, shift);
  };
  auto xorOf = [&](Value x, Value y) -> Value {
    return b.create<arith::XOrIOp>(x, y);
  };
  Value m0 = b.integer(i64, 0xD2511F53u), m1 = b.integer(i64, 0xCD9E8D57u);
  Value c0 = low(index), c1 = high(index), c2 = low(step);
  Value c3 = b.integer(i64, stream);
  uint32_t k0 = seed, k1 = seed >> 32;
  for (int round = 0; round < 10; ++round) {
    Value p0 = b.create<arith::MulIOp>(m0, c0);
    Value p1 = b.create<arith::MulIOp>(m1, c2);
    Value n0 = xorOf(xorOf(high(p1), c1), b.integer(i64, k0));
    Value n2 = xorOf(xorOf(high(p0), c3), b.integer(i64, k1));
    c1 = low(p1);
    c3 = low(p0);
    c0 = n0;
    c2 = n2;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {c0, c1, c2, c3};
}
