#include "files/git_lfs.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <string_view>

#include "core/error.hpp"

namespace pipetrain {
namespace {

constexpr std::uint64_t largest_pointer = 1024;  // bytes; the specification makes pointers smaller
constexpr std::string_view pointer_begin = "version https://git-lfs";

}  // namespace

void refuse_git_lfs_pointer(int descriptor, std::uint64_t size, const std::filesystem::path& path) {
  if (size >= largest_pointer || size < pointer_begin.size()) return;
  std::array<char, pointer_begin.size()> begin{};
  // If it fails, the reader of the file reports why.
  const ssize_t got = ::pread(descriptor, begin.data(), begin.size(), 0);
  if (got != static_cast<ssize_t>(begin.size()) || std::string_view(begin.data(), begin.size()) != pointer_begin) return;
  throw Error(ErrorKind::input, fmt::format("{}: is a Git LFS pointer, not the file itself, which has not been downloaded; run "
                                            "git lfs pull in its repository",
                                            path.string()));
}

}  // namespace pipetrain
