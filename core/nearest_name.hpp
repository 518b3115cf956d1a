// What somebody who typed an unknown name probably meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipetrain {

// Lower case, with dashes for underscores: as names are compared.
std::string normalised_name(std::string_view name);

// Edits that turn one into the other: insert, delete, replace, swap neighbours (optimal string alignment).
int edit_distance(std::string_view a, std::string_view b);

// The shortest candidate that begins with `name`, if it has three letters or more, else the nearest by edits, if it is near
// enough to be meant; of two as near the longer, because letters are left out more often than added. Nothing for names of more
// than 64 letters: their table of edits would take long.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates);

}  // namespace pipetrain
