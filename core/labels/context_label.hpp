// Labels of tokens that belong to the context of a completion, such as its prompt. They are negative, so that a loss over
// completions leaves them out; a loss that counts the context too finds the token in the label.
#pragma once

#include <cstdint>

namespace pipetrain {

// Labels from this one downwards are of the context. Other negative labels count nowhere.
inline constexpr std::int32_t first_context_label = -1000;

constexpr bool is_context_label(std::int32_t label) { return label <= first_context_label; }
// Maps a token's id to its label, and such a label to the id.
constexpr std::int32_t context_label(std::int32_t id) { return first_context_label - id; }
constexpr std::int32_t context_id(std::int32_t label) { return first_context_label - label; }

}  // namespace pipetrain
