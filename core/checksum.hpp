// Checksums that detect damaged or changed data: XXH3, 64 bits (github.com/Cyan4973/xxHash), whose values are
// the same on every machine and in every version of the library from 0.8 on. They do not protect against intended changes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

namespace pipetrain {

std::uint64_t checksum(const void* data, std::size_t bytes);

// The checksum of data that is added in parts; the division into parts does not matter.
class Checksum {
 public:
  Checksum();
  ~Checksum();
  Checksum(Checksum&&) noexcept;
  Checksum& operator=(Checksum&&) noexcept;

  void add(const void* data, std::size_t bytes);
  void add(std::uint64_t number) { add(&number, sizeof number); }
  std::uint64_t value() const;  // of all data added so far

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace pipetrain
