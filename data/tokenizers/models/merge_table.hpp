// Says which pairs of pieces are merged, and in which order. Internal to data/.
#pragma once

#include <cstdint>
#include <vector>

namespace pipetrain {

// Reading is thread-safe. A hash table with open addressing.
class MergeTable {
 public:
  struct Rule {
    std::uint32_t rank = 0;  // the lowest is merged first
    std::int32_t id = -1;    // of the merged piece; -1: not merged
  };

  MergeTable() : entries_(64) {}

  // Replaces an earlier rule of the pair.
  void add(std::int32_t left, std::int32_t right, Rule rule) {
    if (2 * ++used_ > entries_.size()) grow();
    Entry& entry = entries_[place_of(key_of(left, right))];
    if (entry.rule.id >= 0) --used_;
    entry = {key_of(left, right), rule};
  }
  Rule find(std::int32_t left, std::int32_t right) const { return entries_[place_of(key_of(left, right))].rule; }

 private:
  struct Entry {
    std::uint64_t key = 0;
    Rule rule;
  };
  static std::uint64_t key_of(std::int32_t left, std::int32_t right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 | static_cast<std::uint32_t>(right);
  }
  std::size_t place_of(std::uint64_t key) const {
    std::uint64_t hash = (key ^ key >> 29) * 0x9E3779B97F4A7C15U;
    hash ^= hash >> 32;
    std::size_t place = hash & (entries_.size() - 1);
    while (entries_[place].rule.id >= 0 && entries_[place].key != key) place = (place + 1) & (entries_.size() - 1);
    return place;
  }
  void grow();

  std::vector<Entry> entries_;
  std::size_t used_ = 0;
};

}  // namespace pipetrain
