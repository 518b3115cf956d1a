// The targets in a build without UCX.
#include "bench/fuzz/target.hpp"

namespace pipetrain::fuzz {

std::vector<Target> ucx_targets() { return {}; }

}  // namespace pipetrain::fuzz
