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
  bool single_word = false;  // only where no letter or digit stands beside it
  bool left_strip = false;   // takes the white space before it
  bool right_strip = false;  // and behind it
  bool normalized = false;   // is found in the normalized text, as its own content normalized, instead of in the text itself
  bool special = false;      // is no text: left out when decoding
};

// Finds tokens in texts: from left to right, of several at one place the longest. Immutable and thread-safe.
class TokenFinder {
 public:
  TokenFinder() = default;
  explicit TokenFinder(std::vector<AddedToken> tokens);

  // Calls use(part, id) for all parts of the text in turn; without an id for what is no token, which is never empty.
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
  PieceTrie trie_;  // of places in tokens_
  std::array<bool, 256> begins_{};
  std::optional<char> only_begin_;
};

}  // namespace pipetrain
