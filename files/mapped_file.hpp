// Gives access to a file's bytes without reading a large file into memory.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace pipetrain {

// Read-only bytes of a regular file: mapped, or copied if the file is small (a folder may hold more files than the
// system allows maps). Thread-safe to read.
class MappedFile {
 public:
  // Throws Error(input) naming `path` if it is missing, not a regular file, unreadable, empty, or a Git LFS pointer.
  explicit MappedFile(std::filesystem::path path);
  // Maps the file of an open descriptor, which may be closed afterwards; `path` is its name in errors.
  MappedFile(std::filesystem::path path, int descriptor);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::string_view bytes() const { return bytes_; }
  // Announces random reads, for which the system fetches no more than is read. Before the call it reads ahead, as suits
  // a scan.
  void expect_random_reads() const;
  // Returns a part of the bytes, brought into memory in one go even if reads are expected to be random.
  std::string_view fetch(std::size_t first, std::size_t size) const;
  // Returns "rows.jsonl:17" for the line that holds this byte; lines count from 1. Takes time proportional to `offset`.
  std::string where(std::int64_t offset) const;

 private:
  void read_or_map(int fd);

  std::filesystem::path path_;
  std::string copy_;
  void* map_ = nullptr;
  std::string_view bytes_;
};

}  // namespace pipetrain
