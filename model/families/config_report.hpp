// ConfigReport lists what the readers of config.json understand of a file and everything that they refuse.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "model/config/config.hpp"

namespace pipetrain {

struct ConfigReport {
  std::optional<ModelConfig> config;    // read without the keys that are refused; nothing where they are needed
  std::string family;                   // as errors name it
  bool is_known = true;                 // false: no family has this model_type, and `family` is the one that refuses the least
  std::vector<std::string> understood;  // keys that the model is read from
  std::vector<std::string> unused;      // keys that are known to change nothing
  std::vector<std::string> refused;     // the readers' lines
  // False where a refused or missing key is needed to read those that follow, and after fifty refusals.
  bool is_complete = true;
};

// Reads DIR/config.json without stopping at a refused key, by leaving out each one that the readers refuse. Throws Error(input)
// for a file that cannot be read or is no JSON object.
ConfigReport report_config(const std::filesystem::path& folder);

}  // namespace pipetrain
