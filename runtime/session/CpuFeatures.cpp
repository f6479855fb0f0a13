//===- CpuFeatures.cpp - CPU features of this machine ---------------------===//
//
// The bits of cpuid are from Intel's and AMD's manuals, the names from LLVM.
//
//===----------------------------------------------------------------------===//

#include "session/CpuFeatures.h"
#include "support/Message.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace heddle::runtime {

#if defined(__x86_64__)
namespace {

enum Register { EAX, EBX, ECX, EDX };

/// Registers that the operating system must save for a feature, as bits of
/// XCR0.
enum State : uint64_t {
  None = 0,
  Avx = 0x6,
  Avx512 = 0xe6,
  Amx = 0x60000,
  Apx = 0x80000
};

struct Feature {
  std::string_view name;
  uint32_t leaf, subleaf;
  Register from;
  int bit;
  State state = None;
};

constexpr uint32_t Extended = 0x80000001;
constexpr Feature features[] = {
    {"cx8", 1, 0, EDX, 8},
    {"cmov", 1, 0, EDX, 15},
    {"mmx", 1, 0, EDX, 23},
    {"fxsr", 1, 0, EDX, 24},
    {"sse", 1, 0, EDX, 25},
    {"sse2", 1, 0, EDX, 26},
    {"sse3", 1, 0, ECX, 0},
    {"pclmul", 1, 0, ECX, 1},
    {"ssse3", 1, 0, ECX, 9},
    {"fma", 1, 0, ECX, 12, Avx},
    {"cx16", 1, 0, ECX, 13},
    {"sse4.1", 1, 0, ECX, 19},
    {"sse4.2", 1, 0, ECX, 20},
    {"crc32", 1, 0, ECX, 20},
    {"movbe", 1, 0, ECX, 22},
    {"popcnt", 1, 0, ECX, 23},
    {"aes", 1, 0, ECX, 25},
    {"xsave", 1, 0, ECX, 26},
    {"avx", 1, 0, ECX, 28, Avx},
    {"f16c", 1, 0, ECX, 29, Avx},
    {"rdrnd", 1, 0, ECX, 30},
    {"fsgsbase", 7, 0, EBX, 0},
    {"sgx", 7, 0, EBX, 2},
    {"bmi", 7, 0, EBX, 3},
    {"avx2", 7, 0, EBX, 5, Avx},
    {"bmi2", 7, 0, EBX, 8},
    {"invpcid", 7, 0, EBX, 10},
    {"rtm", 7, 0, EBX, 11},
    {"avx512f", 7, 0, EBX, 16, Avx512},
    {"evex512", 7, 0, EBX, 16, Avx512},
    {"avx512dq", 7, 0, EBX, 17, Avx512},
    {"rdseed", 7, 0, EBX, 18},
    {"adx", 7, 0, EBX, 19},
    {"avx512ifma", 7, 0, EBX, 21, Avx512},
    {"clflushopt", 7, 0, EBX, 23},
    {"clwb", 7, 0, EBX, 24},
    {"avx512cd", 7, 0, EBX, 28, Avx512},
    {"sha", 7, 0, EBX, 29},
    {"avx512bw", 7, 0, EBX, 30, Avx512},
    {"avx512vl", 7, 0, EBX, 31, Avx512},
    {"avx512vbmi", 7, 0, ECX, 1, Avx512},
    {"pku", 7, 0, ECX, 4},
    {"waitpkg", 7, 0, ECX, 5},
    {"avx512vbmi2", 7, 0, ECX, 6, Avx512},
    {"shstk", 7, 0, ECX, 7},
    {"gfni", 7, 0, ECX, 8},
    {"vaes", 7, 0, ECX, 9, Avx},
    {"vpclmulqdq", 7, 0, ECX, 10, Avx},
    {"avx512vnni", 7, 0, ECX, 11, Avx512},
    {"avx512bitalg", 7, 0, ECX, 12, Avx512},
    {"avx512vpopcntdq", 7, 0, ECX, 14, Avx512},
    {"rdpid", 7, 0, ECX, 22},
    {"kl", 7, 0, ECX, 23},
    {"cldemote", 7, 0, ECX, 25},
    {"movdiri", 7, 0, ECX, 27},
    {"movdir64b", 7, 0, ECX, 28},
    {"enqcmd", 7, 0, ECX, 29},
    {"uintr", 7, 0, EDX, 5},
    {"avx512vp2intersect", 7, 0, EDX, 8, Avx512},
    {"serialize", 7, 0, EDX, 14},
    {"tsxldtrk", 7, 0, EDX, 16},
    {"pconfig", 7, 0, EDX, 18},
    {"amx-bf16", 7, 0, EDX, 22, Amx},
    {"avx512fp16", 7, 0, EDX, 23, Avx512},
    {"amx-tile", 7, 0, EDX, 24, Amx},
    {"amx-int8", 7, 0, EDX, 25, Amx},
    {"sha512", 7, 1, EAX, 0, Avx},
    {"sm3", 7, 1, EAX, 1, Avx},
    {"sm4", 7, 1, EAX, 2, Avx},
    {"raoint", 7, 1, EAX, 3},
    {"avxvnni", 7, 1, EAX, 4, Avx},
    {"avx512bf16", 7, 1, EAX, 5, Avx512},
    {"cmpccxadd", 7, 1, EAX, 7},
    {"amx-fp16", 7, 1, EAX, 21, Amx},
    {"hreset", 7, 1, EAX, 22},
    {"avxifma", 7, 1, EAX, 23, Avx},
    {"avxvnniint8", 7, 1, EDX, 4, Avx},
    {"avxneconvert", 7, 1, EDX, 5, Avx},
    {"amx-complex", 7, 1, EDX, 8, Amx},
    {"avxvnniint16", 7, 1, EDX, 10, Avx},
    {"prefetchi", 7, 1, EDX, 14},
    {"usermsr", 7, 1, EDX, 15},
    {"avx10.1-256", 7, 1, EDX, 19, Avx},
    {"avx10.1-512", 7, 1, EDX, 19, Avx512},
    {"egpr", 7, 1, EDX, 21, Apx},
    {"push2pop2", 7, 1, EDX, 21, Apx},
    {"ppx", 7, 1, EDX, 21, Apx},
    {"ndd", 7, 1, EDX, 21, Apx},
    {"ccmp", 7, 1, EDX, 21, Apx},
    {"nf", 7, 1, EDX, 21, Apx},
    {"cf", 7, 1, EDX, 21, Apx},
    {"zu", 7, 1, EDX, 21, Apx},
    {"xsaveopt", 0xd, 1, EAX, 0},
    {"xsavec", 0xd, 1, EAX, 1},
    {"xsaves", 0xd, 1, EAX, 3},
    {"ptwrite", 0x14, 0, EBX, 4},
    {"widekl", 0x19, 0, EBX, 2},
    {"sahf", Extended, 0, ECX, 0},
    {"lzcnt", Extended, 0, ECX, 5},
    {"sse4a", Extended, 0, ECX, 6},
    {"prfchw", Extended, 0, ECX, 8},
    {"xop", Extended, 0, ECX, 11, Avx},
    {"lwp", Extended, 0, ECX, 15},
    {"fma4", Extended, 0, ECX, 16, Avx},
    {"tbm", Extended, 0, ECX, 21},
    {"mwaitx", Extended, 0, ECX, 29},
    {"64bit", Extended, 0, EDX, 29},
    {"clzero", 0x80000008, 0, EBX, 0},
    {"rdpru", 0x80000008, 0, EBX, 4},
    {"wbnoinvd", 0x80000008, 0, EBX, 9},
};

uint32_t readCpuid(uint32_t leaf, uint32_t subleaf, Register from) {
  uint32_t registers[4] = {};
  if (__get_cpuid_count(leaf, subleaf, &registers[EAX], &registers[EBX],
                        &registers[ECX], &registers[EDX]) == 0)
    return 0;
  // Leaf 7 has a subleaf 1 only if its subleaf 0 reports it.
  if (leaf == 7 && subleaf > 0 && readCpuid(7, 0, EAX) < subleaf)
    return 0;
  return registers[from];
}

uint64_t savedState() {
  constexpr int osxsave = 27;
  if ((readCpuid(1, 0, ECX) >> osxsave & 1) == 0)
    return 0;
  uint32_t low, high;
  __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  return uint64_t(high) << 32 | low;
}

const Feature *findFeature(std::string_view name) {
  for (const Feature &feature : features)
    if (feature.name == name)
      return &feature;
  return nullptr;
}

} // namespace

Status checkCpu(const std::string &triple,
                const std::vector<std::string> &wanted) {
  if (triple.rfind("x86_64", 0) != 0)
    return errorOf("the model was compiled for ", triple,
                   ", but this machine is x86_64: compile it again");
  uint64_t saved = savedState();
  std::string missing;
  for (std::string_view name : wanted) {
    if (!name.empty() && name.front() == '+')
      name.remove_prefix(1);
    const Feature *feature = findFeature(name);
    if (!feature)
      return errorOf("the model needs the CPU feature ", name,
                     ", which this runtime does not know");
    bool present = (readCpuid(feature->leaf, feature->subleaf, feature->from) >>
                    feature->bit) &
                   1;
    if (!present || (saved & feature->state) != feature->state)
      missing += concat(missing.empty() ? "" : ", ", name);
  }
  if (missing.empty())
    return Status::success();
  return errorOf("the model was compiled for a CPU with ", missing,
                 ", which this machine lacks: compile it again here, or with "
                 "--target-cpu for this machine");
}

#else

Status checkCpu(const std::string &triple, const std::vector<std::string> &) {
  return errorOf("the model was compiled for ", triple,
                 ", and this runtime knows the features of x86_64 only");
}

#endif

} // namespace heddle::runtime
