// The tokenizer that a tokenizer.json describes, and the older form of two files. Internal to data/.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

// Throw Error(input) that names the file, and the component where one is not supported.
std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& file);
// GPT-2's: byte-level BPE.
std::unique_ptr<Tokenizer> open_vocabulary_and_merges(const std::filesystem::path& vocabulary,
                                                      const std::filesystem::path& merges);

// The same from texts; `file` is for errors.
std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view text, const std::string& file, const std::string& end_name);
std::unique_ptr<Tokenizer> tokenizer_from_merges(std::string_view vocabulary, std::string_view merges, const std::string& file,
                                                 const std::string& merges_file, const std::string& end_name);

}  // namespace pipetrain
