#include "data/tokenizers/chat_template.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "data/tokenizers/text/unicode.hpp"
#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain {
namespace {

using ChatParts = std::vector<ChatPart>;
using Messages = std::vector<ChatMessage>;

// Without what Python's str.strip() takes for white space.
std::string trimmed(std::string_view text) {
  std::string buffer;
  text = valid_utf8_or_replaced(text, buffer);
  std::size_t begin = text.size(), end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t here = at;
    const char32_t code = next_code_point(text, at);
    if (is_white_space(code) || (code >= 0x1C && code <= 0x1F)) continue;
    begin = std::min(begin, here);
    end = at;
  }
  return begin < end ? std::string(text.substr(begin, end - begin)) : "";
}

void check_messages(const Messages& messages) {
  const auto fail = [](const std::string& why) { throw Error(ErrorKind::input, "messages: " + why); };
  if (messages.empty()) fail("there are none; a chat has at least one of a user");
  const std::size_t first = messages[0].role == "system" ? 1 : 0;
  if (first == messages.size()) fail("there is only that of the system; add one of a user");
  for (std::size_t i = first; i < messages.size(); ++i) {
    const std::string wanted = (i - first) % 2 == 0 ? "user" : "assistant";
    if (messages[i].role != wanted)
      fail(
          fmt::format("number {} is of the role '{}', not '{}'; after an optional system message, user and assistant alternate",
                      i, messages[i].role, wanted));
  }
}

// Renders each message as `head` of its role, the text, and `end`.
template <class Head>
ChatParts render_turns(const Messages& messages, bool ask, bool trims, const std::string& end, const Head& head) {
  ChatParts parts;
  for (const ChatMessage& message : messages) {
    parts.push_back({head(message.role), false});
    parts.push_back({(trims ? trimmed(message.text) : message.text) + end, message.role == "assistant"});
  }
  if (ask) parts.push_back({head("assistant"), false});
  return parts;
}

ChatParts render_chatml(const Messages& messages, bool ask) {
  ChatParts parts = render_turns(messages, ask, false, "<|im_end|>",
                                 [](const std::string& role) { return fmt::format("<|im_start|>{}\n", role); });
  for (std::size_t i = 2; i < parts.size(); i += 2)
    parts[i].text.insert(0, "\n");  // follows <|im_end|> and is not part of an answer
  return parts;
}

ChatParts render_llama3(const Messages& messages, bool ask) {
  return render_turns(messages, ask, true, "<|eot_id|>",
                      [](const std::string& role) { return fmt::format("<|start_header_id|>{}<|end_header_id|>\n\n", role); });
}

// Every turn of user and assistant is a text of its own, between <s> and </s>; the tokenizer puts the first <s> in front.
ChatParts render_llama2(const Messages& messages, bool) {
  ChatParts parts;
  std::string system;
  for (const ChatMessage& message : messages) {
    if (message.role == "system") {
      system = fmt::format("<<SYS>>\n{}\n<</SYS>>\n\n", message.text);
    } else if (message.role == "user") {
      parts.push_back({fmt::format("{}[INST] {} [/INST]", parts.empty() ? "" : "<s>", trimmed(system + message.text)), false});
      system.clear();
    } else {
      parts.push_back({fmt::format(" {} </s>", trimmed(message.text)), true});
    }
  }
  return parts;
}

}  // namespace

const std::vector<std::string>& chat_template_names() {
  static const std::vector<std::string> names = {"chatml", "llama2", "llama3"};
  return names;
}

const std::vector<std::string>& chat_markers(std::string_view name) {
  static const std::vector<std::string> chatml = {"<|im_start|>", "<|im_end|>"}, llama2 = {"<s>", "</s>"},
                                        llama3 = {"<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"};
  return name == "chatml" ? chatml : name == "llama2" ? llama2 : llama3;
}

std::vector<ChatPart> render_chat(std::string_view name, const std::vector<ChatMessage>& messages, bool ask) {
  const auto& names = chat_template_names();
  if (std::find(names.begin(), names.end(), name) == names.end())
    throw Error(ErrorKind::input, {"chat-template", std::string(name)},
                fmt::format("this chat template is not supported; give one of {}", fmt::join(names, ", ")));
  check_messages(messages);
  if (ask && messages.back().role != "user")
    throw Error(ErrorKind::input, "messages: the last is not of a user, so there is nothing to answer; add one");
  if (name == "chatml") return render_chatml(messages, ask);
  return name == "llama2" ? render_llama2(messages, ask) : render_llama3(messages, ask);
}

}  // namespace pipetrain
