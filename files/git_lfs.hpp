// Pointers of Git LFS, which a clone has in the place of large files until they are downloaded.
// (github.com/git-lfs/git-lfs/blob/main/docs/spec.md)
#pragma once

#include <cstdint>
#include <filesystem>

namespace pipetrain {

// Throws Error(input) naming the file where an open file of `size` bytes is such a pointer; leaves the descriptor open.
void refuse_git_lfs_pointer(int descriptor, std::uint64_t size, const std::filesystem::path& path);

}  // namespace pipetrain
