// Options as a file that --config reads.
#pragma once

#include <string>

#include "apps/options/option_layers.hpp"

namespace pipetrain {

// Returns all that was given, wherever it came from, by our names, in the table's order and as TOML: not config, save-config
// and dry-run, which are of one call. Throws Error(input) for a word that TOML cannot hold, as it is not UTF-8.
std::string to_toml(const OptionRows& table, const RawOptions& options);

}  // namespace pipetrain
