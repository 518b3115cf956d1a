#pragma once

namespace pipetrain::cpu {

// Makes oneDNN compute on the calling thread alone: the tiles are the parallelism. A product that started a team of threads
// would give other bits, and its idle threads would spin beside ours.
void be_single_threaded();

}  // namespace pipetrain::cpu
