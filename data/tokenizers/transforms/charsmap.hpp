// The normalization rules that sentencepiece compiles into its models, which T5's and XLM-R's tokenizer.json carry too.
// Internal to data/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/text/component.hpp"
#include "data/tokenizers/transforms/normalizers.hpp"

namespace pipetrain {

// A table from sequences of bytes to texts: a double-array trie in the units of darts-clone, and the texts, each with a NUL at
// its end. Immutable and thread-safe.
class Charsmap {
 public:
  // The bytes are the trie's size (u32, little-endian), the trie and the texts. Throws Error(input), which begins with
  // component.place(), where they are not that, or where a rule has no text in valid UTF-8.
  Charsmap(std::string_view bytes, const Component& component);

  // What the first bytes of a text become: by the rule of the shortest key that it begins with. Null where there is none.
  const char* find(std::string_view text) const;

  // Bytes of a text beyond which no key is looked for.
  static constexpr std::size_t most_bytes = 5;

 private:
  void check_rules(const Component& component) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

// The normalizer of this type, {"precompiled_charsmap": base64}: each grapheme cluster of less than 6 bytes, else each of its
// characters, becomes what the table has for it, as in Hugging Face's library.
std::unique_ptr<TextNormalizer> make_precompiled(const Component& component);

}  // namespace pipetrain
