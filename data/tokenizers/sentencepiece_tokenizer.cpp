#include "data/tokenizers/sentencepiece_tokenizer.hpp"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "data/tokenizers/added_tokens.hpp"
#include "data/tokenizers/chat_form.hpp"
#include "data/tokenizers/text/utf8.hpp"
#include "data/tokenizers/tokenizer_config.hpp"
#include "files/file_io.hpp"

namespace pipetrain {
namespace {

namespace fs = std::filesystem;
using sentencepiece::SentencePieceProcessor;

void check_sentencepiece(const sentencepiece::util::Status& status, const std::string& what) {
  if (!status.ok()) throw Error(ErrorKind::input, fmt::format("{}: {}", what, status.ToString()));
}

struct Around {
  bool begin = true, end = false;
};

// The parts that encoders share.
struct SentencePieceParts {
  SentencePieceProcessor processor;
  Around around;
  TokenFinder missing;  // tokens that files next to the model name but the model lacks
};

class SentencePieceEncoder : public TextEncoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceParts& parts) : parts_(parts) {}

  void encode(std::string_view text, SpecialTokens around, std::vector<std::int32_t>& ids) override {
    text = valid_utf8_or_replaced(text, valid_);
    refuse_missing(text);
    const auto& [processor, puts, missing] = parts_;
    const bool keep = around == SpecialTokens::keep;
    if (keep && puts.begin && processor.bos_id() >= 0) ids.push_back(processor.bos_id());
    check_sentencepiece(processor.Encode({text.data(), text.size()}, &found_), "the text cannot be tokenized");
    ids.insert(ids.end(), found_.begin(), found_.end());
    if (keep && puts.end && processor.eos_id() >= 0) ids.push_back(processor.eos_id());
  }

 private:
  // The library would encode such a token as other pieces.
  void refuse_missing(std::string_view text) const {
    if (parts_.missing.empty()) return;
    parts_.missing.for_each_part(text, [](std::string_view part, std::optional<std::int32_t> id) {
      if (id)
        throw Error(ErrorKind::input,
                    fmt::format("the text has the added token {}, which is not a piece of the tokenizer.model; give the "
                                "tokenizer.json of this tokenizer",
                                part));
    });
  }

  const SentencePieceParts& parts_;
  std::string valid_;
  std::vector<int> found_;
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const fs::path& file) : config_(read_tokenizer_config(file.parent_path())) {
    const std::string bytes = read_text(file, std::size_t{1} << 30);
    const std::string what =
        file.string() + ": is not a readable sentencepiece model; give a tokenizer.model as its library writes it";
    if (bytes.empty()) throw Error(ErrorKind::input, what);
    if (!parts_.processor.LoadFromSerializedProto(bytes).ok()) throw Error(ErrorKind::input, what);
    if (parts_.processor.GetPieceSize() < 1) throw Error(ErrorKind::input, what);
    content_ = checksum(bytes.data(), bytes.size());
    parts_.around = {config_.flag("add_bos_token", true), config_.flag("add_eos_token", false)};
    std::vector<AddedToken> missing;
    for (const auto* list : {&config_.numbered, &config_.named, &config_.extra})
      for (const NamedToken& named : *list)
        if (!find(named.token.content)) missing.push_back(named.token);
    parts_.missing = TokenFinder(std::move(missing));
  }

  std::int64_t vocabulary() const override { return parts_.processor.GetPieceSize(); }
  std::unique_ptr<TextEncoder> encoder() const override { return std::make_unique<SentencePieceEncoder>(parts_); }
  std::string decode(std::span<const std::int32_t> ids, SpecialTokens special) const override {
    std::string text;
    std::vector<int> run;
    const auto finish = [&] {
      std::string part;
      if (!run.empty()) check_sentencepiece(parts_.processor.Decode(run, &part), "the ids cannot be decoded");
      text += part;
      run.clear();
    };
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= vocabulary()) continue;
      if (!parts_.processor.IsControl(id)) {
        run.push_back(id);
      } else if (special == SpecialTokens::keep) {
        finish();
        text += piece(id);
      }
    }
    finish();
    return text;
  }
  std::string piece(std::int32_t id) const override {
    return id >= 0 && id < vocabulary() ? parts_.processor.IdToPiece(id) : std::string();
  }
  std::optional<std::int32_t> find(std::string_view piece) const override {
    const int id = parts_.processor.PieceToId({piece.data(), piece.size()});  // unknown text becomes the unknown piece
    return id >= 0 && parts_.processor.IdToPiece(id) == piece ? std::optional(id) : std::nullopt;
  }
  std::optional<std::int32_t> end_of_text() const override {
    return parts_.processor.eos_id() >= 0 ? std::optional(parts_.processor.eos_id()) : std::nullopt;
  }
  ChatForm chat_form() const override { return chat_form_of(config_); }
  Json special_tokens() const override { return config_.special_tokens; }
  bool is_found_in_texts(std::int32_t id) const override { return !parts_.processor.IsControl(id); }
  std::uint64_t content() const override { return content_; }

 private:
  TokenizerConfig config_;
  SentencePieceParts parts_;
  std::uint64_t content_ = 0;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(const fs::path& file) { return std::make_unique<SentencePieceTokenizer>(file); }

}  // namespace pipetrain
