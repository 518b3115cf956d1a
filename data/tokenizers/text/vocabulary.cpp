#include "data/tokenizers/text/vocabulary.hpp"

#include <algorithm>
#include <utility>

#include "core/checksum.hpp"

namespace pipetrain {

std::size_t Vocabulary::slot_of(std::string_view piece) const {
  const std::size_t mask = slots_.size() - 1;
  std::size_t slot = checksum(piece.data(), piece.size()) & mask;
  while (slots_[slot] >= 0 && this->piece(slots_[slot]) != piece) slot = (slot + 1) & mask;
  return slot;
}

void Vocabulary::grow() {
  const std::vector<std::int32_t> old =
      std::exchange(slots_, std::vector<std::int32_t>(std::max<std::size_t>(64, slots_.size() * 2), -1));
  for (const std::int32_t id : old)
    if (id >= 0) slots_[slot_of(piece(id))] = id;
}

bool Vocabulary::add(std::string_view piece, std::int32_t id) {
  if (has(id)) return this->piece(id) == piece;
  if (2 * (used_slots_ + 1) > slots_.size()) grow();
  const auto place = static_cast<std::size_t>(id);
  if (place >= pieces_.size()) pieces_.resize(place + 1);
  const std::size_t slot = slot_of(piece);
  pieces_[place] = {text_.size(), static_cast<std::uint32_t>(piece.size()), true};
  text_ += piece;
  if (slots_[slot] < 0) ++used_slots_;
  ++used_ids_;
  slots_[slot] = id;
  return true;
}

std::optional<std::int32_t> Vocabulary::find(std::string_view piece) const {
  if (slots_.empty()) return std::nullopt;
  const std::int32_t id = slots_[slot_of(piece)];
  return id < 0 ? std::nullopt : std::optional(id);
}

std::string_view Vocabulary::piece(std::int32_t id) const {
  if (!has(id)) return {};
  const Piece& found = pieces_[static_cast<std::size_t>(id)];
  return std::string_view(text_).substr(found.begin, found.size);
}

}  // namespace pipetrain
