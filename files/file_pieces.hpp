// Reads a large file as a text in pieces, for readers that need not hold all of it in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace pipetrain {

class InputFile;

// Returns bytes [begin, begin + bytes) of the file, which must outlive the function, in pieces of up to 256 KB: each
// call returns the next piece, valid until the next call, and empty ones at the end.
std::function<std::string_view()> pieces_of(const InputFile& file, std::uint64_t begin, std::uint64_t bytes);

}  // namespace pipetrain
