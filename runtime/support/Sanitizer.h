//===- Sanitizer.h - Accesses that sanitizers cannot see --------*- C++ -*-===//
//
// Reports memory accesses to a sanitizer. A sanitizer sees only the accesses of
// code that was compiled with it. It does not see those of oneDNN and of our
// vector types, so they call these functions. Without a sanitizer the functions
// do nothing.
//
//===----------------------------------------------------------------------===//

#ifndef HEDDLE_RT_SUPPORT_SANITIZER_H
#define HEDDLE_RT_SUPPORT_SANITIZER_H

#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HEDDLE_RT_SANITIZER "address"
#define HEDDLE_RT_ON_READ __asan_loadN
#define HEDDLE_RT_ON_WRITE __asan_storeN
extern "C" void __asan_poison_memory_region(const volatile void *, size_t);
extern "C" void __asan_unpoison_memory_region(const volatile void *, size_t);
#elif __has_feature(thread_sanitizer)
#define HEDDLE_RT_SANITIZER "thread"
#define HEDDLE_RT_ON_READ __tsan_read_range
#define HEDDLE_RT_ON_WRITE __tsan_write_range
#endif
#endif
#ifndef HEDDLE_RT_SANITIZER
#define HEDDLE_RT_SANITIZER ""
#else
extern "C" void HEDDLE_RT_ON_READ(const void *, size_t);
extern "C" void HEDDLE_RT_ON_WRITE(void *, size_t);
#endif

namespace heddle::runtime {

/// The sanitizer that this library was built with: "address", "thread" or "".
constexpr const char *sanitizer = HEDDLE_RT_SANITIZER;

/// Reports that uninstrumented code reads these bytes.
inline void noteRead([[maybe_unused]] const void *from,
                     [[maybe_unused]] size_t bytes) {
#ifdef HEDDLE_RT_ON_READ
  HEDDLE_RT_ON_READ(from, bytes);
#endif
}
inline void noteWrite([[maybe_unused]] void *to,
                      [[maybe_unused]] size_t bytes) {
#ifdef HEDDLE_RT_ON_WRITE
  HEDDLE_RT_ON_WRITE(to, bytes);
#endif
}

/// Forbids any access to these bytes until `allow` is called for them.
inline void forbid([[maybe_unused]] const void *begin,
                   [[maybe_unused]] size_t bytes) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  __asan_poison_memory_region(begin, bytes);
#endif
#endif
}
inline void allow([[maybe_unused]] const void *begin,
                  [[maybe_unused]] size_t bytes) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
  __asan_unpoison_memory_region(begin, bytes);
#endif
#endif
}

} // namespace heddle::runtime

#endif // HEDDLE_RT_SUPPORT_SANITIZER_H
