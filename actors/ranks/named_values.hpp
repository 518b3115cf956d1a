// Values that all processes of a run must share, as text that can be compared.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace pipetrain {

struct ModelConfig;

// Pairs of a name and a value, in the same order in every process. Equal text means equal bits.
using NamedValues = std::vector<std::pair<std::string, std::string>>;

// Returns 16 hexadecimal digits.
std::string checksum_text(const std::string& bytes);

// Returns the value by which processes compare the shape of a model.
std::pair<std::string, std::string> model_content(const ModelConfig& config);

}  // namespace pipetrain
