// Rejects weights that are not finite.
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace pipetrain {

// Throws Error(input) naming the file and the tensor if a value is NaN or infinite, since then every loss would be.
void check_finite(std::span<const float> values, const std::filesystem::path& file, const std::string& tensor);

}  // namespace pipetrain
