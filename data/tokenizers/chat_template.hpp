// How the messages of a chat become one text.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace pipetrain {

struct ChatMessage {
  std::string role;  // "system", first or not at all, then "user" and "assistant" in turn
  std::string text;
};

// A part of the text of a chat. Answers are what the assistant writes, with what ends it: what a model is trained to say.
struct ChatPart {
  std::string text;
  bool is_answer = false;
};

// Returns the names of the built-in templates: chatml, llama2, llama3.
const std::vector<std::string>& chat_template_names();

// Returns the special tokens of a template; the last one ends an answer.
const std::vector<std::string>& chat_markers(std::string_view name);

// Returns the text, without the tokens that the tokenizer puts around it; it has special tokens by their names. With `ask`, it
// ends where the assistant is to go on. Formats: ChatML (OpenAI); Llama 2's and Llama 3's model cards (Meta), whose templates
// strip the white space around the text of a message, as Python does; llama2 strips a user's message together with
// the system's before it. Throws Error(input) for another template, no messages, other roles and another order of roles.
std::vector<ChatPart> render_chat(std::string_view name, const std::vector<ChatMessage>& messages, bool ask);

}  // namespace pipetrain
