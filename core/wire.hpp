// Encodes plain data as bytes, for messages between processes: little-endian, floats as their bits, lengths before
// contents. A reader never reads past its bytes and never allocates more than they could hold, whatever they claim.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace pipetrain {

static_assert(std::endian::native == std::endian::little, "messages are little-endian in memory too");

using Bytes = std::vector<std::byte>;

template <class T>
concept WireNumber = (std::is_arithmetic_v<T> || std::is_enum_v<T>)&&!std::same_as<T, bool>;

// Not thread-safe.
class WireWriter {
 public:
  template <WireNumber T>
  void number(T value) {
    raw(&value, sizeof value);
  }
  void flag(bool value) { number(static_cast<std::uint8_t>(value ? 1 : 0)); }
  void text(std::string_view value) {
    number(static_cast<std::uint32_t>(value.size()));
    raw(value.data(), value.size());
  }
  void bytes(std::span<const std::byte> value) {
    number(static_cast<std::uint32_t>(value.size()));
    raw(value.data(), value.size());
  }
  // each(element) writes one element.
  template <class Range, class Each>
  void list(const Range& range, Each each) {
    number(static_cast<std::uint32_t>(range.size()));
    for (const auto& element : range) each(element);
  }

  const Bytes& data() const& { return data_; }
  Bytes data() && { return std::move(data_); }

 private:
  void raw(const void* from, std::size_t size) {
    const std::size_t at = data_.size();
    data_.resize(at + size);
    if (size > 0) std::memcpy(data_.data() + at, from, size);
  }

  Bytes data_;
};

// Throws Error(peer_lost) for bytes that end too early or hold impossible values: it does not trust their sender. The
// bytes must outlive the reader. Not thread-safe.
class WireReader {
 public:
  explicit WireReader(std::span<const std::byte> data) : rest_(data) {}

  template <WireNumber T>
  T number() {
    T value;
    std::memcpy(&value, take(sizeof value).data(), sizeof value);
    return value;
  }
  // Reads an enumerator up to `last`; refuses negative and larger values.
  template <class Enum>
  requires std::is_enum_v<Enum> Enum choice(Enum last) {
    const auto value = number<std::underlying_type_t<Enum>>();
    if (value < 0 || value > static_cast<std::underlying_type_t<Enum>>(last)) refuse("a value that does not exist");
    return static_cast<Enum>(value);
  }
  bool flag() {
    const auto value = number<std::uint8_t>();
    if (value > 1) refuse("a flag that is neither true nor false");
    return value == 1;
  }
  std::string text() {
    const auto part = take(number<std::uint32_t>());
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }
  std::span<const std::byte> bytes() { return take(number<std::uint32_t>()); }
  // Reads the number of following elements, each of at least `least_bytes` (> 0).
  std::size_t count(std::size_t least_bytes) {
    const std::size_t elements = number<std::uint32_t>();
    if (elements > rest_.size() / least_bytes) refuse("more elements than bytes");
    return elements;
  }

  std::size_t left() const { return rest_.size(); }
  // Throws when any bytes are left.
  void end() const {
    if (!rest_.empty()) refuse("more bytes than it should");
  }
  [[noreturn]] static void refuse(const char* what);

 private:
  std::span<const std::byte> take(std::size_t size) {
    if (size > rest_.size()) refuse("fewer bytes than it claims");
    const auto part = rest_.first(size);
    rest_ = rest_.subspan(size);
    return part;
  }

  std::span<const std::byte> rest_;
};

}  // namespace pipetrain
