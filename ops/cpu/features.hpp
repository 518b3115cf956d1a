// The extensions of the instruction set that compilers use on their own for a given architecture.
#pragma once

namespace pipetrain::cpu {

enum Feature : unsigned { avx = 1, avx2 = 2, fma = 4, bmi2 = 8, avx512f = 16, avx512bw = 32, avx512dq = 64, avx512vl = 128 };

// The extensions that the kernels were compiled for. It is plain data, so that reading it needs none of them.
extern const unsigned kernel_features;

}  // namespace pipetrain::cpu
