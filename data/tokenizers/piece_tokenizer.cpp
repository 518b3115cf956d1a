#include "data/tokenizers/piece_tokenizer.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "data/tokenizers/chat_form.hpp"
#include "data/tokenizers/end_of_text.hpp"
#include "data/tokenizers/models/word_cache.hpp"
#include "data/tokenizers/text/utf8.hpp"
#include "data/tokenizers/transforms/byte_level.hpp"

namespace pipetrain {
namespace {

void normalize(const TokenizerParts& parts, std::string_view content, NormalizedText& text) {
  text.begin(content);
  for (const auto& step : parts.normalizers)
    if (!text.text.empty()) step->apply(text);
}

// Finds the tokens of the text itself, and those of the normalized text.
struct Finders {
  TokenFinder raw, normalized;
};

Finders make_finders(const TokenizerParts& parts) {
  std::vector<AddedToken> raw, normalized;
  NormalizedText content;
  for (const AddedToken& token : parts.added) {
    if (!token.normalized) {
      raw.push_back(token);
    } else {
      normalize(parts, token.content, content);
      normalized.push_back(token);
      normalized.back().content = content.text;
    }
  }
  return {TokenFinder(std::move(raw)), TokenFinder(std::move(normalized))};
}

class PieceEncoder : public TextEncoder {
 public:
  PieceEncoder(const TokenizerParts& parts, const Finders& finders)
      : parts_(parts), finders_(finders), scratch_(parts.model->scratch()) {}

  void encode(std::string_view text, SpecialTokens around, std::vector<std::int32_t>& ids) override {
    text = valid_utf8_or_replaced(text, valid_);
    const bool keep = around == SpecialTokens::keep;
    if (keep) ids.insert(ids.end(), parts_.around.before.begin(), parts_.around.before.end());
    finders_.raw.for_each_part(text, [&](std::string_view part, std::optional<std::int32_t> id) {
      id ? ids.push_back(*id) : encode_part(part, part.data() == text.data(), ids);
    });
    if (keep) ids.insert(ids.end(), parts_.around.after.begin(), parts_.around.after.end());
  }

 private:
  void encode_part(std::string_view text, bool at_start, std::vector<std::int32_t>& ids) {
    InsertedFront front;
    if (!parts_.normalizers.empty()) {
      normalize(parts_, text, normalized_);
      text = normalized_.text;
      at_start = at_start && normalized_.at_start;
      front = normalized_.front;
    }
    finders_.normalized.for_each_part(text, [&](std::string_view part, std::optional<std::int32_t> id) {
      if (id) return ids.push_back(*id);
      const auto before = static_cast<std::size_t>(part.data() - text.data());
      split(part, at_start && before == 0);
      const bool is_inserted = parts_.byte_level && before < front.bytes;
      is_inserted ? encode_inserted(part, {front.bytes - before, front.by}, ids) : encode_words(ids);
    });
  }

  void split(std::string_view text, bool at_start) {
    pieces_.reset(text, at_start);
    for (const auto& step : parts_.pre_tokenizers) step->apply(pieces_);
    if (const PreTokenizer* cuts = parts_.model->cuts()) cuts->apply(pieces_);
  }

  void encode_words(std::vector<std::int32_t>& ids) {
    for (const std::string_view word : pieces_.list()) encode_word(word, ids);
  }

  // Encodes words of a text whose front was inserted. In Hugging Face's library, ByteLevel changes a word as a whole: an
  // inserted word keeps its characters, followed by those of its bytes, and a partly inserted word makes the library fail.
  void encode_inserted(std::string_view text, const InsertedFront& front, std::vector<std::int32_t>& ids) {
    std::string both;
    for (const std::string_view word : pieces_.list()) {
      const bool is_moved = word.data() < text.data() || word.data() >= text.data() + text.size();
      const std::size_t begin = is_moved ? 0 : static_cast<std::size_t>(word.data() - text.data());
      if (begin >= front.bytes) {
        encode_word(word, ids);
        continue;
      }
      const auto characters = bytes_of_piece(word);
      if (is_moved || begin + word.size() > front.bytes || !characters) front.refuse();
      both.assign(word);
      both += *characters;
      encode_word(both, ids);
    }
  }

