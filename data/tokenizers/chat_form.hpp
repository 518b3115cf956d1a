// How messages become a text with a tokenizer.
#pragma once

#include <string>

#include "data/tokenizers/tokenizer.hpp"

namespace pipetrain {

struct TokenizerConfig;

// The template of this name; or, without one, that of the tokenizer's files, else the one that its special tokens tell:
// <|im_start|> chatml, <|start_header_id|> llama3. The name is empty where nothing tells. Throws Error(input) as
// chat_form_of(), and where the tokenizer does not find the template's special tokens in texts.
ChatForm choose_chat_form(const Tokenizer& tokenizer, const std::string& name);

// Internal to data/. The template is that of chat_template.jinja and the folder additional_chat_templates, else of
// tokenizer_config.json, else of chat_template.json; of several that with the name "default". It is recognized by its text:
// Jinja is not interpreted.
// Throws Error(input) that names the file for a template that is damaged, or that no built-in one reproduces.
ChatForm chat_form_of(const TokenizerConfig& config);

}  // namespace pipetrain
