// How messages become a text with a tokenizer.
#pragma once

#include <string>

#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

struct TokenizerConfig;

// Returns the built-in template of this name (see render_chat()); if there is none, the template in the file of this name.
// Without a name, returns the template of the tokenizer's files; if they have none, the built-in template that the special
// tokens suggest: chatml for <|im_start|>, llama3 for <|start_header_id|>, an empty form for neither. Throws Error(input) as
// chat_form_of() does, for a file that cannot be read, and if the tokenizer does not recognise the special tokens of a built-in
// template in a text.
ChatForm choose_chat_form(const Tokenizer& tokenizer, const std::string& name);

// Throws Error(input) where the text of a chat has a special token that the tokenizer does not find in texts.
void check_special_tokens(const Tokenizer& tokenizer, const ChatProgram& program, const std::string& text);

// Internal to data/. The template is that of chat_template.jinja and the folder additional_chat_templates, else of
// tokenizer_config.json, else of chat_template.json; of several that with the name "default", and for chats with tools
// "tool_use". Throws Error(input) that names the file, and the line of a template that cannot be read.
ChatForm chat_form_of(const TokenizerConfig& config);

}  // namespace pipetrain
