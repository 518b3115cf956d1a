#include "data/tokenizers/text_stream.hpp"

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>

#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain {
namespace {

constexpr std::string_view replacement_character = "\xEF\xBF\xBD";
constexpr std::size_t context = 6;       // earlier ids that may change the text of new ones
constexpr std::size_t longest_wait = 8;  // ids: more than any character has bytes

// Returns how many bytes at the end may be an incomplete character.
std::size_t unfinished_bytes(std::string_view bytes) {
  for (std::size_t back = 1; back <= std::min<std::size_t>(3, bytes.size()); ++back) {
    const auto byte = static_cast<unsigned char>(bytes[bytes.size() - back]);
    if (byte < 0x80) return 0;
    if (byte >= 0xC0) return utf8_length(bytes[bytes.size() - back]) > back ? back : 0;
  }
  return 0;
}

std::string whole_characters(std::string_view bytes) {
  std::string buffer;
  return std::string(valid_utf8_or_replaced(bytes, buffer));
}

// Returns the part of `now` after the characters that both begin with.
std::string behind_common_begin(std::string_view before, std::string_view now) {
  std::size_t at = 0;
  while (at < now.size()) {
    const std::size_t length = std::min(utf8_length(now[at]), now.size() - at);
    if (before.substr(std::min(at, before.size()), length) != now.substr(at, length)) break;
    at += length;
  }
  return std::string(now.substr(at));
}

}  // namespace

TextStream::TextStream(const Tokenizer* tokenizer, std::vector<std::int32_t> prompt)
    : tokenizer_(tokenizer), ids_(std::move(prompt)), given_(ids_.size()) {
  begin_ = given_ - std::min(given_, context);
  // Without text before it, a word is decoded as the first one, which has no space in front.
  while (tokenizer_ != nullptr && begin_ > 0 && decode(begin_, given_).empty()) begin_ -= std::min(begin_, given_ - begin_);
  // The cut must not fall between ids that are bytes of one character.
  while (tokenizer_ != nullptr && begin_ > 0 && given_ - begin_ < 2 * context &&
         decode(begin_, given_).starts_with(replacement_character))
    --begin_;
}

std::string TextStream::add(std::int32_t id) {
  if (tokenizer_ == nullptr) return add_byte(id);
  if (id >= tokenizer_->vocabulary()) return "";  // rows that only round the model's vocabulary up have no text
  ids_.push_back(id);
  return take_new_text(false);
}

std::string TextStream::finish() {
  if (tokenizer_ == nullptr) return whole_characters(std::exchange(bytes_, {}));
  return take_new_text(true);
}

std::string TextStream::add_byte(std::int32_t id) {
  if (id > 255) return "";
  bytes_ += static_cast<char>(static_cast<unsigned char>(id));
  const std::size_t whole = bytes_.size() - unfinished_bytes(bytes_);
  std::string text = whole_characters(std::string_view(bytes_).substr(0, whole));
  bytes_.erase(0, whole);
  return text;
}

std::string TextStream::decode(std::size_t begin, std::size_t end) const {
  return tokenizer_->decode(std::span(ids_).subspan(begin, end - begin), SpecialTokens::leave_out);
}

std::string TextStream::take_new_text(bool all) {
  if (given_ == ids_.size()) return "";
  const std::string before = decode(begin_, given_), now = decode(begin_, ids_.size());
  const bool unfinished = now.ends_with(replacement_character) && ids_.size() - given_ < longest_wait;
  if (unfinished && !all) return "";
  given_ends_.push_back(std::exchange(given_, ids_.size()));
  while (given_ends_.size() > 1 && given_ - given_ends_[1] >= context) given_ends_.pop_front();
  const std::size_t later = given_ends_.front();
  if (given_ - later >= context && !decode(later, given_).empty()) begin_ = later;
  return behind_common_begin(before, now);
}

}  // namespace pipetrain
