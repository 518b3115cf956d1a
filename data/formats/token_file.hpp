// The project's own files of token ids: written by `tokenize`, mapped and read in place.
//
// Little-endian. 128 bytes of header: "PIPETOKS", u32 version 1, u32 bytes of an id (2 or 4), u64 ids, u64 documents,
// u64 vocabulary (every id is below), i64 the id that ends each document, u64 checksum of the tokenizer's files, u64
// checksum of the bytes after the header, zeros, and in the last 8 bytes a u64 checksum of the header before it. The
// header is followed by the ids, zeros up to a multiple of 8 bytes, and for each document a u64 number of ids up to its
// end. Checksums are those of core/checksum.hpp.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <ostream>
#include <span>
#include <vector>

#include "core/checksum.hpp"

namespace pipetrain {

class TokenStream;

// Writes such a file to a seekable stream. Uses 8 bytes of memory for each document. Not thread-safe.
class TokenFileWriter {
 public:
  struct About {
    std::int64_t vocabulary = 0;
    std::int32_t end_of_text = 0;
    std::uint64_t tokenizer = 0;  // Tokenizer::content()
  };
  // Writes two bytes an id if the vocabulary has at most 65,536 ids.
  TokenFileWriter(std::ostream& out, const About& about);

  // Appends documents: their ids, and the end of each document in `ids`.
  void add(std::span<const std::int32_t> ids, std::span<const std::size_t> document_ends);
  void finish();  // writes the document ends and the header

  std::int64_t tokens() const { return tokens_; }
  std::int64_t documents() const { return static_cast<std::int64_t>(document_ends_.size()); }

 private:
  void write(const void* data, std::size_t bytes);

  std::ostream& out_;
  About about_;
  int width_;
  std::int64_t tokens_ = 0;
  std::vector<std::uint64_t> document_ends_;
  std::vector<char> buffer_;
  Checksum content_;
};

// Throws Error(input) if the file is damaged or of another kind, or if an id is not below the vocabulary. In files of
// more than 1 GiB this checks the header, and ids are checked as they are read.
std::unique_ptr<TokenStream> open_token_file(const std::filesystem::path& path, std::int64_t vocabulary);

}  // namespace pipetrain
