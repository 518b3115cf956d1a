#include "data/tokenizers/sentencepiece_tokenizer.hpp"

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include "core/checksum.hpp"
#include "core/error.hpp"
#include "data/tokenizers/component.hpp"
#include "data/tokenizers/utf8.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"

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

Around read_around(const fs::path& folder) {
  Around around;
  const fs::path file = folder / "tokenizer_config.json";
  std::error_code ignored;
  if (!fs::exists(file, ignored)) return around;
  const Json all = parse_json(read_text(file, std::size_t{64} << 20), {file.string()});
  const auto read = [&](const char* name, bool& flag) {
    const Json* const value = all.find(name);
    if (!value || value->is_null()) return;
    if (!value->is_boolean())
      throw Error(ErrorKind::input,
                  fmt::format("{}: \"{}\" is neither true nor false; {}", file.string(), name, tokenizer_file_remedy));
    flag = value->as_bool();
  };
  read("add_bos_token", around.begin);
  read("add_eos_token", around.end);
  return around;
}

class SentencePieceEncoder : public TextEncoder {
 public:
  SentencePieceEncoder(const SentencePieceProcessor& processor, Around around) : processor_(processor), around_(around) {}

  void encode(std::string_view text, SpecialTokens around, std::vector<std::int32_t>& ids) override {
    text = valid_utf8_or_replaced(text, valid_);
    const bool keep = around == SpecialTokens::keep;
    if (keep && around_.begin && processor_.bos_id() >= 0) ids.push_back(processor_.bos_id());
    check_sentencepiece(processor_.Encode({text.data(), text.size()}, &found_), "the text cannot be tokenized");
    ids.insert(ids.end(), found_.begin(), found_.end());
    if (keep && around_.end && processor_.eos_id() >= 0) ids.push_back(processor_.eos_id());
  }

 private:
  const SentencePieceProcessor& processor_;
  Around around_;
  std::string valid_;
  std::vector<int> found_;
};

class SentencePieceTokenizer : public Tokenizer {
 public:
  explicit SentencePieceTokenizer(const fs::path& file) : around_(read_around(file.parent_path())) {
    const std::string bytes = read_text(file, std::size_t{1} << 30);
    const std::string what =
        file.string() + ": is no sentencepiece model that can be read; give a tokenizer.model as its library writes it";
    if (bytes.empty()) throw Error(ErrorKind::input, what);
    if (!processor_.LoadFromSerializedProto(bytes).ok()) throw Error(ErrorKind::input, what);
    if (processor_.GetPieceSize() < 1) throw Error(ErrorKind::input, what);
    content_ = checksum(bytes.data(), bytes.size());
  }

  std::int64_t vocabulary() const override { return processor_.GetPieceSize(); }
  std::unique_ptr<TextEncoder> encoder() const override { return std::make_unique<SentencePieceEncoder>(processor_, around_); }
  std::string decode(std::span<const std::int32_t> ids, SpecialTokens special) const override {
    std::string text;
    std::vector<int> run;
    const auto finish = [&] {
      std::string part;
      if (!run.empty()) check_sentencepiece(processor_.Decode(run, &part), "the ids cannot be decoded");
      text += part;
      run.clear();
    };
    for (const std::int32_t id : ids) {
      if (id < 0 || id >= vocabulary()) continue;
      if (!processor_.IsControl(id)) {
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
    return id >= 0 && id < vocabulary() ? processor_.IdToPiece(id) : std::string();
  }
  std::optional<std::int32_t> find(std::string_view piece) const override {
    const int id = processor_.PieceToId({piece.data(), piece.size()});  // what it does not know is the unknown piece
    return id >= 0 && processor_.IdToPiece(id) == piece ? std::optional(id) : std::nullopt;
  }
  std::optional<std::int32_t> end_of_text() const override {
    return processor_.eos_id() >= 0 ? std::optional(processor_.eos_id()) : std::nullopt;
  }
  std::uint64_t content() const override { return content_; }

 private:
  SentencePieceProcessor processor_;
  Around around_;
  std::uint64_t content_ = 0;
};

}  // namespace

std::unique_ptr<Tokenizer> open_sentencepiece(const fs::path& file) { return std::make_unique<SentencePieceTokenizer>(file); }

}  // namespace pipetrain
