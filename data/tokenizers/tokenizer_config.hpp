// Reads the files beside a tokenizer as transformers reads them: tokenizer_config.json, special_tokens_map.json and
// added_tokens.json. Internal to data/.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "data/tokenizers/added_tokens.hpp"
#include "files/json_value.hpp"

namespace pipetrain {

// A token that a file beside the tokenizer names.
struct NamedToken {
  AddedToken token;                // its id is not known yet
  std::optional<std::int32_t> id;  // that of the file, where it gives one
  std::string file;
  bool says_normalized = true;  // else a token is normalized unless it is special

  void make_special() {
    token.special = true;
    if (!says_normalized) token.normalized = false;
  }
};

struct TokenizerConfig {
  std::filesystem::path folder;
  // Tokens with their ids, by id: "added_tokens_decoder", or where there is none added_tokens.json.
  std::vector<NamedToken> numbered;
  // "bos_token" and the like, which are special; then "additional_special_tokens" and "extra_special_tokens". One that the
  // tokenizer has already keeps its flags.
  std::vector<NamedToken> named, extra;
  std::string begin_name, end_name;  // what "bos_token" and "eos_token" name; empty: nothing
  // The texts of named tokens by their keys, and of "additional_special_tokens" as an array.
  Json special_tokens = Json::object();
  Json settings = Json::object();  // tokenizer_config.json

  // A setting that is true or false. Throws Error(input) for another kind.
  bool flag(const char* key, bool otherwise) const;
  std::string file() const { return (folder / "tokenizer_config.json").string(); }
};

// Of the files in this folder, each of which may be missing. special_tokens_map.json counts before tokenizer_config.json, and
// like added_tokens.json only where that has no "added_tokens_decoder". `otherwise` are names of tokens that hold where no file
// has this key. Throws Error(input) for files that are damaged, and for "split_special_tokens", which is not supported.
TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder, const Json& otherwise = {});

}  // namespace pipetrain
