// Files that may be compressed.
#pragma once

#include <filesystem>

#include "files/mapped_file.hpp"

namespace pipetrain {

// By the name's end: .gz (gzip) or .zst (Zstandard).
bool is_packed(const std::filesystem::path& path);
// The name without that end.
std::filesystem::path unpacked_name(const std::filesystem::path& path);

// The bytes of a file, or, where it is packed, what is packed in it: in a file without a name in TMPDIR (/tmp) that goes with
// the object. Places are those of the unpacked bytes. Takes up to 32 MB of memory beside the bytes. Throws Error(input) as
// MappedFile; where the file is damaged; and where TMPDIR has too little room.
MappedFile open_unpacked(const std::filesystem::path& path);

}  // namespace pipetrain
