#include "data/tokenizers/chat_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/tokenizers/answer_finder.hpp"
#include "files/json_builder.hpp"

namespace pipetrain {
namespace {

constexpr std::array reasoning_keys = {"reasoning_content", "thinking", "reasoning"};
// Keys of messages that say which call an answer belongs to. Many templates need them no more than the order of messages.
constexpr std::array bookkeeping_keys = {"role", "content", "name", "tool_call_id", "id", "index"};

template <class Keys>
bool is_among(const std::string& key, const Keys& keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

Json normalized_message(const Json& message) {
  const Json* reasoning = nullptr;
  for (const char* key : reasoning_keys)
    if (const Json* const found = message.find(key); reasoning == nullptr && found != nullptr && !found->is_null())
      reasoning = found;
  Json normalized = Json::object();
  if (reasoning != nullptr) normalized["thinking"] = *reasoning;
  for (const auto& [key, value] : message.items(JsonOrder::as_added))
    if (!value.is_null()) normalized[key] = value;
  if (reasoning != nullptr) normalized["reasoning_content"] = *reasoning;
  return normalized;
}

Chat without_key(const Chat& chat, const std::string& key) {
  Chat changed{Json::array(), chat.variables};
  for (const Json& message : chat.messages) {
    Json kept = Json::object();
    for (const auto& [name, value] : message.items(JsonOrder::as_added))
      if (name != key) kept[name] = value;
    changed.messages.push_back(std::move(kept));
  }
  return changed;
}

}  // namespace

ChatProgram::ChatProgram(const std::string& source, const std::string& file, Json special_tokens)
    : file_(file),
      template_(std::make_shared<const templates::Template>(source, file)),
      special_tokens_(std::move(special_tokens)) {}

void ChatProgram::set_tool_template(const std::string& source, const std::string& file) {
  tool_template_ = std::make_shared<const templates::Template>(source, file);
}

const templates::Template& ChatProgram::template_for(const Chat& chat) const {
  const Json* const tools = chat.variables.find("tools");
  return tool_template_ && tools != nullptr && !tools->is_null() ? *tool_template_ : *template_;
}

templates::Rendering ChatProgram::rendering(const Chat& chat, bool ask) const {
  Json variables = special_tokens_;
  variables["tools"] = Json();
  variables["documents"] = Json();
  for (const auto& [name, value] : chat.variables.items()) variables[name] = value;
  Json messages = Json::array();
  for (const Json& message : chat.messages) messages.push_back(normalized_message(message));
  variables["messages"] = std::move(messages);
  variables["add_generation_prompt"] = ask;
  return template_for(chat).render(variables);
}

std::string ChatProgram::render(const Chat& chat, bool ask) const { return rendering(chat, ask).text; }

RenderedChat ChatProgram::render_answers(const Chat& chat) const {
  templates::Rendering whole = rendering(chat, false);
  if (!template_for(chat).has_generation() || whole.has_hidden_generation) {
    std::vector<TextSpan> answers = AnswerFinder(*this, chat, whole.text).find();
    return {std::move(whole.text), std::move(answers)};
  }
  std::erase_if(whole.generations, [](const TextSpan& span) { return span.begin == span.end; });
  return {std::move(whole.text), std::move(whole.generations)};
}

std::string ChatProgram::answer_end() const {
  Chat chat;
  chat.messages.push_back(Json::object({{"role", "user"}, {"content", "a"}}));
  return AnswerFinder(*this, chat, "").last_answer_end();
}

bool ChatProgram::names(const std::string& word) const {
  return template_->names(word) || (tool_template_ && tool_template_->names(word));
}

std::string ChatProgram::ignored(const Chat& chat) const {
  for (const auto& [name, value] : chat.variables.items())
    if (!value.is_null() && !template_for(chat).names(name)) return shown_json_key(name);
  std::size_t place = 0;
  for (const Json& message : chat.messages) {
    for (const auto& [key, value] : message.items()) {
      if (value.is_null() || is_among(key, bookkeeping_keys) || template_for(chat).names(key)) continue;
      if (is_among(key, reasoning_keys) && (names("reasoning_content") || names("thinking"))) continue;
      // A template may print whole messages.
      if (render(chat, false) == render(without_key(chat, key), false))
        return fmt::format("{} of messages[{}]", shown_json_key(key.substr(0, 60)), place);
    }
    ++place;
  }
  return "";
}

}  // namespace pipetrain
