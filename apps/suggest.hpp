// What a user who typed an unknown name probably meant.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pipetrain {

// Edits that turn one into the other: insert, delete, replace, swap neighbours (optimal string alignment).
int edit_distance(std::string_view a, std::string_view b);

// The candidate that begins with `name` if there is just one, else the nearest by edits, if it is near enough to be meant.
std::optional<std::string> nearest_name(std::string_view name, const std::vector<std::string>& candidates);

// What an option of ColossalAI, DeepSpeed, Megatron-LM or the Hugging Face trainer is called here, e.g.
// "pipeline-model-parallel-size" -> "--pp"; "p" -> "--pp, --tp and --dp". Dashes and underscores are the same. Several
// systems spell one meaning; the table has them all.
std::optional<std::string> our_spelling(std::string_view foreign_name);

}  // namespace pipetrain
