// An unnamed file for unpacked data.
#pragma once

#include <cstddef>
#include <filesystem>

namespace pipetrain {

// In TMPDIR (/tmp), to write to and then to map; it is deleted with its last descriptor and map. Not thread-safe.
class UnnamedFile {
 public:
  // `packed` is the file that is unpacked into it, for errors. Throws Error(input), as write() does, if TMPDIR has no room.
  explicit UnnamedFile(const std::filesystem::path& packed);
  ~UnnamedFile();
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;

  int descriptor() const { return fd_; }
  void write(const char* data, std::size_t size);

 private:
  [[noreturn]] void fail_write() const;

  std::filesystem::path packed_, folder_;
  int fd_ = -1;
};

}  // namespace pipetrain
