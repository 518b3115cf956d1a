#include "files/unnamed_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>

#include "core/error.hpp"

namespace pipetrain {

UnnamedFile::UnnamedFile(const std::filesystem::path& packed) : packed_(packed) {
  const char* given = std::getenv("TMPDIR");
  folder_ = given != nullptr && *given != '\0' ? given : "/tmp";
  fd_ = ::open(folder_.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
  if (fd_ >= 0) return;
  std::string name = (folder_ / "pipetrain-XXXXXX").string();  // if the file system does not support unnamed files
  fd_ = ::mkostemp(name.data(), O_CLOEXEC);
  if (fd_ < 0) fail_write();
  ::unlink(name.c_str());
}

UnnamedFile::~UnnamedFile() { ::close(fd_); }

void UnnamedFile::write(const char* data, std::size_t size) {
  while (size > 0) {
    const ssize_t written = ::write(fd_, data, size);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) fail_write();
    data += written;
    size -= static_cast<std::size_t>(written);
  }
}

void UnnamedFile::fail_write() const {
  throw Error(ErrorKind::input, fmt::format("{}: cannot be unpacked into {} ({}); set TMPDIR to a folder with room for it",
                                            packed_.string(), folder_.string(), std::strerror(errno)));
}

}  // namespace pipetrain
