// The order in which a kernel processes the rows of a matrix. Device code only.
#pragma once

namespace pipetrain::cuda {

// Returns a block's number counted from the end, for kernels between two products. A product processes its rows
// upwards, so it leaves the last rows in the cache and reads the first rows first. A kernel that goes downwards
// finds the last rows in the cache and leaves the first rows there.
__device__ inline unsigned block_from_end() { return gridDim.x - 1 - blockIdx.x; }

}  // namespace pipetrain::cuda
