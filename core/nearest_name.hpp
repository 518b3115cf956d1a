// Suggests the name that a user who mistyped one probably meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipetrain {

// The form in which names are compared: lower case, with dashes for underscores.
std::string normalised_name(std::string_view name);

// Edits that turn one into the other: insert, delete, replace, swap neighbours (optimal string alignment).
int edit_distance(std::string_view a, std::string_view b);

// The shortest candidate that begins with `name`, if `name` has three letters or more. Else the candidate with the fewest
// edits, if they are few; of two equally near ones the longer, because people leave letters out more often than they add some.
// Nothing for names of more than 64 letters, whose table of edits would take long to fill.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace pipetrain
