// JSON from files we do not trust.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace pipetrain {

struct JsonLimits {
  int depth = 16;
  std::size_t values = 1'000'000;
};

// Throws Error(input), beginning with `where`, on bad syntax, duplicate keys, and text beyond the limits. The text's length is
// the caller's to limit.
nlohmann::json parse_strict_json(std::string_view text, const std::string& where, const JsonLimits& limits = {});

}  // namespace pipetrain
