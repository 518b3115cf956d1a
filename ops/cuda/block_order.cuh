// In which order a kernel goes through the rows of a matrix. Device code only.
#pragma once

namespace pipetrain::cuda {

// A block's number counted from the end, for kernels between two products. A product that goes through its rows upwards leaves
// the last ones in the cache and reads the first ones first: a kernel that goes downwards finds the ones there and leaves the
// others.
__device__ inline unsigned block_from_end() { return gridDim.x - 1 - blockIdx.x; }

}  // namespace pipetrain::cuda
