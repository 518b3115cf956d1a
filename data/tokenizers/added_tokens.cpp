#include "data/tokenizers/added_tokens.hpp"

#include <algorithm>

#include "data/tokenizers/text/unicode.hpp"
#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain {
namespace {

std::size_t character_before(std::string_view text, std::size_t at) {
  do --at;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
  return at;
}

bool has_word_around(std::string_view text, std::size_t begin, std::size_t end) {
  if (end < text.size()) {
    std::size_t at = end;
    if (is_word(next_code_point(text, at))) return true;
  }
  if (begin == 0) return false;
  std::size_t at = character_before(text, begin);
  return is_word(next_code_point(text, at));
}

std::size_t skip_white_space_left(std::string_view text, std::size_t at) {
  while (at > 0) {
    const std::size_t before = character_before(text, at);
    std::size_t next = before;
    if (!is_white_space(next_code_point(text, next))) break;
    at = before;
  }
  return at;
}

std::size_t skip_white_space_right(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    std::size_t next = at;
    if (!is_white_space(next_code_point(text, next))) break;
    at = next;
  }
  return at;
}

}  // namespace

TokenFinder::TokenFinder(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::erase_if(tokens_, [](const AddedToken& token) { return token.content.empty(); });
  std::vector<std::pair<std::string_view, std::int32_t>> pieces;
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    pieces.emplace_back(tokens_[i].content, static_cast<std::int32_t>(i));
    begins_[static_cast<unsigned char>(tokens_[i].content[0])] = true;
  }
  if (std::count(begins_.begin(), begins_.end(), true) == 1) only_begin_ = tokens_[0].content[0];
  if (!pieces.empty()) trie_ = PieceTrie(std::move(pieces));
}

std::size_t TokenFinder::find_first_byte(std::string_view text, std::size_t from) const {
  if (only_begin_) return std::min(text.find(*only_begin_, from), text.size());
  while (from < text.size() && !begins_[static_cast<unsigned char>(text[from])]) ++from;
  return from;
}

std::optional<TokenFinder::Found> TokenFinder::find(std::string_view text, std::size_t from) const {
  for (std::size_t at = find_first_byte(text, from); at < text.size(); at = find_first_byte(text, at + 1)) {
    Found found{at, at, nullptr};
    trie_.find_all(text, at, [&](std::int32_t place, std::size_t length) {
      found.end = at + length;
      found.token = &tokens_[static_cast<std::size_t>(place)];
    });
    if (found.token != nullptr) return found;
  }
  return std::nullopt;
}

void TokenFinder::for_each_part(std::string_view text, const Use& use) const {
  std::size_t done = 0;
  for (std::size_t from = 0; !tokens_.empty() && from < text.size();) {
    const auto found = find(text, from);
    if (!found) break;
    from = found->end;
    const AddedToken& token = *found->token;
    if (token.single_word && has_word_around(text, found->begin, found->end)) continue;
    std::size_t begin = found->begin, end = found->end;
    // White space that an earlier token matched is not taken again.
    if (token.left_strip) begin = std::max(skip_white_space_left(text, begin), done);
    if (token.right_strip) end = skip_white_space_right(text, end);
    if (done < begin) use(text.substr(done, begin - done), std::nullopt);
    use(text.substr(begin, end - begin), token.id);
    done = end;
  }
  if (done < text.size()) use(text.substr(done), std::nullopt);
}

}  // namespace pipetrain
