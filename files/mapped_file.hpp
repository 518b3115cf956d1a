// A file's bytes, without reading a large one into memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace pipetrain {

// Read-only bytes of a regular file: mapped, or copied when the file is small (a folder may hold more files than the system
// allows maps). Thread-safe to read.
class MappedFile {
 public:
  // Throws Error(input) naming `path` when it is missing, no regular file, unreadable, empty, or a
  // pointer of Git LFS.
  explicit MappedFile(std::filesystem::path path);
  // The file behind an open descriptor, which may be closed afterwards; `path` is how errors name it.
  MappedFile(std::filesystem::path path, int descriptor);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string_view bytes() const { return bytes_; }
  // From now on reads jump about: the system fetches what is read and no more. Before, it reads ahead, as a scan wants it.
  void expect_random_reads() const;
  // A part of them, brought into memory in one go also where reads are expected to be random.
  std::string_view fetch(std::size_t first, std::size_t size) const;
  // "rows.jsonl:17" for the line that holds this byte; lines count from 1. Takes time proportional to `offset`.
  std::string where(std::int64_t offset) const;

 private:
  void read_or_map(int fd);

  std::filesystem::path path_;
  std::string copy_;
  void* map_ = nullptr;
  std::string_view bytes_;
};

}  // namespace pipetrain
