// Compiled for every processor of the architecture, unlike the kernels, so that the check itself runs on
// processors that lack their instructions.
#include "ops/cpu/machine.hpp"

#include <string>

#include "core/error.hpp"
#include "ops/cpu/features.hpp"

namespace pipetrain::cpu {
namespace {

#if defined(__x86_64__)
unsigned machine_features() {
  unsigned features = 0;
  if (__builtin_cpu_supports("avx")) features |= avx;
  if (__builtin_cpu_supports("avx2")) features |= avx2;
  if (__builtin_cpu_supports("fma")) features |= fma;
  if (__builtin_cpu_supports("bmi2")) features |= bmi2;
  if (__builtin_cpu_supports("avx512f")) features |= avx512f;
  if (__builtin_cpu_supports("avx512bw")) features |= avx512bw;
  if (__builtin_cpu_supports("avx512dq")) features |= avx512dq;
  if (__builtin_cpu_supports("avx512vl")) features |= avx512vl;
  return features;
}
#else
unsigned machine_features() { return ~0U; }
#endif

}  // namespace

void check_machine() {
  const unsigned missing = kernel_features & ~machine_features();
  if (missing == 0) return;
  constexpr struct {
    Feature feature;
    const char* name;
  } names[] = {{avx, "AVX"},         {avx2, "AVX2"},         {fma, "FMA"},           {bmi2, "BMI2"},
               {avx512f, "AVX512F"}, {avx512bw, "AVX512BW"}, {avx512dq, "AVX512DQ"}, {avx512vl, "AVX512VL"}};
  std::string list;
  for (const auto& [feature, name] : names) {
    if ((missing & feature) != 0) list += std::string(list.empty() ? "" : ", ") + name;
  }
  throw Error(ErrorKind::unavailable, "this build's CPU kernels need " + list +
                                          ", which this processor lacks; build with an older -DPIPETRAIN_CPU_ARCH, for example "
                                          "x86-64");
}

}  // namespace pipetrain::cpu
