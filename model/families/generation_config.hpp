// What a Hugging Face folder says of generating text.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace pipetrain {

// The ids that end a text: "eos_token_id", a number or a list, of generation_config.json, else of config.json; none where
// neither names one. Other settings of generation_config.json are not read. Throws Error(input) naming the file for other
// values, and ids that are not below the vocabulary.
std::vector<std::int32_t> read_end_ids(const std::filesystem::path& folder, std::int64_t vocabulary);

}  // namespace pipetrain
