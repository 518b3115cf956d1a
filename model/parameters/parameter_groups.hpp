// The parameters of a rank by group. All parameters of a group are stored in the same way, each group in arenas of its own.
#pragma once

#include <cstddef>
#include <optional>
#include <vector>

#include "model/parameters/parameters.hpp"

namespace pipetrain {

struct GroupLayout {
  ParameterGroup group = ParameterGroup::dense;
  // The group's tensors and parameters alone, at the offsets of the group's own arenas. It has the blocks and the chunks of the
  // whole layout, in the same order, even where they have no tensor of the group. A frozen group has no gradient elements.
  ParameterLayout layout;
  std::vector<std::size_t> parameters;  // the index in the whole layout of each of layout.parameters, rising

  // Returns the index in layout.parameters of a parameter of the whole layout; nothing for one of another group.
  std::optional<std::size_t> index_of(std::size_t whole) const;
};

// Returns the groups that have tensors, in the order of ParameterGroup. A layout with a single trained group is
// returned unchanged, offset by offset. Pure.
std::vector<GroupLayout> group_layouts(const ParameterLayout& whole);

}  // namespace pipetrain
