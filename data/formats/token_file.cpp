#include "data/formats/token_file.hpp"

#include <fmt/format.h>

#include <array>
#include <bit>
#include <cstring>

#include "core/error.hpp"
#include "data/formats/mapped_tokens.hpp"

namespace pipetrain {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are little-endian");

constexpr std::array<char, 8> magic = {'P', 'I', 'P', 'E', 'T', 'O', 'K', 'S'};
constexpr std::uint32_t version = 1;

struct Header {
  std::array<char, 8> magic{};
  std::uint32_t version = 0, width = 0;
  std::uint64_t tokens = 0, documents = 0, vocabulary = 0;
  std::int64_t end_of_text = 0;
  std::uint64_t tokenizer = 0, content = 0;
  std::array<char, 56> zeros{};
  std::uint64_t header = 0;
};
static_assert(sizeof(Header) == 128);

std::uint64_t checksum_of(const Header& header) { return checksum(&header, offsetof(Header, header)); }

std::uint64_t padding_after(std::uint64_t bytes) { return (8 - bytes % 8) % 8; }

[[noreturn]] void fail_token_file(const std::filesystem::path& path, const std::string& what) {
  throw Error(ErrorKind::input, fmt::format("{}: {}", path.string(), what));
}

Header read_header(const MappedFile& file) {
  Header header;
  const std::string_view bytes = file.bytes();
  const auto& path = file.path();
  if (bytes.size() < sizeof header) fail_token_file(path, "is too short for a token file; write it again with tokenize");
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.magic != magic)
    fail_token_file(path, "does not begin with PIPETOKS: it is not a token file; write one with tokenize");
  if (header.version != version)
    fail_token_file(path,
                    fmt::format("is a token file of version {}; this build reads version {}; write it again with tokenize",
                                header.version, version));
  if (header.header != checksum_of(header))
    fail_token_file(path, "its header is damaged (wrong checksum); write it again with tokenize");
  if (header.width != 2 && header.width != 4)
    fail_token_file(path, fmt::format("its ids have {} bytes; 2 or 4 are read; write it again with tokenize", header.width));
  const std::uint64_t room = bytes.size() - sizeof header;
  if (header.tokens == 0 || header.tokens > room / header.width || header.documents > room / 8 || header.documents == 0)
    fail_token_file(path, "has fewer ids or documents than its header says; write it again with tokenize");
  const std::uint64_t ids = header.tokens * header.width;
  if (ids + padding_after(ids) + header.documents * 8 != room)
    fail_token_file(path, fmt::format("has {} bytes, but its header describes {}; write it again with tokenize", bytes.size(),
                                      sizeof header + ids + padding_after(ids) + header.documents * 8));
  return header;
}

}  // namespace

TokenFileWriter::TokenFileWriter(std::ostream& out, const About& about)
    : out_(out), about_(about), width_(about.vocabulary <= 65536 ? 2 : 4) {
  const Header empty;  // an unfinished file has no magic number
  out_.write(reinterpret_cast<const char*>(&empty), sizeof empty);
}

void TokenFileWriter::write(const void* data, std::size_t bytes) {
  out_.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
  content_.add(data, bytes);
}

void TokenFileWriter::add(std::span<const std::int32_t> ids, std::span<const std::size_t> document_ends) {
  for (const std::size_t end : document_ends) document_ends_.push_back(static_cast<std::uint64_t>(tokens_) + end);
  tokens_ += std::ssize(ids);
  if (width_ == 4) return write(ids.data(), ids.size_bytes());
  buffer_.resize(ids.size() * 2);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const auto id = static_cast<std::uint16_t>(ids[i]);
    std::memcpy(buffer_.data() + 2 * i, &id, 2);
  }
  write(buffer_.data(), buffer_.size());
}

void TokenFileWriter::finish() {
  constexpr std::array<char, 8> zeros{};
  write(zeros.data(), padding_after(static_cast<std::uint64_t>(tokens_) * static_cast<std::uint64_t>(width_)));
  write(document_ends_.data(), document_ends_.size() * sizeof document_ends_[0]);
  Header header;
  header.magic = magic;
  header.version = version;
  header.width = static_cast<std::uint32_t>(width_);
  header.tokens = static_cast<std::uint64_t>(tokens_);
  header.documents = document_ends_.size();
  header.vocabulary = static_cast<std::uint64_t>(about_.vocabulary);
  header.end_of_text = about_.end_of_text;
  header.tokenizer = about_.tokenizer;
  header.content = content_.value();
  header.header = checksum_of(header);
  out_.seekp(0);
  out_.write(reinterpret_cast<const char*>(&header), sizeof header);
}

std::unique_ptr<TokenStream> open_token_file(const std::filesystem::path& path, std::int64_t vocabulary) {
  auto file = std::make_unique<MappedFile>(path);
  const Header header = read_header(*file);
  const std::string_view content = file->bytes().substr(sizeof header);
  if (file->bytes().size() <= most_bytes_checked_at_once && checksum(content.data(), content.size()) != header.content)
    fail_token_file(path, "its ids are damaged (wrong checksum); write it again with tokenize");
  const std::uint64_t ids = header.tokens * header.width;
  const char* const ends = content.data() + ids + padding_after(ids);
  const auto end = [ends](std::int64_t document) {
    std::int64_t number;
    std::memcpy(&number, ends + 8 * document, sizeof number);
    return number;
  };
  return tokens_in_file(std::move(file),
                        {sizeof header, static_cast<std::int64_t>(header.tokens), static_cast<int>(header.width)}, vocabulary,
                        {static_cast<std::int64_t>(header.documents), end});
}

}  // namespace pipetrain
