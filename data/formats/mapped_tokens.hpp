// Token ids read where they lie in a file. Internal to data/.
#pragma once

#include <functional>
#include <memory>

#include "data/samples/documents.hpp"
#include "files/mapped_file.hpp"

namespace pipetrain {

// Where the ids lie in a file: little-endian unsigned integers.
struct TokenRange {
  std::size_t begin = 0;   // in bytes
  std::int64_t count = 0;  // of ids, at least 1
  int width = 2;           // bytes of each, 2 or 4
};

// Where the documents of such a file end, counted in ids; unknown without `end`.
struct DocumentEnds {
  std::int64_t count = 0;
  std::function<std::int64_t(std::int64_t document)> end;  // thread-safe
};

// Files of more bytes than this are not read as a whole before they are used.
inline constexpr std::size_t most_bytes_checked_at_once = std::size_t{1} << 30;

// The range must lie in the file. Every id is checked to be below the vocabulary: here, or in a file of more than
// most_bytes_checked_at_once whenever it is read. Throws Error(input) that names the file and the id's place.
std::unique_ptr<TokenStream> tokens_in_file(std::unique_ptr<MappedFile> file, const TokenRange& range, std::int64_t vocabulary,
                                            DocumentEnds ends = {});

}  // namespace pipetrain
