// Reads and writes whole files. Every failure is an Error that names the file, of kind input unless a disk fails or has
// no room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/error_kind.hpp"

namespace pipetrain {

// Returns the kind of a write failure for `error` (errno): unavailable if the disk is full or fails, or a limit on the
// size of files is reached, since no input is wrong then; else input.
ErrorKind kind_of_write_failure(int error) noexcept;

// Return what to do about a failed read, or write, as errors have it: "check the path". error: its errno.
const char* remedy_of_read_failure(int error) noexcept;
const char* remedy_of_write_failure(int error) noexcept;

// A regular file open for reading; a pointer of Git LFS is refused. read_at is thread-safe. Movable.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::filesystem::path& path() const noexcept { return path_; }
  std::uint64_t size() const noexcept { return size_; }  // as of when it was opened
  void read_at(std::uint64_t offset, void* out, std::size_t bytes) const;

 private:
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  int descriptor_ = -1;
};

// Returns the whole text of a file of at most `limit` bytes.
std::string read_text(const std::filesystem::path& path, std::size_t limit);

// A new file, written front to back. It is safely on disk only once sync() has returned. Throws WriteError.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // Reserves space on the disk, so that a full one is found before hours of writing; does nothing if the file system cannot.
  void reserve(std::uint64_t bytes);
  void write(const void* data, std::size_t bytes);
  void sync();

 private:
  std::filesystem::path path_;
  int descriptor_ = -1;
};

// Makes renames inside this folder durable.
void sync_folder(const std::filesystem::path& folder);

}  // namespace pipetrain
