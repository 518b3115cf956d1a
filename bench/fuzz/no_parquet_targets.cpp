// The targets in a build without Apache Arrow.
#include "bench/fuzz/target.hpp"

namespace pipetrain::fuzz {

std::vector<Target> parquet_targets(const std::filesystem::path&) { return {}; }

}  // namespace pipetrain::fuzz
