// Reads the settings for generating text of a Hugging Face folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace pipetrain {

// Returns the ids that end a text by generation_config.json's "eos_token_id", a number or a list; none where it names none or
// there is no such file. Its other settings are not read. Throws Error(input) naming the file for other values, and ids that
// are not below the vocabulary.
std::vector<std::int32_t> read_end_ids(const std::filesystem::path& folder, std::int64_t vocabulary);

}  // namespace pipetrain
