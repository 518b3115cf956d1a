// The text of a chat template, reduced to what tells one template from another. Internal to data/.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pipetrain {

// Two templates of Jinja with the same normal form write the same text of a chat. It has no comments and no white space that
// writes nothing, by Jinja's rules with trim_blocks and lstrip_blocks, as transformers sets them; strings by their content
// however they are quoted, and one string for several that are added; message.role for message['role']; and nothing of the
// generation tags of transformers, between which there may be no other statement. Nothing for a text of which the tags do not
// end, or that has raw blocks.
std::optional<std::string> normal_template(std::string_view text);

}  // namespace pipetrain
