// Marks functions that both the host's compiler and the GPU's compile.
#pragma once

#ifdef __CUDACC__
#define PIPETRAIN_HOST_DEVICE __host__ __device__
#else
#define PIPETRAIN_HOST_DEVICE
#endif
