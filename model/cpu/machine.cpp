// Compiled for every processor of the architecture, unlike the kernels, so that the check can run where they cannot.
#include "model/cpu/machine.hpp"

#include "core/error.hpp"

namespace pipetrain::cpu {

void check_machine() {
#if defined(PIPETRAIN_CPU_ARCH_V3)
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    throw Error(
        ErrorKind::unavailable,
        "this build's CPU kernels need AVX2 and FMA, which this processor lacks; build with -DPIPETRAIN_CPU_ARCH=x86-64");
  }
#endif
}

}  // namespace pipetrain::cpu
