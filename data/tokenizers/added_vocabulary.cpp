#include "data/tokenizers/added_vocabulary.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>
#include <utility>

#include "core/error.hpp"
#include "data/tokenizers/text/component.hpp"

namespace pipetrain {

bool AddedVocabulary::has(const AddedToken& token) const {
  const auto known = newest_.find(token.content);
  if (known == newest_.end()) return false;
  const auto flags = [](const AddedToken& of) {
    return std::tuple(of.single_word, of.left_strip, of.right_strip, of.normalized, of.special);
  };
  return flags(known->second) == flags(token);
}

std::int32_t AddedVocabulary::id_for(const std::string& content) const {
  if (const auto known = newest_.find(content); known != newest_.end()) return known->second.id;
  if (const auto piece = pieces_->find(content)) return *piece;
  return largest_ >= pieces_->count() ? largest_ + 1 : pieces_->count();
}

void AddedVocabulary::fail_id(const AddedToken& token, std::int32_t id, const std::string& file) const {
  const auto other = std::find_if(tokens_.begin(), tokens_.end(), [&](const AddedToken& known) { return known.id == id; });
  const std::string why =
      other != tokens_.end() && other->content != token.content
          ? fmt::format("the added tokens {} and {} have the same id {}", other->content, token.content, id)
          : fmt::format(
                "the added token {} has the id {} there, but {} in Hugging Face's library, which numbers added tokens by "
                "their order",
                token.content, id, token.id);
  throw Error(ErrorKind::input, fmt::format("{}: {}; {}", file, why, tokenizer_file_remedy));
}

void AddedVocabulary::add(AddedToken token, std::optional<std::int32_t> id, const std::string& file) {
  if (token.content.empty()) return;
  token.id = id_for(token.content);
  if (id && *id != token.id) fail_id(token, *id, file);
  const bool is_piece = pieces_->has(token.id);
  if ((is_piece && pieces_->piece(token.id) != token.content) || token.id >= Vocabulary::most_ids)
    throw Error(ErrorKind::input,
                fmt::format("{}: the added token {} has no id: the next one after the vocabulary, {}, is {}; {}", file,
                            token.content, token.id, is_piece ? "that of a piece" : "too large", tokenizer_file_remedy));
  if (has(token)) return;
  const bool is_special = contains(token.content) && change_flags(token);
  largest_ = std::max(largest_, token.id);
  newest_.insert_or_assign(token.content, token);
  if (!is_special) tokens_.push_back(std::move(token));  // a special token stays special, and is looked for as before
}

bool AddedVocabulary::change_flags(const AddedToken& token) {
  bool is_special = false;
  for (AddedToken& known : tokens_) {
    if (known.id != token.id) continue;
    is_special = is_special || known.special;
    known.single_word = token.single_word;
    known.left_strip = token.left_strip;
    known.right_strip = token.right_strip;
  }
  return is_special;
}

}  // namespace pipetrain
