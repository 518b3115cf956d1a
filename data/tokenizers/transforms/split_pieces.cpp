#include "data/tokenizers/transforms/split_pieces.hpp"

#include <algorithm>
#include <utility>

namespace pipetrain {
namespace {

// Joins each part to the previous one if join(part, previous, joined) returns true; joined: the previous one was.
template <class Join>
void join_to_previous(std::vector<SplitPart>& parts, const Join& join) {
  std::size_t kept = 0;
  bool match_before = false;
  for (const SplitPart& part : parts) {
    const bool joins = kept > 0 && join(part, match_before);
    match_before = part.is_match;
    if (joins) {
      parts[kept - 1].begin = std::min(parts[kept - 1].begin, part.begin);
      parts[kept - 1].end = std::max(parts[kept - 1].end, part.end);
    } else {
      parts[kept++] = part;
    }
  }
  parts.resize(kept);
}

}  // namespace

SplitBehavior split_behavior(const Component& component, const char* key) {
  const std::string name = component.text(key);
  static const std::pair<const char*, SplitBehavior> names[] = {{"Removed", SplitBehavior::removed},
                                                                {"Isolated", SplitBehavior::isolated},
                                                                {"MergedWithPrevious", SplitBehavior::merged_with_previous},
                                                                {"MergedWithNext", SplitBehavior::merged_with_next},
                                                                {"Contiguous", SplitBehavior::contiguous}};
  for (const auto& [known, behavior] : names)
    if (name == known) return behavior;
  component.fail("the behavior is not Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
}

void apply_behavior(SplitBehavior behavior, std::vector<SplitPart>& parts) {
  // Only the first of consecutive matches is joined to its neighbour.
  const auto first_match = [](const SplitPart& part, bool match_before) { return part.is_match && !match_before; };
  switch (behavior) {
    case SplitBehavior::isolated:
      return;
    case SplitBehavior::removed:
      std::erase_if(parts, [](const SplitPart& part) { return part.is_match; });
      return;
    case SplitBehavior::contiguous:
      join_to_previous(parts, [](const SplitPart& part, bool match_before) { return part.is_match == match_before; });
      return;
    case SplitBehavior::merged_with_previous:
      join_to_previous(parts, first_match);
      return;
    case SplitBehavior::merged_with_next:
      std::reverse(parts.begin(), parts.end());
      join_to_previous(parts, first_match);
      std::reverse(parts.begin(), parts.end());
      return;
  }
}

}  // namespace pipetrain
