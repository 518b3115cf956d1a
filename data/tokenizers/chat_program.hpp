// ChatProgram makes the messages of a chat one text by a chat template that is interpreted.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "data/templates/template.hpp"
#include "files/json_value.hpp"

namespace pipetrain {

// The input of a template: messages as objects, and other variables ("tools", "documents", ...) as members of an object.
struct Chat {
  Json messages = Json::array();
  Json variables = Json::object();
};

// Bytes of a text.
using templates::TextSpan;

struct RenderedChat {
  std::string text;
  std::vector<TextSpan> answers;  // the assistant's texts with their ends, in order and apart from each other
};

// Immutable; all methods are thread-safe. They throw templates::RenderError with the template's file and line.
class ChatProgram {
 public:
  // `special_tokens`: "bos_token" and others, which are variables of every chat. Throws Error(input) with file and line.
  ChatProgram(const std::string& source, const std::string& file, Json special_tokens);

  // Takes another template's place for chats with tools, as transformers does with the one that is named "tool_use".
  void set_tool_template(const std::string& source, const std::string& file);

  // Members of messages that are null are left out, and "reasoning", "thinking" and "reasoning_content" stand for each other,
  // as transformers renders messages. With `ask`, the text ends where the assistant is to go on.
  std::string render(const Chat& chat, bool ask) const;
  // Renders the chat with the answers that {% generation %} of the template marks; without it, finds them by rendering parts
  // of the chat. Throws RenderError if a template rewrites messages so that an answer is not found.
  RenderedChat render_answers(const Chat& chat) const;
  // Returns the text that ends an answer, such as "<|im_end|>"; empty if the template does not show it.
  std::string answer_end() const;

  // Returns true if the template contains this word, the name of a variable or a key of messages.
  bool names(const std::string& word) const;
  // Returns the first thing in the chat that the template does not render, as in "\"tools\""; empty where it renders all.
  std::string ignored(const Chat& chat) const;
  const Json& special_tokens() const { return special_tokens_; }
  const std::string& file() const { return file_; }

 private:
  const templates::Template& template_for(const Chat& chat) const;
  templates::Rendering rendering(const Chat& chat, bool ask) const;

  std::string file_;
  std::shared_ptr<const templates::Template> template_, tool_template_;
  Json special_tokens_;
};

}  // namespace pipetrain
