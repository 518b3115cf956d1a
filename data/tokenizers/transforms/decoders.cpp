#include "data/tokenizers/transforms/decoders.hpp"

#include <algorithm>
#include <optional>

#include "core/parsing.hpp"
#include "data/tokenizers/text/utf8.hpp"
#include "data/tokenizers/transforms/byte_level.hpp"
#include "data/tokenizers/transforms/metaspace.hpp"
#include "data/tokenizers/transforms/normalizers.hpp"

namespace pipetrain {
namespace {

using DecoderSteps = std::vector<std::unique_ptr<PieceDecoder>>;

void append_valid(const std::string& bytes, std::vector<std::string>& pieces) {
  std::string buffer;
  pieces.emplace_back(valid_utf8_or_replaced(bytes, buffer));
}

// A piece with a character that stands for no byte is kept as it is. Hugging Face's library treats added tokens as
// pieces too, so it decodes one whose letters all stand for bytes, such as <Ö>, to other bytes than were encoded; here
// such a token stays unchanged.
class ByteLevelDecoder : public PieceDecoder {
 public:
  void apply(std::vector<std::string>& pieces) const override {
    std::string bytes;
    for (const std::string& piece : pieces) bytes += bytes_of_piece(piece).value_or(piece);
    pieces.clear();
    append_valid(bytes, pieces);
  }
  std::string piece_of_added(const std::string& content) const override { return piece_of_bytes(content); }
};

std::optional<char> byte_of_piece(const std::string& piece) {
  if (piece.size() != 6 || !piece.starts_with("<0x") || piece[5] != '>') return std::nullopt;
  const auto value = number_from<unsigned char>(std::string_view(piece).substr(3, 2), 16);
  return value ? std::optional(static_cast<char>(*value)) : std::nullopt;
}

// Decodes adjacent <0x..> as UTF-8; if it is not valid, each becomes U+FFFD.
class ByteFallbackDecoder : public PieceDecoder {
 public:
  void apply(std::vector<std::string>& pieces) const override {
    std::vector<std::string> result;
    std::string bytes, buffer;
    const auto finish = [&] {
      if (bytes.empty()) return;
      if (valid_utf8_or_replaced(bytes, buffer).data() == bytes.data()) {
        result.push_back(bytes);
      } else {
        for (std::size_t i = 0; i < bytes.size(); ++i) result.emplace_back("\xEF\xBF\xBD");
      }
      bytes.clear();
    };
    for (std::string& piece : pieces) {
      if (const auto byte = byte_of_piece(piece)) {
        bytes += *byte;
      } else {
        finish();
        result.push_back(std::move(piece));
      }
    }
    finish();
    pieces.swap(result);
  }
};

class FuseDecoder : public PieceDecoder {
 public:
  void apply(std::vector<std::string>& pieces) const override {
    std::string all;
    for (const std::string& piece : pieces) all += piece;
    pieces.assign(1, std::move(all));
  }
};

class MetaspaceDecoder : public PieceDecoder {
 public:
  MetaspaceDecoder(std::string replacement, PrependScheme scheme) : replacement_(std::move(replacement)), scheme_(scheme) {}
  void apply(std::vector<std::string>& pieces) const override {
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      const std::string_view space = i == 0 && scheme_ != PrependScheme::never ? "" : " ";
      std::string result;
      const std::string& piece = pieces[i];
      for (std::size_t at = 0; at <= piece.size();) {
        const std::size_t found = std::min(piece.find(replacement_, at), piece.size());
        result.append(piece, at, found - at);
        if (found < piece.size()) result += space;
        at = found == piece.size() ? found + 1 : found + replacement_.size();
      }
      pieces[i] = std::move(result);
    }
  }

 private:
  std::string replacement_;
  PrependScheme scheme_;
};

// Strips up to this many characters from each end of each piece.
class StripDecoder : public PieceDecoder {
 public:
  StripDecoder(std::string character, std::size_t start, std::size_t stop)
      : character_(std::move(character)), start_(start), stop_(stop) {}
  void apply(std::vector<std::string>& pieces) const override {
    const std::size_t size = character_.size();
    for (std::string& piece : pieces) {
      std::size_t begin = 0, end = piece.size();
      for (std::size_t i = 0; i < start_ && piece.compare(begin, size, character_) == 0; ++i) begin += size;
      for (std::size_t i = 0; i < stop_ && end >= begin + size && piece.compare(end - size, size, character_) == 0; ++i)
        end -= size;
      piece = piece.substr(begin, end - begin);
    }
  }

 private:
  std::string character_;
  std::size_t start_, stop_;
};

class ReplaceDecoder : public PieceDecoder {
 public:
  explicit ReplaceDecoder(std::vector<std::unique_ptr<TextNormalizer>> replace) : replace_(std::move(replace)) {}
  void apply(std::vector<std::string>& pieces) const override {
    NormalizedText text;
    for (std::string& piece : pieces) {
      if (piece.empty()) continue;
      text.front = {};
      text.text.swap(piece);
      replace_[0]->apply(text);
      text.text.swap(piece);
    }
  }

 private:
  std::vector<std::unique_ptr<TextNormalizer>> replace_;  // a single one: the normalizer of the same form
};

// The suffix of a word's last piece becomes a space, except at the end of the text.
class BpeDecoder : public PieceDecoder {
 public:
  explicit BpeDecoder(std::string suffix) : suffix_(std::move(suffix)) {}
  void apply(std::vector<std::string>& pieces) const override {
    for (std::size_t i = 0; i < pieces.size() && !suffix_.empty(); ++i)
      for (std::size_t at = pieces[i].find(suffix_); at != std::string::npos; at = pieces[i].find(suffix_, at + 1))
        pieces[i].replace(at, suffix_.size(), i + 1 < pieces.size() ? " " : "");
  }

 private:
  std::string suffix_;
};

std::unique_ptr<PieceDecoder> make_decoder_step(const Component& component) {
  const std::string& type = component.type();
  if (type == "ByteLevel") return std::make_unique<ByteLevelDecoder>();
  if (type == "ByteFallback") return std::make_unique<ByteFallbackDecoder>();
  if (type == "Fuse") return std::make_unique<FuseDecoder>();
  if (type == "Metaspace")
    return std::make_unique<MetaspaceDecoder>(to_utf8(component.character("replacement")), prepend_scheme(component));
  if (type == "Replace") return std::make_unique<ReplaceDecoder>(make_normalizers(component));
  if (type == "BPEDecoder") return std::make_unique<BpeDecoder>(component.text("suffix"));
  if (type == "Strip") {
    const auto count = [&](const char* key) { return static_cast<std::size_t>(component.integer(key, 0, 1'000'000)); };
    return std::make_unique<StripDecoder>(to_utf8(component.character("content")), count("start"), count("stop"));
  }
  component.fail_type("Sequence, ByteLevel, ByteFallback, Metaspace, BPEDecoder, Replace, Strip and Fuse");
}

}  // namespace

DecoderSteps make_decoders(const Component& component) {
  DecoderSteps steps;
  if (component.type() != "Sequence") {
    steps.push_back(make_decoder_step(component));
    return steps;
  }
  for (const Component& part : component.parts("decoders"))
    for (auto& step : make_decoders(part)) steps.push_back(std::move(step));
  return steps;
}

}  // namespace pipetrain
