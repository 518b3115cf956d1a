#include "data/byte_tokenizer.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "data/samples/documents.hpp"

namespace pipetrain {
namespace {

class ByteEncoder : public TextEncoder {
 public:
  void encode(std::string_view text, SpecialTokens, std::vector<std::int32_t>& ids) override {
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  }
};

class ByteTokenizer : public Tokenizer {
 public:
  explicit ByteTokenizer(std::int64_t vocabulary) : end_(pipetrain::end_of_document(vocabulary)) {}

  std::int64_t vocabulary() const override { return std::max(end_ + 1, 256); }
  std::unique_ptr<TextEncoder> encoder() const override { return std::make_unique<ByteEncoder>(); }
  std::string decode(std::span<const std::int32_t> ids, SpecialTokens) const override {
    std::string text;
    for (const std::int32_t id : ids)
      if (id < 256) text += static_cast<char>(id);
    return text;
  }
  std::string piece(std::int32_t id) const override { return id < 256 ? std::string(1, static_cast<char>(id)) : ""; }
  std::optional<std::int32_t> find(std::string_view piece) const override {
    return piece.size() == 1 ? std::optional<std::int32_t>(static_cast<unsigned char>(piece[0])) : std::nullopt;
  }
  std::optional<std::int32_t> end_of_text() const override { return end_; }
  std::uint64_t content() const override { return static_cast<std::uint64_t>(end_); }

 private:
  std::int32_t end_;
};

}  // namespace

std::unique_ptr<Tokenizer> make_byte_tokenizer(std::int64_t vocabulary) {
  if (vocabulary < 256)
    throw Error(ErrorKind::input, fmt::format("a vocabulary of {} does not hold every byte; text is read as bytes, so take a "
                                              "model with a vocabulary of 256 or more, or give a tokenizer",
                                              vocabulary));
  return std::make_unique<ByteTokenizer>(vocabulary);
}

}  // namespace pipetrain
