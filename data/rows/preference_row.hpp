// A row of preferences: a prompt and completions that people judged. Internal to data/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/rows/preference_form.hpp"
#include "data/tokenizers/chat_program.hpp"

namespace pipetrain {

class UnreadKeys;

// Texts, or messages. Both are set for chats and both for texts, never a mixture.
struct Completion {
  std::string prompt = {}, text = {};
  Chat prompt_chat = {}, whole_chat = {};  // the messages before the completion; all messages
};

struct PreferenceRow {
  bool is_chat = false;
  std::vector<Completion> completions = {};  // the chosen and the rejected one; or the only one
  bool desirable = true;                     // the label of the only one
};

// Reads "prompt" with "chosen" and "rejected", or with "completion" and "label". Either all are strings, or all are lists of
// messages; "chosen" and "rejected" may also be whole conversations without a prompt, which is then the messages that both
// begin with (as trl's extract_prompt). Other keys that templates render are read as in other rows (chat_of_row()); unknown
// ones and other measures of preference go to `unread`, which may be null. Throws RowFault.
PreferenceRow parse_preference_row(std::string_view row, PreferenceForm form, UnreadKeys* unread);

}  // namespace pipetrain
