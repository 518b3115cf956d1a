// Weights that are no numbers.
#pragma once

#include <filesystem>
#include <span>
#include <string>

namespace pipetrain {

// Throws Error(input) naming the file and the tensor where a value is NaN or infinite: every loss would be.
void check_finite(std::span<const float> values, const std::filesystem::path& file, const std::string& tensor);

}  // namespace pipetrain
