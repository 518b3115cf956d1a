// A file of fixed length for numbers that a run moves in and out of memory. Its I/O is direct, past the page cache, and
// keeps many requests in flight (io_uring). It has no name, so it is deleted with the object, and with the process,
// however that ends.
#pragma once

#include <cstddef>
#include <filesystem>
#include <memory>

namespace pipetrain {

// read() and write() may run at the same time on different bytes, each on one thread at a time. Offsets, lengths and
// memory must be multiples of `alignment`. They return when the disk is done, and throw Error naming the folder: of
// kind unavailable if the disk is full or fails. Failed writes throw WriteError (files/file_io.hpp).
class DirectFile {
 public:
  static constexpr std::size_t alignment = 4096;

  // Reserves the bytes on the disk; they read as zeros. Throws WriteError: of kind input if the folder does not exist,
  // cannot be written, or is on a file system without direct I/O; of kind unavailable if the disk has too little room
  // or the kernel refuses io_uring.
  DirectFile(const std::filesystem::path& folder, std::size_t bytes);
  ~DirectFile();
  DirectFile(const DirectFile&) = delete;
  DirectFile& operator=(const DirectFile&) = delete;

  const std::filesystem::path& folder() const { return folder_; }
  std::size_t bytes() const { return bytes_; }
  void read(std::size_t begin, void* target, std::size_t bytes);
  void write(std::size_t begin, const void* source, std::size_t bytes);

 private:
  class Requests;

  std::filesystem::path folder_;
  std::size_t bytes_;
  int descriptor_ = -1;
  std::unique_ptr<Requests> reads_, writes_;
};

// Returns the free bytes for this user on the folder's disk. Throws WriteError of kind input if the folder does not exist.
std::size_t free_disk_bytes(const std::filesystem::path& folder);

}  // namespace pipetrain
