#include "files/file_io.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "core/error.hpp"
#include "files/file_pieces.hpp"
#include "files/git_lfs.hpp"
#include "files/write_error.hpp"

namespace pipetrain {
namespace {

[[noreturn]] void fail_read(const std::filesystem::path& path, int error) {
  throw Error(ErrorKind::input, fmt::format("{}: cannot be read: {}; {}", path.string(), std::generic_category().message(error),
                                            remedy_of_read_failure(error)));
}

[[noreturn]] void fail_write(const std::filesystem::path& path, int error) {
  throw WriteError(
      kind_of_write_failure(error), path,
      fmt::format("cannot be written: {}; {}", std::generic_category().message(error), remedy_of_write_failure(error)));
}

// A system call never moves more than this on Linux.
constexpr std::size_t most_bytes_a_call = std::size_t{1} << 30;

}  // namespace

ErrorKind kind_of_write_failure(int error) noexcept {
  // A disk or a server that may come back.
  if (error == EIO || error == ESTALE || error == ETIMEDOUT) return ErrorKind::peer_lost;
  return error == ENOSPC || error == EDQUOT || error == EFBIG ? ErrorKind::unavailable : ErrorKind::input;
}

const char* remedy_of_read_failure(int error) noexcept {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return "check the path";
    case EACCES:
    case EPERM:
      return "check its permissions, and those of its folder";
    case ELOOP:
      return "its links form a circle: correct them";
    case ENAMETOOLONG:
      return "give a shorter path";
    case EMFILE:
    case ENFILE:
      return "raise ulimit -n";
    case EIO:
      return "the disk fails: take a copy of the file";
    default:
      return "check the path, its permissions and the disk";
  }
}

const char* remedy_of_write_failure(int error) noexcept {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "make room, or save to another disk";
    case EFBIG:
      return "raise ulimit -f, or save to another disk";
    case EIO:
      return "the disk fails: save to another one";
    case EACCES:
    case EPERM:
      return "check the permissions of its folder, or give another path";
    case EMFILE:
    case ENFILE:
    case ELOOP:
    case ENAMETOOLONG:
      return remedy_of_read_failure(error);
    default:
      return "check the path, or give another one";
  }
}

WriteError::WriteError(ErrorKind kind, const std::filesystem::path& path, const std::string& reason)
    : Error(kind, fmt::format("{}: {}", path.string(), reason)), path_(path), reason_(reason) {}

InputFile::InputFile(const std::filesystem::path& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);  // a FIFO must not block
  if (descriptor_ < 0) fail_read(path, errno);
  struct stat status {};
  if (::fstat(descriptor_, &status) != 0 || !S_ISREG(status.st_mode)) {
    ::close(descriptor_);
    throw Error(
        ErrorKind::input,
        fmt::format("{}: cannot be read: not a regular file; give a file, not a folder, a pipe or a device", path.string()));
  }
  size_ = static_cast<std::uint64_t>(status.st_size);
  try {
    refuse_git_lfs_pointer(descriptor_, size_, path_);
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)), size_(other.size_), descriptor_(std::exchange(other.descriptor_, -1)) {}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void InputFile::read_at(std::uint64_t offset, void* out, std::size_t bytes) const {
  char* target = static_cast<char*>(out);
  while (bytes > 0) {
    const ssize_t got = ::pread(descriptor_, target, std::min(bytes, most_bytes_a_call), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_read(path_, errno);
    if (got == 0)
      throw Error(ErrorKind::input,
                  fmt::format("{}: became shorter while it was read; keep other programs from writing to it", path_.string()));
    target += got;
    offset += static_cast<std::uint64_t>(got);
    bytes -= static_cast<std::size_t>(got);
  }
}

std::function<std::string_view()> pieces_of(const InputFile& file, std::uint64_t begin, std::uint64_t bytes) {
  static constexpr std::uint64_t most = std::uint64_t{256} << 10;
  return [&file, begin, bytes, piece = std::string()]() mutable -> std::string_view {
    piece.resize(static_cast<std::size_t>(std::min(bytes, most)));
    file.read_at(begin, piece.data(), piece.size());
    begin += piece.size();
    bytes -= piece.size();
    return piece;
  };
}

std::string read_text(const std::filesystem::path& path, std::size_t limit) {
  const InputFile file(path);
  if (file.size() > limit) {
    throw Error(ErrorKind::input, fmt::format("{}: {} bytes are more than the {} allowed; give the right file", path.string(),
                                              file.size(), limit));
  }
  std::string text(static_cast<std::size_t>(file.size()), '\0');
  file.read_at(0, text.data(), text.size());
  return text;
}

OutputFile::OutputFile(const std::filesystem::path& path) : path_(path) {
  descriptor_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (descriptor_ < 0) fail_write(path, errno);
}

OutputFile::~OutputFile() { ::close(descriptor_); }

void OutputFile::reserve(std::uint64_t bytes) {
  if (bytes == 0 || ::fallocate(descriptor_, FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes)) == 0) return;
  if (errno == ENOSPC || errno == EDQUOT || errno == EFBIG) fail_write(path_, errno);
}

void OutputFile::write(const void* data, std::size_t bytes) {
  const char* source = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::write(descriptor_, source, std::min(bytes, most_bytes_a_call));
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail_write(path_, errno);
    source += put;
    bytes -= static_cast<std::size_t>(put);
  }
}

void OutputFile::sync() {
  if (::fsync(descriptor_) != 0) fail_write(path_, errno);
}

void sync_folder(const std::filesystem::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (descriptor < 0) fail_write(folder, errno);
  const bool synced = ::fsync(descriptor) == 0 || errno == EINVAL;  // EINVAL: this file system has nothing to sync
  const int error = errno;
  ::close(descriptor);
  if (!synced) fail_write(folder, error);
}

}  // namespace pipetrain
