// A checksum of numbers, as make_nf4.py computes it.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace pipetrain::test {

// Returns FNV-1a of 64 bits of the numbers' bytes, as hexadecimal text.
template <class T>
std::string fnv(std::span<const T> values) {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const std::byte byte : std::as_bytes(values)) hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return fmt::format("{:016x}", hash);
}
template <class T>
std::string fnv(const std::vector<T>& values) {
  return fnv(std::span<const T>(values));
}

}  // namespace pipetrain::test
