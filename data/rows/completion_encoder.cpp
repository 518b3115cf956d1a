#include "data/rows/completion_encoder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "data/rows/chat_row.hpp"
#include "data/rows/jsonl_row.hpp"
#include "data/templates/render_error.hpp"
#include "data/tokenizers/chat_template.hpp"

namespace pipetrain {
namespace {

// For the built-in templates, which render roles and texts alone.
std::vector<ChatMessage> plain_messages(const Chat& chat) {
  std::vector<ChatMessage> messages;
  for (const Json& message : chat.messages) {
    const Json* const content = message.find("content");
    if (content == nullptr || !content->is_string())
      throw RowFault{fmt::format("messages[{}] has a \"content\" that is not a string", messages.size())};
    messages.push_back({message.at("role").as_string(), content->as_string()});
  }
  if (!chat.variables.items().empty())
    throw RowFault{"\"tools\" and other variables of chat templates are not rendered by the built-in ones; leave them out"};
  return messages;
}

}  // namespace

std::string CompletionEncoder::rendered(const Chat& chat, const ChatForm& form, bool ask) const {
  if (form.program) {
    try {
      refuse_ignored(*form.program, chat);
      return form.program->render(chat, ask);
    } catch (const templates::RenderError& error) {
      throw RowFault{error.what()};
    }
  }
  std::string text;
  const std::vector<ChatMessage> messages = plain_messages(chat);
  try {
    for (const ChatPart& part : render_chat(form.name, messages, ask)) text += part.text;
  } catch (const Error& error) {
    if (error.setting() != nullptr) throw;  // the row is not at fault
    throw RowFault{error.what()};
  }
  return text;
}

std::vector<std::int32_t> CompletionEncoder::encoded(const std::string& text, bool with_front) {
  std::vector<std::int32_t> ids;
  if (with_front) ids = around_.front;
  encoder_.encode(text, SpecialTokens::leave_out, ids);
  return ids;
}

std::vector<EncodedCompletion> CompletionEncoder::with_common_prompt(const std::vector<std::int32_t>& prompt,
                                                                     std::vector<std::vector<std::int32_t>> all) const {
  std::size_t common = prompt.size();
  for (const auto& ids : all) {
    const auto parted = std::mismatch(prompt.begin(), prompt.end(), ids.begin(), ids.end()).first;
    common = std::min(common, static_cast<std::size_t>(parted - prompt.begin()));
  }
  std::vector<EncodedCompletion> completions;
  for (auto& ids : all) {
    if (ids.size() <= std::max<std::size_t>(common, 1))
      throw RowFault{"a completion adds no token to its prompt, so there is nothing to learn; give a longer one"};
    completions.push_back({std::move(ids), common});
  }
  return completions;
}

std::vector<EncodedCompletion> CompletionEncoder::encode_texts(const PreferenceRow& row) {
  std::vector<std::vector<std::int32_t>> all;
  for (const Completion& completion : row.completions) {
    auto& ids = all.emplace_back(encoded(completion.prompt + completion.text, true));
    if (ids.empty() || ids.back() != around_.end) ids.push_back(around_.end);
  }
  return with_common_prompt(encoded(row.completions.front().prompt, true), std::move(all));
}

std::vector<EncodedCompletion> CompletionEncoder::encode_chats(const PreferenceRow& row, const ChatForm& form,
                                                               const std::string& setting) {
  const bool with_front = !form.program;
  std::vector<std::vector<std::int32_t>> all;
  for (const Completion& completion : row.completions) {
    const std::string text = rendered(completion.whole_chat, form, false);
    try {
      if (form.program) check_special_tokens(tokenizer_, *form.program, text);
    } catch (const Error& error) {
      throw Error(ErrorKind::input, {"chat-template", setting}, error.what());
    }
    all.push_back(encoded(text, with_front));
  }
  return with_common_prompt(encoded(rendered(row.completions.front().prompt_chat, form, true), with_front), std::move(all));
}

}  // namespace pipetrain
