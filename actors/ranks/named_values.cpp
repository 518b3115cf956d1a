#include "actors/ranks/named_values.hpp"

#include <fmt/format.h>

#include "core/checksum.hpp"

namespace pipetrain {

std::string checksum_text(const std::string& bytes) { return fmt::format("{:016x}", checksum(bytes.data(), bytes.size())); }

std::pair<std::string, std::string> model_content(const ModelConfig& config) {
  return {"model", checksum_text(hf_config_text(config))};
}

}  // namespace pipetrain
