// Rejects weights that are not finite.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <span>
#include <string>

#include "core/error.hpp"

namespace pipetrain {

// Throws Error(input) naming the file and the tensor if a value is NaN or infinite, since then every loss would be.
inline void check_finite(std::span<const float> values, const std::filesystem::path& file, const std::string& tensor) {
  const auto bad = std::find_if(values.begin(), values.end(), [](float value) { return !std::isfinite(value); });
  if (bad == values.end()) return;
  throw Error(ErrorKind::input,
              fmt::format("{}: tensor {} holds {}: the file is damaged, or of a run that diverged; copy it again, or take "
                          "other weights",
                          file.string(), tensor, std::isnan(*bad) ? "NaN" : "infinite values"));
}

}  // namespace pipetrain
