// Finds the pieces with which a text begins. Internal to data/.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

namespace pipetrain {

// A double-array trie over bytes (Aoe 1989). Reading is thread-safe.
class PieceTrie {
 public:
  PieceTrie() = default;
  // The pieces with their ids, none empty; the last of several equal ones counts.
  explicit PieceTrie(std::vector<std::pair<std::string_view, std::int32_t>> pieces);

  // Calls found(id, length) for each piece that begins at `at`, the shortest first.
  template <class Found>
  void find_all(std::string_view text, std::size_t at, const Found& found) const {
    if (nodes_.empty()) return;
    std::uint32_t node = 0;
    for (std::size_t end = at; end < text.size();) {
      const std::uint32_t next = nodes_[node].base ^ static_cast<unsigned char>(text[end]);
      if (next >= nodes_.size() || nodes_[next].parent != node) return;
      node = next;
      ++end;
      if (nodes_[node].id >= 0) found(nodes_[node].id, end - at);
    }
  }

 private:
  static constexpr std::uint32_t none = 0xFFFFFFFF;
  struct Node {
    std::uint32_t base = 0;  // the child by byte b is at base ^ b
    std::uint32_t parent = none;
    std::int32_t id = -1;
  };
  struct Range {
    std::uint32_t node;
    std::size_t begin, end, depth;  // a range of the sorted pieces
  };
  void place_children(const Range& range, const std::vector<std::pair<std::string_view, std::int32_t>>& pieces,
                      std::vector<Range>& todo);
  std::uint32_t free_base(const std::vector<unsigned char>& bytes);

  std::vector<Node> nodes_;
  std::uint32_t first_free_ = 1;
};

}  // namespace pipetrain
