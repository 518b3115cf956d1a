// The tokenizer in a model's folder, beside the weights.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace pipetrain {

// True when the folder has a file that open_tokenizer() looks for.
bool holds_tokenizer(const std::filesystem::path& folder);

// Returns the folder if its tokenizer serves a model of `vocabulary` tokens, else an empty path. `notes` gets a line that says
// so, or why a tokenizer that the folder holds does not serve. A path that is no folder, as a preset's name, holds none.
std::filesystem::path tokenizer_in_folder(const std::filesystem::path& folder, std::int64_t vocabulary,
                                          std::vector<std::string>& notes);

}  // namespace pipetrain
