// Reading and writing whole files: every failure is an Error that names the file, of kind input but where a disk
// fails or has no room.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include "core/error.hpp"

namespace pipetrain {

// What a write that failed with `error` (errno) means: unavailable where the disk is full or fails, or a limit on the size of
// files is met, which is nobody's wrong input; else input.
ErrorKind kind_of_write_failure(int error) noexcept;

// What to do where a file cannot be read, or written, for the reason `error` (errno): "check the path".
const char* remedy_of_read_failure(int error) noexcept;
const char* remedy_of_write_failure(int error) noexcept;

// A file that cannot be written. The reason is a clause: "cannot be written: No space left on device; make room".
class WriteError : public Error {
 public:
  WriteError(ErrorKind kind, const std::filesystem::path& path, const std::string& reason);
  const std::filesystem::path& path() const noexcept { return path_; }
  const std::string& reason() const noexcept { return reason_; }

 private:
  std::filesystem::path path_;
  std::string reason_;
};

// A regular file open for reading; a pointer of Git LFS is refused. read_at is thread-safe. Movable.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::filesystem::path& path() const noexcept { return path_; }
  std::uint64_t size() const noexcept { return size_; }  // when it was opened
  void read_at(std::uint64_t offset, void* out, std::size_t bytes) const;

 private:
  std::filesystem::path path_;
  std::uint64_t size_ = 0;
  int descriptor_ = -1;
};

// The whole text of a file of at most `limit` bytes.
std::string read_text(const std::filesystem::path& path, std::size_t limit);

// A new file, written front to back. Not on disk for sure until sync() returned. Throws WriteError.
class OutputFile {
 public:
  explicit OutputFile(const std::filesystem::path& path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  // Claims space on the disk, so that a full one is found before hours of writing; does nothing where it cannot.
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
