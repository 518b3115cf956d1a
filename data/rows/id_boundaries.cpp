#include "data/rows/id_boundaries.hpp"

#include <algorithm>
#include <string>

namespace pipetrain {

// If a special token ends the text before the known boundary, only the text from that token on is encoded again, which is
// much faster for long chats.
IdBoundary IdBoundaries::find(std::size_t offset, const IdBoundary& known) {
  if (offset == text_.size()) return {ids_.size(), false, offset};
  const std::string token = known.ids > 0 && !known.straddles ? tokenizer_.piece(ids_[known.ids - 1]) : "";
  const bool is_anchor = token.starts_with('<') && token.ends_with('>') && text_.substr(0, known.offset).ends_with(token);
  if (is_anchor) {
    const IdBoundary found = after({known.ids - 1, false, known.offset - token.size()}, offset);
    if (!found.straddles) return found;
  }
  return after({}, offset);
}

IdBoundary IdBoundaries::after(const IdBoundary& from, std::size_t offset) {
  before_.clear();
  encoder_.encode(text_.substr(from.offset, offset - from.offset), SpecialTokens::leave_out, before_);
  const auto first = ids_.begin() + static_cast<std::ptrdiff_t>(from.ids);
  const auto [own, same] = std::mismatch(before_.begin(), before_.end(), first, ids_.end());
  return {static_cast<std::size_t>(same - ids_.begin()), own != before_.end(), offset};
}

}  // namespace pipetrain
