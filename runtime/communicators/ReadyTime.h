//===- ReadyTime.h - Since when a call could have run -----------*- C++ -*-===//
//
// A stream's thread may start a call late, because a computation has its core.
// Emulated links need no core. So they begin a call when its operands are
// there.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_COMMUNICATORS_READYTIME_H
#define HEDDLE_RT_COMMUNICATORS_READYTIME_H

#include <cstdint>

namespace heddle::runtime {

/// When all that the present call of this thread's stream waits for was over,
/// in nanoseconds of the steady clock. Earlier communication on the stream does
/// not count, because its thread may have noticed its end late, too. 0: the
/// thread is not a stream's.
inline thread_local int64_t readyTime = 0;

} // namespace heddle::runtime

#endif // HEDDLE_RT_COMMUNICATORS_READYTIME_H
