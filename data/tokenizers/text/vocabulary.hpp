// The pieces of a tokenizer and their ids. Internal to data/.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipetrain {

// Ids may have holes. Reading is thread-safe.
class Vocabulary {
 public:
  static constexpr std::int32_t most_ids = 1 << 21;  // they take 32 MB, even if most are holes

  // Adds a piece, or gives an existing one the new id: the last entry of a tokenizer file counts. `id` is in [0,
  // most_ids). Returns false, and adds nothing, if another piece has the id.
  bool add(std::string_view piece, std::int32_t id);
  std::optional<std::int32_t> find(std::string_view piece) const;
  std::string_view piece(std::int32_t id) const;  // empty for a hole and beyond the end
  bool has(std::int32_t id) const { return id >= 0 && id < size() && pieces_[static_cast<std::size_t>(id)].used; }
  std::int32_t size() const { return static_cast<std::int32_t>(pieces_.size()); }  // the largest id plus one
  std::int32_t count() const { return used_ids_; }                                 // the number of ids that have a piece

 private:
  struct Piece {
    std::size_t begin = 0;
    std::uint32_t size = 0;
    bool used = false;
  };
  std::size_t slot_of(std::string_view piece) const;  // the piece's slot, or the free one for it
  void grow();

  std::string text_;
  std::vector<Piece> pieces_;        // by id
  std::vector<std::int32_t> slots_;  // a hash table with open addressing: ids, -1 for free; its size is a power of two
  std::size_t used_slots_ = 0;
  std::int32_t used_ids_ = 0;
};

}  // namespace pipetrain
