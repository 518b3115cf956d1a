#include "data/tokenizers/text/pieces.hpp"

#include <algorithm>

namespace pipetrain {

char* TextArena::begin(std::size_t most) {
  constexpr std::size_t block = 64 * 1024;
  if (blocks_.empty() || blocks_.back().size() - used_ < most) {
    blocks_.emplace_back(std::max(block, most));
    used_ = 0;
  }
  return blocks_.back().data() + used_;
}

std::string_view TextArena::take(std::size_t size) {
  const std::string_view text(blocks_.back().data() + used_, size);
  used_ += size;
  return text;
}

void TextArena::clear() {
  if (blocks_.size() > 1) blocks_.erase(blocks_.begin(), blocks_.end() - 1);
  used_ = 0;
}

void Pieces::reset(std::string_view text, bool at_start) {
  pieces_.clear();
  if (!text.empty()) pieces_.push_back(text);
  arena_.clear();
  start_ = text.data();
  at_start_ = at_start;
}

}  // namespace pipetrain
