// Suggests the name that a user who mistyped one probably meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipetrain {

// Returns the form in which names are compared: lower case, with dashes for underscores.
std::string normalised_name(std::string_view name);

// Returns the number of edits that turn one into the other: insert, delete, replace, swap neighbours (optimal string
// alignment).
int edit_distance(std::string_view a, std::string_view b);

// Returns the shortest candidate that begins with `name`, if `name` has at least three letters; else the candidate with
// the fewest edits, if they are few. Returns the longer of two equally near ones, because people omit letters more
// often than they add some. No value for names of more than 64 letters, whose table of edits would take long to fill.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace pipetrain
