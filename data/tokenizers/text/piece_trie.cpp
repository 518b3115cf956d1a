#include "data/tokenizers/text/piece_trie.hpp"

#include <algorithm>

namespace pipetrain {

PieceTrie::PieceTrie(std::vector<std::pair<std::string_view, std::int32_t>> pieces) {
  std::stable_sort(pieces.begin(), pieces.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  nodes_.resize(256);
  nodes_[0].parent = none - 1;  // taken, and nobody's child
  std::vector<Range> todo{{0, 0, pieces.size(), 0}};
  while (!todo.empty()) {
    const Range range = todo.back();
    todo.pop_back();
    place_children(range, pieces, todo);
  }
}

// Returns the first base at which every child's index is free. All children of a base lie in one block of 256 nodes.
std::uint32_t PieceTrie::free_base(const std::vector<unsigned char>& bytes) {
  constexpr std::size_t most_places = 1024;  // the most nodes to search, which limits time and memory
  while (first_free_ < nodes_.size() && nodes_[first_free_].parent != none) ++first_free_;
  const std::size_t last = std::min(nodes_.size(), first_free_ + most_places);
  for (std::uint32_t place = first_free_; place < last; ++place) {
    if (nodes_[place].parent != none) continue;
    const std::uint32_t base = place ^ bytes.front();
    if (std::all_of(bytes.begin(), bytes.end(), [&](unsigned char byte) { return nodes_[base ^ byte].parent == none; }))
      return base;
  }
  first_free_ = static_cast<std::uint32_t>(last);
  const auto base = static_cast<std::uint32_t>(nodes_.size());
  nodes_.resize(nodes_.size() + 256);
  return base;
}

void PieceTrie::place_children(const Range& range, const std::vector<std::pair<std::string_view, std::int32_t>>& pieces,
                               std::vector<Range>& todo) {
  std::size_t begin = range.begin;
  while (begin < range.end && pieces[begin].first.size() == range.depth) nodes_[range.node].id = pieces[begin++].second;
  if (begin == range.end) return;
  std::vector<unsigned char> bytes;
  std::vector<std::size_t> begins;
  for (std::size_t i = begin; i < range.end; ++i) {
    const auto byte = static_cast<unsigned char>(pieces[i].first[range.depth]);
    if (!bytes.empty() && bytes.back() == byte) continue;
    bytes.push_back(byte);
    begins.push_back(i);
  }
  begins.push_back(range.end);
  const std::uint32_t base = nodes_[range.node].base = free_base(bytes);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const std::uint32_t child = base ^ bytes[i];
    nodes_[child].parent = range.node;
    todo.push_back({child, begins[i], begins[i + 1], range.depth + 1});
  }
}

}  // namespace pipetrain
