#include "data/rows/chat_row.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "core/error.hpp"
#include "data/rows/jsonl_row.hpp"
#include "files/json.hpp"
#include "files/json_builder.hpp"

namespace pipetrain {
namespace {

constexpr std::array variable_keys = {"tools", "functions", "documents", "tool_choice"};
constexpr std::array system_keys = {"system", "system_message", "system_prompt"};

template <class Keys>
bool is_one_of(std::string_view key, const Keys& keys) {
  return std::find(keys.begin(), keys.end(), key) != keys.end();
}

bool is_empty_value(const Json& value) {
  return value.is_null() || (value.is_string() && value.as_string().empty()) ||
         ((value.is_array() || value.is_object()) && value.empty());
}

// Datasets keep tools as JSON in a string, because Arrow has one type for a column.
Json unpacked_value(const std::string& key, const Json& value) {
  if (!value.is_string()) return value;
  try {
    return parse_json(value.as_string(), {shown_json_key(key), false}, {.depth = 64});
  } catch (const Error& error) {
    throw RowFault{
        fmt::format("{} is a string that is no JSON ({}); write an array of objects", shown_json_key(key), error.what())};
  }
}

// Reads {"name": ..., "arguments": ...}, or several, which the value of a message from "function_call" has as JSON.
Json calls_of(const std::string& text) {
  const Json value = unpacked_value("function_call", text);
  Json calls = Json::array();
  const auto add = [&](const Json& function) {
    if (!function.is_object() || !function.contains("name"))
      throw RowFault{R"(a message from "function_call" has no {"name": "...", "arguments": {...}} as its value)"};
    calls.push_back(Json::object({{"type", "function"}, {"function", function}}));
  };
  if (value.is_array()) {
    for (const Json& one : value) add(one);
  } else {
    add(value);
  }
  return calls;
}

Json chat_message(const Json& message) {
  Json result = Json::object();
  for (const auto& [key, value] : message.items(JsonOrder::as_added)) {
    const std::string name = key == "from" ? "role" : key == "value" ? "content" : key;
    result[name] = name == "role" && value.is_string() ? Json(usual_role(value.as_string())) : value;
  }
  const Json* const role = result.find("role");
  const Json* const content = result.find("content");
  if (role == nullptr || *role != "function_call" || content == nullptr || !content->is_string()) return result;
  return Json::object({{"role", "assistant"}, {"content", ""}, {"tool_calls", calls_of(content->as_string())}});
}

void check_message(const Json& message, std::size_t place) {
  const auto fail = [&](const std::string& what) { throw RowFault{fmt::format("messages[{}] {}", place, what)}; };
  const Json* const role = message.find("role");
  if (role == nullptr || !role->is_string()) fail(R"(has no "role"; write {"role": "user", "content": "..."})");
  const Json* const content = message.find("content");
  const Json* const calls = message.find("tool_calls");
  if ((content == nullptr || content->is_null()) && (calls == nullptr || is_empty_value(*calls)))
    fail(R"(has neither "content" nor "tool_calls"; write {"role": "user", "content": "..."})");
}

void add_variables(const Json& row, Chat& chat) {
  for (const char* key : variable_keys)
    if (const Json* const value = row.find(key); value != nullptr && !is_empty_value(*value))
      chat.variables[key] = unpacked_value(key, *value);
  const Json* const further = row.find("chat_template_kwargs");
  if (further == nullptr || is_empty_value(*further)) return;
  const Json unpacked = unpacked_value("chat_template_kwargs", *further);
  if (!unpacked.is_object()) throw RowFault{R"("chat_template_kwargs" is not an object; write {"enable_thinking": false})"};
  for (const auto& [name, value] : unpacked.items()) {
    if (name == "messages" || name == "add_generation_prompt")
      throw RowFault{
          fmt::format("\"chat_template_kwargs\" sets {}, which the row has already; leave it out", shown_json_key(name))};
    chat.variables[name] = value;
  }
}

}  // namespace

std::string_view usual_role(std::string_view role) {
  constexpr std::pair<std::string_view, std::string_view> names[] = {
      {"human", "user"},     {"gpt", "assistant"},   {"chatgpt", "assistant"}, {"bing", "assistant"},
      {"bard", "assistant"}, {"model", "assistant"}, {"observation", "tool"},  {"function_response", "tool"}};
  for (const auto& [name, usual] : names)
    if (role == name) return usual;
  return role;
}

bool is_for_templates(std::string_view key) {
  return is_one_of(key, variable_keys) || is_one_of(key, system_keys) || key == "chat_template_kwargs";
}

Chat chat_of_row(const Json& row) {
  Chat chat;
  for (const char* key : system_keys)
    if (const Json* const value = row.find(key); value != nullptr && !is_empty_value(*value)) {
      if (!value->is_string()) throw RowFault{fmt::format("\"{}\" is not a string", key)};
      chat.messages.push_back(Json::object({{"role", "system"}, {"content", *value}}));
      break;
    }
  const bool has_system = !chat.messages.empty();
  for (const char* key : {"messages", "conversations"}) {
    const Json* const messages = row.find(key);
    if (messages == nullptr) continue;
    for (const Json& message : *messages) {
      const std::size_t place = chat.messages.size() - (has_system ? 1 : 0);
      if (!message.is_object()) throw RowFault{fmt::format("messages[{}] is not an object", place)};
      chat.messages.push_back(chat_message(message));
      check_message(chat.messages[chat.messages.size() - 1], place);
    }
  }
  if (has_system && chat.messages.size() > 1 && chat.messages[1].at("role") == "system")
    throw RowFault{R"(the row has a "system" and a message of the system; keep one)"};
  add_variables(row, chat);
  return chat;
}

Chat chat_of_text(std::string_view row) {
  Json json;
  try {
    json = parse_json(row, {"this row", false}, {.depth = 64, .values = 1'000'000, .token_bytes = std::size_t{16} << 20});
  } catch (const Error& error) {
    throw RowFault{error.what()};
  }
  return chat_of_row(json);
}

void refuse_ignored(const ChatProgram& program, const Chat& chat) {
  if (const std::string ignored = program.ignored(chat); !ignored.empty())
    throw RowFault{
        fmt::format("{} is not read: the chat template of {} does not render it; leave it out, or give a template that does",
                    ignored, program.file())};
}

}  // namespace pipetrain
