#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <utility>

#include "core/tensor.hpp"

namespace pipetrain {

// Every tensor starts at a multiple of this many bytes: results may depend on alignment inside vector kernels and libraries.
constexpr std::size_t tensor_alignment = 256;

constexpr std::size_t align_up(std::size_t bytes) noexcept {
  return (bytes + tensor_alignment - 1) / tensor_alignment * tensor_alignment;
}

// Owns a block of one device's memory, aligned to tensor_alignment. Movable. Free it only when no stream uses it any more.
class Buffer {
 public:
  Buffer() = default;
  Buffer(void* data, std::size_t bytes, std::function<void(void*)> release)
      : data_(data), bytes_(bytes), release_(std::move(release)) {}
  Buffer(Buffer&& other) noexcept { swap(other); }
  Buffer& operator=(Buffer&& other) noexcept {
    Buffer moved(std::move(other));
    swap(moved);
    return *this;
  }
  ~Buffer() {
    if (data_ != nullptr) release_(data_);
  }

  void* data() const noexcept { return data_; }
  std::size_t bytes() const noexcept { return bytes_; }

 private:
  void swap(Buffer& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    release_.swap(other.release_);
  }

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::function<void(void*)> release_;
};

// Hands out tensors from one block of memory by bumping an offset. Not thread-safe.
//
// A measuring arena has no memory: it gives tensors without data and only counts, so that the code that will run
// determines beforehand how many bytes it needs.
class Arena {
 public:
  static Arena measuring() { return Arena(); }
  Arena(void* data, std::size_t bytes, std::string name) : data_(data), bytes_(bytes), name_(std::move(name)) {}

  bool is_measuring() const noexcept { return data_ == nullptr; }
  // Uninitialised memory. Throws Error(out_of_memory) naming the arena when it is full.
  Tensor allocate(const Shape& shape, DType dtype);

  std::size_t used() const noexcept { return used_; }
  std::size_t peak() const noexcept { return peak_; }
  // Frees everything allocated since used() returned `mark`. In-order streams make reuse safe.
  void rewind(std::size_t mark) noexcept { used_ = mark; }

 private:
  Arena() = default;

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t used_ = 0;
  std::size_t peak_ = 0;
  std::string name_ = "measuring";
};

// Rewinds an arena at the end of a scope.
class ArenaScope {
 public:
  explicit ArenaScope(Arena& arena) : arena_(arena), mark_(arena.used()) {}
  ~ArenaScope() { arena_.rewind(mark_); }
  ArenaScope(const ArenaScope&) = delete;
  ArenaScope& operator=(const ArenaScope&) = delete;

 private:
  Arena& arena_;
  std::size_t mark_;
};

}  // namespace pipetrain
