// Reads files that may be compressed.
#pragma once

#include <filesystem>

#include "files/mapped_file.hpp"

namespace pipetrain {

// Decides by the end of the name: .gz (gzip) or .zst (Zstandard).
bool is_packed(const std::filesystem::path& path);
// Returns the name without that end.
std::filesystem::path unpacked_name(const std::filesystem::path& path);

// Returns the bytes of a file, unpacked if it is compressed: then in an unnamed file in TMPDIR (/tmp) that is deleted
// with the object. Offsets count unpacked bytes. Takes up to 32 MB of memory besides the bytes. Throws Error(input) as
// MappedFile does, for a damaged file, and if TMPDIR has too little room.
MappedFile open_unpacked(const std::filesystem::path& path);

}  // namespace pipetrain
