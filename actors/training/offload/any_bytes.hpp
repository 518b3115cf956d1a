// Reads and writes a DirectFile at any position and length.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "files/direct_file.hpp"

namespace pipetrain {

// Uses a buffer of its own. Thread-safe: calls run one after the other. Nothing else may use the file meanwhile.
class AnyBytes {
 public:
  explicit AnyBytes(DirectFile& file);

  void read(std::size_t begin, void* target, std::size_t bytes);
  void write(std::size_t begin, const void* source, std::size_t bytes);

 private:
  DirectFile& file_;
  std::mutex mutex_;
  std::unique_ptr<char, decltype(&std::free)> bounce_;
};

}  // namespace pipetrain
