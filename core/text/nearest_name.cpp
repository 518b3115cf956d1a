#include "core/text/nearest_name.hpp"

#include <algorithm>

namespace pipetrain {

std::string normalised_name(std::string_view name) {
  std::string result(name);
  std::replace(result.begin(), result.end(), '_', '-');
  std::transform(result.begin(), result.end(), result.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
  return result;
}

int edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<int>> table(a.size() + 1, std::vector<int>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) table[i][0] = static_cast<int>(i);
  for (std::size_t j = 0; j <= b.size(); ++j) table[0][j] = static_cast<int>(j);
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const int replace = table[i - 1][j - 1] + (a[i - 1] != b[j - 1]);
      table[i][j] = std::min({table[i - 1][j] + 1, table[i][j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        table[i][j] = std::min(table[i][j], table[i - 2][j - 2] + 1);
    }
  return table[a.size()][b.size()];
}

namespace {

// The table of edits grows with the product of both lengths.
constexpr std::size_t longest_name = 64;

// Returns null when there is none.
const std::string* shortest_beginning_with(const std::string& beginning, const std::vector<std::string>& candidates) {
  const std::string* shortest = nullptr;
  for (const std::string& candidate : candidates)
    if (candidate.starts_with(beginning) && (!shortest || candidate.size() < shortest->size())) shortest = &candidate;
  return shortest;
}

}  // namespace

std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() > longest_name) return std::nullopt;
  const std::string wanted = normalised_name(name);
  if (wanted.size() >= 3)
    if (const std::string* whole = shortest_beginning_with(wanted, candidates)) return *whole;
  const auto nearest = std::min_element(candidates.begin(), candidates.end(), [&](const auto& a, const auto& b) {
    const int to_a = edit_distance(wanted, a), to_b = edit_distance(wanted, b);
    return to_a != to_b ? to_a < to_b : a.size() > b.size();
  });
  const int allowed = std::max<int>(1, static_cast<int>(wanted.size()) / 3);
  if (nearest == candidates.end() || edit_distance(wanted, *nearest) > allowed) return std::nullopt;
  return *nearest;
}

}  // namespace pipetrain
