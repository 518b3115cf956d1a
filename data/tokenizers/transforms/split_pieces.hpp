// The behaviors of tokenizer.json's Split: what becomes of matches and of the text between them. Internal to data/.
#pragma once

#include <vector>

#include "data/tokenizers/text/component.hpp"

namespace pipetrain {

enum class SplitBehavior { removed, isolated, merged_with_previous, merged_with_next, contiguous };

SplitBehavior split_behavior(const Component& component, const char* key);

struct SplitPart {
  std::size_t begin = 0, end = 0;
  bool is_match = false;
};

// Replaces the parts of a text, which are in order and without gaps, by those that remain.
void apply_behavior(SplitBehavior behavior, std::vector<SplitPart>& parts);

}  // namespace pipetrain