  void encode_word(std::string_view word, std::vector<std::int32_t>& ids) {
    if (!WordCache::takes(word)) return parts_.model->encode(word, *scratch_, ids);
    if (const auto known = cache_.find(word); !known.empty()) {
      ids.insert(ids.end(), known.begin(), known.end());
      return;
    }
    const std::size_t before = ids.size();
    parts_.model->encode(word, *scratch_, ids);
    cache_.put(word, std::span(ids).subspan(before));
  }

  const TokenizerParts& parts_;
  const Finders& finders_;
  std::unique_ptr<TokenModel::Scratch> scratch_;
  WordCache cache_;
  Pieces pieces_;
  std::string valid_;
  NormalizedText normalized_;
};

class PieceTokenizer : public Tokenizer {
 public:
  explicit PieceTokenizer(TokenizerParts parts) : parts_(std::move(parts)), finders_(make_finders(parts_)) {
    for (const AddedToken& token : parts_.added) {
      by_id_[token.id] = token.content;
      by_name_[token.content] = token.id;
      if (token.special) special_.insert(token.content);
    }
    end_ = find_end_of_text(*this, parts_.config.end_name);
  }

  std::int64_t vocabulary() const override {
    return std::max<std::int64_t>(parts_.vocabulary->size(), by_id_.empty() ? 0 : by_id_.rbegin()->first + 1);
  }
  std::int64_t own_vocabulary() const override {
    std::int64_t size = parts_.vocabulary->size();
    for (std::size_t i = 0; i < parts_.own_added; ++i) size = std::max<std::int64_t>(size, parts_.added[i].id + 1);
    return size;
  }
  std::unique_ptr<TextEncoder> encoder() const override { return std::make_unique<PieceEncoder>(parts_, finders_); }

  std::string decode(std::span<const std::int32_t> ids, SpecialTokens special) const override {
    std::vector<std::string> pieces;
    for (const std::int32_t id : ids) {
      if (!by_id_.contains(id) && !parts_.vocabulary->has(id)) continue;
      std::string text = piece(id);
      if (special == SpecialTokens::leave_out && special_.contains(text)) continue;
      pieces.push_back(is_added_text(id, text) ? parts_.decoders.front()->piece_of_added(text) : std::move(text));
    }
    for (const auto& step : parts_.decoders) step->apply(pieces);
    std::string text;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      if (i > 0 && !parts_.has_decoder) text += ' ';
      text += pieces[i];
    }
    return text;
  }
  std::string piece(std::int32_t id) const override {
    const auto added = by_id_.find(id);
    return added != by_id_.end() ? added->second : std::string(parts_.vocabulary->piece(id));
  }
  std::optional<std::int32_t> find(std::string_view piece) const override {
    const auto added = by_name_.find(piece);
    return added != by_name_.end() ? added->second : parts_.vocabulary->find(piece);
  }
  std::optional<std::int32_t> end_of_text() const override { return end_; }
  ChatForm chat_form() const override { return chat_form_of(parts_.config); }
  Json special_tokens() const override { return parts_.config.special_tokens; }
  std::uint64_t content() const override { return parts_.content; }

 private:
  // Returns true if the decoders get an added token that is not a piece. A token of a single letter may have the id of
  // the byte that the letter stands for, which is then also a byte of other characters.
  bool is_added_text(std::int32_t id, const std::string& content) const {
    const bool is_byte = parts_.vocabulary->has(id) && utf8_length(content[0]) == content.size();
    return by_id_.contains(id) && !is_byte && !parts_.decoders.empty();
  }

  TokenizerParts parts_;
  Finders finders_;
  std::map<std::int32_t, std::string> by_id_;
  std::map<std::string, std::int32_t, std::less<>> by_name_;
  std::set<std::string> special_;
  std::optional<std::int32_t> end_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_tokenizer(TokenizerParts parts) { return std::make_unique<PieceTokenizer>(std::move(parts)); }

}  // namespace pipetrain
