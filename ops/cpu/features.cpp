// Compiled with the kernels' options: the compiler's macros say which instructions those options allow.
#include "ops/cpu/features.hpp"

namespace pipetrain::cpu {

constinit const unsigned kernel_features = 0U
#ifdef __AVX__
                                           | avx
#endif
#ifdef __AVX2__
                                           | avx2
#endif
#ifdef __FMA__
                                           | fma
#endif
#ifdef __BMI2__
                                           | bmi2
#endif
#ifdef __AVX512F__
                                           | avx512f
#endif
#ifdef __AVX512BW__
                                           | avx512bw
#endif
#ifdef __AVX512DQ__
                                           | avx512dq
#endif
#ifdef __AVX512VL__
                                           | avx512vl
#endif
    ;

}  // namespace pipetrain::cpu
