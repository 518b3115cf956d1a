// A cache of the ids of words, because words repeat. Internal to data/.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace pipetrain {

// Keeps one word for each hash value: a new word replaces the one before it. Takes 2 MB; not thread-safe.
class WordCache {
 public:
  WordCache() : entries_(places) {}

  static bool takes(std::string_view word) { return word.size() <= most_bytes; }

  // Returns the ids of a cached word; empty if it is not cached.
  std::span<const std::int32_t> find(std::string_view word) const {
    const Entry& entry = entries_[place_of(word)];
    if (entry.size != word.size() || std::memcmp(entry.word.data(), word.data(), word.size()) != 0) return {};
    return {entry.ids.data(), entry.count};
  }

  void put(std::string_view word, std::span<const std::int32_t> ids) {
    if (ids.empty() || ids.size() > most_ids) return;
    Entry& entry = entries_[place_of(word)];
    entry.size = static_cast<std::uint8_t>(word.size());
    entry.count = static_cast<std::uint8_t>(ids.size());
    std::memcpy(entry.word.data(), word.data(), word.size());
    std::memcpy(entry.ids.data(), ids.data(), ids.size_bytes());
  }

 private:
  static constexpr std::size_t places = 1 << 15, most_bytes = 22, most_ids = 10;
  struct Entry {
    std::uint8_t size = 255, count = 0;
    std::array<char, most_bytes> word{};
    std::array<std::int32_t, most_ids> ids{};
  };
  static_assert(sizeof(Entry) == 64);

  static std::size_t place_of(std::string_view word) {
    std::array<std::uint64_t, 3> parts{};
    std::memcpy(parts.data(), word.data(), word.size());
    std::uint64_t hash = (parts[0] ^ word.size()) * 0x9E3779B97F4A7C15U;
    hash = (hash ^ (hash >> 32) ^ parts[1]) * 0xC2B2AE3D27D4EB4FU;
    hash = (hash ^ (hash >> 29) ^ parts[2]) * 0x9E3779B97F4A7C15U;
    return hash >> (64 - 15);
  }

  std::vector<Entry> entries_;
};

}  // namespace pipetrain
