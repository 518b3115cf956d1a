// Values that all processes of a run must share, as text that can be compared.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace pipetrain {

struct ModelConfig;

// By name, in one order in every process. Equal text means equal bits.
using NamedValues = std::vector<std::pair<std::string, std::string>>;

// 16 hexadecimal digits.
std::string checksum_text(const std::string& bytes);

// The value that compares a model's shape.
std::pair<std::string, std::string> model_content(const ModelConfig& config);

}  // namespace pipetrain
