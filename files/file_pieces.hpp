// A large file as a text in pieces, for readers that need not have it in memory as a whole.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace pipetrain {

class InputFile;

// Bytes [begin, begin + bytes) of the file, which must outlive it, in pieces of up to 256 KB: the next piece with each call,
// valid until the next call, then empty ones.
std::function<std::string_view()> pieces_of(const InputFile& file, std::uint64_t begin, std::uint64_t bytes);

}  // namespace pipetrain
