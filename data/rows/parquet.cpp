#include "data/rows/parquet.hpp"

namespace pipetrain {

bool is_parquet(const std::filesystem::path& path) { return path.extension() == ".parquet"; }

}  // namespace pipetrain
