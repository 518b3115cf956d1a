#include "data/tokenizers/end_of_text.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "data/tokenizers/component.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"

namespace pipetrain {

namespace fs = std::filesystem;

std::string read_end_name(const fs::path& folder) {
  for (const char* name : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const fs::path file = folder / name;
    std::error_code ignored;
    if (!fs::exists(file, ignored)) continue;
    constexpr std::size_t most = std::size_t{64} << 20;
    const Json all = parse_json(read_text(file, most), {file.string()});
    if (!all.is_object())
      throw Error(ErrorKind::input, fmt::format("{}: not a JSON object; {}", file.string(), tokenizer_file_remedy));
    const Json* const token = all.find("eos_token");
    if (!token || token->is_null()) continue;
    if (token->is_string()) return token->as_string();
    if (token->is_object() && token->contains("content") && token->at("content").is_string())
      return token->at("content").as_string();
    throw Error(ErrorKind::input, fmt::format("{}: \"eos_token\" is neither a string nor an object with \"content\"; {}",
                                              file.string(), tokenizer_file_remedy));
  }
  return "";
}

std::optional<std::int32_t> find_end_of_text(const Tokenizer& tokenizer, const std::string& name) {
  if (!name.empty()) {
    if (const auto id = tokenizer.find(name)) return id;
    throw Error(ErrorKind::input,
                fmt::format("the tokenizer has no piece {}, which its \"eos_token\" names; correct the files", name));
  }
  for (const char* known : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<|im_end|>", "<eos>"})
    if (const auto id = tokenizer.find(known)) return id;
  return std::nullopt;
}

}  // namespace pipetrain
