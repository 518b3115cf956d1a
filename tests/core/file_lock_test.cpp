// Locks on open files.
#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "catch.hpp"
#include "core/file_lock.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;

namespace {

struct OpenedFile {
  explicit OpenedFile(const std::filesystem::path& path) : descriptor(::open(path.c_str(), O_RDWR | O_CLOEXEC)) {}
  ~OpenedFile() { ::close(descriptor); }
  OpenedFile(const OpenedFile&) = delete;
  OpenedFile& operator=(const OpenedFile&) = delete;
  int descriptor;
};

}  // namespace

TEST_CASE("a lock holds until its descriptor is closed, whatever else opens the file") {
  const TempFolder folder;
  const auto path = folder.write("file", "text");
  {
    const OpenedFile first(path), second(path);
    CHECK(lock_file(first.descriptor) == FileLock::held);
    CHECK(lock_file(second.descriptor) == FileLock::held_by_another);
    { const OpenedFile third(path); }
    CHECK(lock_file(second.descriptor) == FileLock::held_by_another);
  }
  const OpenedFile later(path);
  CHECK(lock_file(later.descriptor) == FileLock::held);
}

TEST_CASE("a file that was replaced, removed or is linked to is not at its path") {
  const TempFolder folder;
  const auto path = folder.write("file", "old");
  const OpenedFile file(path);
  CHECK(is_at_path(file.descriptor, path.c_str()));
  const auto other = folder.write("other", "new");
  std::filesystem::create_symlink(path, folder.path() / "link");
  CHECK_FALSE(is_at_path(file.descriptor, (folder.path() / "link").c_str()));
  std::filesystem::rename(other, path);
  CHECK_FALSE(is_at_path(file.descriptor, path.c_str()));
  std::filesystem::remove(path);
  CHECK_FALSE(is_at_path(file.descriptor, path.c_str()));
}
