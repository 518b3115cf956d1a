#include "data/tokenizers/end_of_text.hpp"

namespace pipetrain {

std::optional<std::int32_t> find_end_of_text(const Tokenizer& tokenizer, const std::string& name) {
  if (!name.empty()) return tokenizer.find(name);
  for (const char* known : {"<|endoftext|>", "<|end_of_text|>", "</s>", "<|im_end|>", "<eos>"})
    if (const auto id = tokenizer.find(known)) return id;
  return std::nullopt;
}

}  // namespace pipetrain
