#include "data/samples/documents.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "files/text_encoding.hpp"
#include "files/unpacked_file.hpp"

namespace pipetrain {

namespace {

// Returns the offset of the first byte that is not a token of the vocabulary, or npos. With 256 ids or more every byte
// is a token, and no file is scanned.
std::size_t first_unknown_byte(std::string_view text, std::int64_t vocabulary) {
  if (vocabulary >= 256) return std::string_view::npos;
  const auto unknown =
      std::find_if(text.begin(), text.end(), [&](char c) { return static_cast<unsigned char>(c) >= vocabulary; });
  return unknown == text.end() ? std::string_view::npos : static_cast<std::size_t>(unknown - text.begin());
}

[[noreturn]] void fail_unknown_byte(const std::string& where, char byte, std::int64_t vocabulary) {
  throw Error(ErrorKind::input,
              fmt::format("{}: the byte {} is not below the vocabulary of {}; text is read as bytes, so take a model with a "
                          "vocabulary of 256 or more",
                          where, static_cast<unsigned char>(byte), vocabulary));
}

void copy_bytes(std::string_view text, std::int64_t first, std::span<std::int32_t> tokens) {
  const std::string_view part = text.substr(static_cast<std::size_t>(first), tokens.size());
  std::transform(part.begin(), part.end(), tokens.begin(), [](char c) { return static_cast<unsigned char>(c); });
}

class TextFile : public TokenStream {
 public:
  TextFile(const std::filesystem::path& path, std::int64_t vocabulary) : file_(open_unpacked(path)) {
    refuse_utf16(file_.bytes(), path.string());
    const std::size_t unknown = first_unknown_byte(file_.bytes(), vocabulary);
    if (unknown != std::string_view::npos)
      fail_unknown_byte(file_.where(static_cast<std::int64_t>(unknown)), file_.bytes()[unknown], vocabulary);
    file_.expect_random_reads();
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(file_.bytes().size()); }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override { copy_bytes(file_.bytes(), first, tokens); }
  std::uint64_t content(std::int64_t stride) const override {
    return content_of_blocks(size(), stride, [this](std::int64_t first, std::int64_t bytes) {
      return file_.fetch(static_cast<std::size_t>(first), static_cast<std::size_t>(bytes));
    });
  }

 private:
  MappedFile file_;
};

class TextInMemory : public TokenStream {
 public:
  TextInMemory(std::string_view text, std::string_view name, std::int64_t vocabulary) : text_(text) {
    const std::size_t unknown = first_unknown_byte(text, vocabulary);
    if (unknown != std::string_view::npos) fail_unknown_byte(std::string(name), text[unknown], vocabulary);
  }
  std::int64_t size() const override { return static_cast<std::int64_t>(text_.size()); }
  void read(std::int64_t first, std::span<std::int32_t> tokens) const override { copy_bytes(text_, first, tokens); }
  std::uint64_t content(std::int64_t) const override { return checksum(text_.data(), text_.size()); }

 private:
  std::string_view text_;
};

}  // namespace

std::int32_t end_of_document(std::int64_t vocabulary) { return vocabulary > 256 ? 256 : '\n'; }

std::unique_ptr<TokenStream> open_text_file(const std::filesystem::path& path, std::int64_t vocabulary) {
  return std::make_unique<TextFile>(path, vocabulary);
}

std::unique_ptr<TokenStream> text_in_memory(std::string_view text, std::string_view name, std::int64_t vocabulary) {
  return std::make_unique<TextInMemory>(text, name, vocabulary);
}

}  // namespace pipetrain
