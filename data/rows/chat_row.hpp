// The chat of a row as a template renders it: its messages with all of their keys, and what else the row gives the template.
// Internal to data/.
#pragma once

#include <string>
#include <string_view>

#include "data/rows/row_keys.hpp"
#include "data/tokenizers/chat_program.hpp"
#include "files/json_value.hpp"

namespace pipetrain {

// Reads a row with "messages" or "conversations", which is an object. "from" and "value" of messages are read as "role" and
// "content", and the names that sharegpt gives roles as those of other chats. "tools", "functions" and "documents" may be JSON
// in a string; "chat_template_kwargs" are variables by their names; "system" becomes the first message. Throws RowFault.
Chat chat_of_row(const Json& row);
// Throws RowFault also for text that is no JSON.
Chat chat_of_text(std::string_view row);

// The name of a role in chats, for one that sharegpt uses; other names stay.
std::string_view usual_role(std::string_view role);

// Returns true if a template may render this key of a row.
bool is_for_templates(std::string_view key);

// Throws RowFault for a chat with something that the template does not render.
void refuse_ignored(const ChatProgram& program, const Chat& chat);

}  // namespace pipetrain
