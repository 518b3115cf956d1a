#pragma once

namespace pipetrain::cpu {

// Makes oneDNN compute on the calling thread alone, since the tiles are the parallelism. A product on a team of
// threads would give other bits, and the team's idle threads would spin and slow down ours.
void be_single_threaded();

}  // namespace pipetrain::cpu
