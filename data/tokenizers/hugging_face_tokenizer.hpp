// Opens the tokenizer that a tokenizer.json describes, and the older form of two files. Internal to data/.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>

#include "data/tokenizers/tokenizer.hpp"
#include "data/tokenizers/tokenizer_config.hpp"

namespace pipetrain {

// These functions throw Error(input) that names the file, and the component if it is not supported.
std::unique_ptr<Tokenizer> open_tokenizer_json(const std::filesystem::path& file);
// Opens GPT-2's tokenizer: byte-level BPE.
std::unique_ptr<Tokenizer> open_vocabulary_and_merges(const std::filesystem::path& vocabulary,
                                                      const std::filesystem::path& merges);

// These take texts; `file` is for errors. A tokenizer_config.json next to merges is supported only for GPT-2's tokenizer.
std::unique_ptr<Tokenizer> tokenizer_from_json(std::string_view text, const std::string& file, TokenizerConfig config);
struct MergesFiles {
  std::string_view vocabulary, merges;  // vocab.json, merges.txt
  std::string vocabulary_name, merges_name;
};
std::unique_ptr<Tokenizer> tokenizer_from_merges(const MergesFiles& files, TokenizerConfig config);

}  // namespace pipetrain
