// Tokens that are found in a text before anything splits it, such as <s>. Internal to data/.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizers/text/piece_trie.hpp"

namespace pipetrain {

struct AddedToken {
  std::string content;
  std::int32_t id = 0;
  bool single_word = false;  // matches only without a letter or digit next to it
  bool left_strip = false;   // includes the white space before it
  bool right_strip = false;  // and after it
  bool normalized = false;   // its normalized content is looked for in the normalized text, instead of in the text itself
  bool special = false;      // is not text: left out when decoding
};

// Finds tokens in texts, from left to right, and the longest of several that begin at one position. Immutable and thread-safe.
class TokenFinder {
 public:
  TokenFinder() = default;
  explicit TokenFinder(std::vector<AddedToken> tokens);

  // Calls use(part, id) for all parts of the text in order; text that is not a token, never empty, comes without an id.
  using Use = std::function<void(std::string_view part, std::optional<std::int32_t> id)>;
  void for_each_part(std::string_view text, const Use& use) const;
  bool empty() const { return tokens_.empty(); }

 private:
  struct Found {
    std::size_t begin, end;
    const AddedToken* token;
  };
  std::optional<Found> find(std::string_view text, std::size_t from) const;
  std::size_t find_first_byte(std::string_view text, std::size_t from) const;

  std::vector<AddedToken> tokens_;
  PieceTrie trie_;  // of indices in tokens_
  std::array<bool, 256> begins_{};
  std::optional<char> only_begin_;
};

}  // namespace pipetrain
