// Reads token ids in place from a mapped file. Internal to data/.
#pragma once

#include <functional>
#include <memory>

#include "data/samples/documents.hpp"
#include "files/mapped_file.hpp"

namespace pipetrain {

// The location of the ids in a file: little-endian unsigned integers.
struct TokenRange {
  std::size_t begin = 0;   // offset in bytes
  std::int64_t count = 0;  // number of ids, at least 1
  int width = 2;           // bytes of an id, 2 or 4
};

// The ends of the file's documents, counted in ids; unknown if `end` is empty.
struct DocumentEnds {
  std::int64_t count = 0;
  std::function<std::int64_t(std::int64_t document)> end;  // thread-safe
};

// Larger files are not read as a whole before they are used.
inline constexpr std::size_t most_bytes_checked_at_once = std::size_t{1} << 30;

// The range must lie in the file. Every id is checked to be below the vocabulary: here, or, in a file of more than
// most_bytes_checked_at_once, whenever it is read. Throws Error(input) that names the file and the id's position.
std::unique_ptr<TokenStream> tokens_in_file(std::unique_ptr<MappedFile> file, const TokenRange& range, std::int64_t vocabulary,
                                            DocumentEnds ends = {});

}  // namespace pipetrain
