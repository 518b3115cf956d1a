#pragma once

#include <unistd.h>

#include <utility>

namespace pipetrain {

// Owns a file descriptor, or none (below 0), and closes it. Movable.
class FileDescriptor {
 public:
  explicit FileDescriptor(int number = -1) : number_(number) {}
  FileDescriptor(FileDescriptor&& other) noexcept : number_(other.release()) {}
  FileDescriptor& operator=(FileDescriptor&& other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~FileDescriptor() { close(); }

  int get() const { return number_; }
  int release() { return std::exchange(number_, -1); }
  void close() noexcept {
    if (number_ >= 0) ::close(release());
  }

 private:
  int number_;
};

}  // namespace pipetrain
