// Detects pointers of Git LFS, which replace large files in a clone until they are downloaded
// (github.com/git-lfs/git-lfs/blob/main/docs/spec.md).
#pragma once

#include <cstdint>
#include <filesystem>

namespace pipetrain {

// Throws Error(input) naming the file if an open file of `size` bytes is such a pointer; leaves the descriptor open.
void refuse_git_lfs_pointer(int descriptor, std::uint64_t size, const std::filesystem::path& path);

}  // namespace pipetrain
