// Reads the files next to a tokenizer as transformers reads them: tokenizer_config.json, special_tokens_map.json and
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

// A token that a file next to the tokenizer names.
struct NamedToken {
  AddedToken token;                // its id is not known yet
  std::optional<std::int32_t> id;  // the file's id, if it gives one
  std::string file;
  bool says_normalized = true;  // otherwise a token is normalized unless it is special

  void make_special() {
    token.special = true;
    if (!says_normalized) token.normalized = false;
  }
};

struct TokenizerConfig {
  std::filesystem::path folder;
  // Tokens with their ids, by id: from "added_tokens_decoder", or, if there is none, from added_tokens.json.
  std::vector<NamedToken> numbered;
  // "bos_token" and the like, which are special; then "additional_special_tokens" and "extra_special_tokens". A token
  // that the tokenizer already has keeps its flags.
  std::vector<NamedToken> named, extra;
  std::string begin_name, end_name;  // the tokens that "bos_token" and "eos_token" name; empty: none
  // The texts of named tokens by their keys, and of "additional_special_tokens" as an array.
  Json special_tokens = Json::object();
  Json settings = Json::object();  // tokenizer_config.json

  // Returns a setting that is true or false. Throws Error(input) for another kind.
  bool flag(const char* key, bool otherwise) const;
  std::string file() const { return (folder / "tokenizer_config.json").string(); }
};

// Reads the files in this folder, each of which may be missing. special_tokens_map.json takes precedence over
// tokenizer_config.json, but it and added_tokens.json count only if the latter has no "added_tokens_decoder".
// `otherwise` holds names of tokens for keys that no file has. Throws Error(input) for damaged files, and for
// "split_special_tokens", which is not supported.
TokenizerConfig read_tokenizer_config(const std::filesystem::path& folder, const Json& otherwise = {});

}  // namespace pipetrain
