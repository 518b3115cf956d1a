#include "files/mapped_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "core/error.hpp"
#include "files/file_io.hpp"
#include "files/git_lfs.hpp"

namespace pipetrain {

namespace {

constexpr std::size_t copied_below = 256 * 1024;

struct Descriptor {
  int fd;
  ~Descriptor() {
    if (fd >= 0) ::close(fd);
  }
};

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& why) {
  throw Error(ErrorKind::input, fmt::format("{}: {}", path.string(), why));
}

std::string read_all(int fd, std::size_t size, const std::filesystem::path& path) {
  std::string text(size, '\0');
  std::size_t done = 0;
  while (done < size) {
    const ssize_t got = ::pread(fd, text.data() + done, size - done, static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail(path, fmt::format("cannot be read ({}); {}", std::strerror(errno), remedy_of_read_failure(errno)));
    if (got == 0) fail(path, "became shorter while it was read; keep other programs from writing to it");
    done += static_cast<std::size_t>(got);
  }
  return text;
}

}  // namespace

MappedFile::MappedFile(std::filesystem::path path) : path_(std::move(path)) {
  const Descriptor file{::open(path_.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)};
  if (file.fd < 0) fail(path_, fmt::format("cannot be opened ({}); {}", std::strerror(errno), remedy_of_read_failure(errno)));
  read_or_map(file.fd);
}

MappedFile::MappedFile(std::filesystem::path path, int descriptor) : path_(std::move(path)) { read_or_map(descriptor); }

void MappedFile::read_or_map(int fd) {
  struct stat info {};
  if (::fstat(fd, &info) != 0)
    fail(path_, fmt::format("cannot be examined ({}); {}", std::strerror(errno), remedy_of_read_failure(errno)));
  if (!S_ISREG(info.st_mode)) fail(path_, "is not a regular file; data is read from files, not from pipes or devices");
  const auto size = static_cast<std::size_t>(info.st_size);
  if (size == 0) fail(path_, "is empty; give a file with data in it");
  refuse_git_lfs_pointer(fd, size, path_);
  if (size < copied_below) {
    copy_ = read_all(fd, size, path_);
    bytes_ = copy_;
    return;
  }
  map_ = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd, 0);
  if (map_ == MAP_FAILED) {
    map_ = nullptr;
    fail(path_, fmt::format("cannot be mapped into memory ({}); raise ulimit -v, or give smaller files", std::strerror(errno)));
  }
  bytes_ = {static_cast<const char*>(map_), size};
}

MappedFile::~MappedFile() {
  if (map_) ::munmap(map_, bytes_.size());
}

void MappedFile::expect_random_reads() const {
  if (map_) ::madvise(map_, bytes_.size(), MADV_RANDOM);  // only advice, which the system may ignore
}

std::string_view MappedFile::fetch(std::size_t first, std::size_t size) const {
  const std::string_view part = bytes_.substr(first, size);
  static const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const std::size_t before = first % page;  // the map itself starts at a page
  if (map_) ::madvise(static_cast<char*>(map_) + first - before, before + part.size(), MADV_WILLNEED);  // advice, as above
  return part;
}

std::string MappedFile::where(std::int64_t offset) const {
  return fmt::format("{}:{}", path_.string(), 1 + std::count(bytes_.begin(), bytes_.begin() + offset, '\n'));
}

}  // namespace pipetrain
