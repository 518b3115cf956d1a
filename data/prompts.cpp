#include "data/prompts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/error.hpp"
#include "data/rows/chat_row.hpp"
#include "data/rows/jsonl_row.hpp"
#include "data/rows/row_keys.hpp"
#include "files/file_io.hpp"
#include "files/json.hpp"
#include "files/json_builder.hpp"
#include "files/text_encoding.hpp"

namespace pipetrain {
namespace {

[[noreturn]] void fail_prompt(const std::string& place, const std::string& why) {
  throw Error(ErrorKind::input, fmt::format("{}: {}", place, why));
}

std::string text_of(const Json& object, const std::string& key, const std::string& place) {
  const Json* const found = object.find(key);
  if (!found || !found->is_string()) fail_prompt(place, fmt::format("\"{}\" must be there, and be a string", key));
  return found->as_string();
}

bool is_nothing_in_prompt(const Json& value) {
  if (value.is_string()) return value.as_string().empty();
  return value.is_null() || ((value.is_array() || value.is_object()) && value.empty());
}

// Returns true for a key whose value would change the prompt. Weights matter to training alone, so they may be ignored.
bool says_more(KeyMeaning meaning) { return meaning == KeyMeaning::content || meaning == KeyMeaning::unknown; }

// A chat template may render any field of a message; the built-in ones render roles and texts only.
void add_messages(const Json& list, const std::string& place, Prompt& prompt) {
  if (!list.is_array()) fail_prompt(place, "\"messages\" must be an array of objects with \"role\" and \"content\"");
  const auto refuse_built_in = [&](const std::string& why) {
    if (prompt.unrendered.empty()) prompt.unrendered = why;
  };
  for (const Json& message : list) {
    if (!message.is_object()) fail_prompt(place, "\"messages\" must be an array of objects with \"role\" and \"content\"");
    for (const auto& [key, value] : message.items())
      if (key != "role" && key != "content" && says_more(rule_of_key(key).meaning) && !is_nothing_in_prompt(value))
        refuse_built_in(fmt::format("a message has {}, which is not read; give \"role\" and \"content\" only",
                                    shown_json_key(key.substr(0, 60))));
    const Json* const content = message.find("content");
    const bool is_text = content != nullptr && content->is_string();
    if (!is_text) refuse_built_in("\"content\" must be there, and be a string");
    prompt.messages.push_back({text_of(message, "role", place), is_text ? content->as_string() : ""});
  }
}

// Checks the keys besides the prompt. Those that a chat template may render are accepted with "messages", but the built-in
// templates refuse them.
void check_other_keys(const Json& row, Prompt& prompt, UnreadKeys& unread) {
  for (const auto& [key, value] : row.items()) {
    if (key == "prompt" || key == "messages" || key == "adapter" || value.is_null()) continue;
    const KeyRule rule = rule_of_key(key);
    if (rule.meaning == KeyMeaning::unknown) unread.add(key);
    if (rule.meaning != KeyMeaning::content || is_nothing_in_prompt(value)) continue;
    const std::string why = fmt::format("{} is not read: {}", shown_json_key(key.substr(0, 60)), rule.why);
    if (!row.contains("messages") || !is_for_templates(key)) fail_prompt(prompt.place, why);
    if (prompt.unrendered.empty()) prompt.unrendered = why;
  }
}

Prompt text_prompt(std::string_view line, const std::string& place) {
  Prompt prompt;
  prompt.text = line;
  prompt.place = place;
  return prompt;
}

Prompt prompt_of_row(std::string_view line, const std::string& place, UnreadKeys& unread) {
  const Json row = parse_json(line, {place, false}, {.depth = 64});
  if (!row.is_object()) fail_prompt(place, "must be an object, {\"prompt\": \"...\"} or {\"messages\": [...]}");
  const auto has = [&](const char* key) { return row.contains(key) && !row.at(key).is_null(); };
  const bool chat = has("messages");
  if (chat == has("prompt")) fail_prompt(place, "must have either \"prompt\" or \"messages\"");
  Prompt prompt;
  prompt.place = place;
  check_other_keys(row, prompt, unread);
  if (has("adapter")) prompt.adapter = text_of(row, "adapter", place);
  if (!chat) {
    prompt.text = text_of(row, "prompt", place);
    return prompt;
  }
  add_messages(row.at("messages"), place, prompt);
  try {
    prompt.chat = chat_of_row(row);
  } catch (const RowFault& fault) {
    fail_prompt(place, fault.why);
  }
  return prompt;
}

}  // namespace

PromptFile read_prompts(const std::filesystem::path& file) {
  constexpr std::size_t most = std::size_t{64} << 20;
  const std::string text = read_text(file, most);
  refuse_utf16(text, file.string());
  const bool rows = file.extension() == ".jsonl";
  UnreadKeys unread;
  std::vector<Prompt> prompts;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    std::string_view line = std::string_view(text).substr(at, end - at);
    if (line.ends_with('\r')) line.remove_suffix(1);
    at = end + 1;
    const std::string place = fmt::format("{}:{}", file.string(), prompts.size() + 1);
    if (line.empty()) fail_prompt(place, "the line is empty; a prompt has text");
    prompts.push_back(rows ? prompt_of_row(line, place, unread) : text_prompt(line, place));
    if (prompts.back().text.empty() && prompts.back().messages.empty()) fail_prompt(place, "the prompt is empty; give it text");
  }
  if (prompts.empty()) fail_prompt(file.string(), "there is no prompt in it; give one a line");
  return {std::move(prompts), unread.note()};
}

}  // namespace pipetrain
