#include "data/tokenizers/models/merge_table.hpp"

#include <utility>

namespace pipetrain {

void MergeTable::grow() {
  const std::vector<Entry> old = std::exchange(entries_, std::vector<Entry>(entries_.size() * 2));
  for (const Entry& entry : old)
    if (entry.rule.id >= 0) entries_[place_of(entry.key)] = entry;
}

}  // namespace pipetrain
