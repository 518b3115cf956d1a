// A kernel that makes an illegal access.
#pragma once

#include <cuda_runtime_api.h>

namespace pipetrain::testing {

void write_nowhere(cudaStream_t stream);

}  // namespace pipetrain::testing
