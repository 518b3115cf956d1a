// The chat of a row as a template renders it: its messages with all of their keys, and what else the row gives the template.
// Internal to data/.
#pragma once

#include <string_view>

#include "data/rows/row_keys.hpp"
#include "data/tokenizers/chat_program.hpp"
#include "files/json_value.hpp"

namespace pipetrain {

// Returns the chat of a row, which is an object with "messages" or "conversations". The keys "from" and "value" of messages are
// read as "role" and "content", and sharegpt's names of roles are replaced by the usual ones. "tools", "functions" and
// "documents" may be strings of JSON; "chat_template_kwargs" holds variables by name; "system" becomes the first message.
// Throws RowFault.
Chat chat_of_row(const Json& row);
// Throws RowFault also for text that is no JSON.
Chat chat_of_text(std::string_view row);

// Returns the usual name of a role for sharegpt's name of it; other names stay.
std::string_view usual_role(std::string_view role);

// Returns true if a template may render the value of this key, one of a row's keys besides its messages.
bool is_for_templates(std::string_view key);

// Throws RowFault for a chat with something that the template does not render.
void refuse_ignored(const ChatProgram& program, const Chat& chat);

}  // namespace pipetrain
