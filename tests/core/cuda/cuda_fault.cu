#include "cuda_fault.hpp"

namespace pipetrain::testing {
namespace {

__global__ void write_nowhere_kernel(int* nowhere) { *nowhere = 1; }

}  // namespace

void write_nowhere(cudaStream_t stream) { write_nowhere_kernel<<<1, 1, 0, stream>>>(reinterpret_cast<int*>(8)); }

}  // namespace pipetrain::testing
