// The normalization rules that sentencepiece compiles into its models; tokenizer.json files of T5 and XLM-R contain
// them too. Internal to data/.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/text/component.hpp"
#include "data/tokenizers/transforms/normalizers.hpp"

namespace pipetrain {

// A table from sequences of bytes to texts: a double-array trie in the units of darts-clone, and the texts, each ended
// by a NUL. Immutable and thread-safe.
class Charsmap {
 public:
  // The bytes are the trie's size (u32, little-endian), the trie and the texts. Throws Error(input), which begins with
  // component.place(), if they are not, or if a rule has no text in valid UTF-8.
  Charsmap(std::string_view bytes, const Component& component);

  // Returns the replacement of the first bytes of a text, by the rule of the shortest key that it begins with. Null if
  // there is none.
  const char* find(std::string_view text) const;

  // Keys are looked for in this many bytes of a text only.
  static constexpr std::size_t most_bytes = 5;

 private:
  void check_rules(const Component& component) const;

  std::vector<std::uint32_t> units_;
  std::string texts_;
};

// Makes the normalizer of this type, {"precompiled_charsmap": base64}: each grapheme cluster of less than 6 bytes, else
// each of its characters, is replaced by its entry in the table, as in Hugging Face's library.
std::unique_ptr<TextNormalizer> make_precompiled(const Component& component);

}  // namespace pipetrain
