#include "data/rows/preference_row.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"
#include "data/rows/chat_row.hpp"
#include "data/rows/jsonl_row.hpp"
#include "data/rows/row_keys.hpp"
#include "files/json.hpp"
#include "files/json_builder.hpp"

namespace pipetrain {
namespace {

const char* wanted_preference_rows(PreferenceForm form) {
  return form == PreferenceForm::pairs ? R"(write one row {"prompt": "...", "chosen": "...", "rejected": "..."} a line)"
                                       : R"(write one row {"prompt": "...", "completion": "...", "label": true} a line)";
}

// Checks keys besides those of the form; returns those that a chat template may render.
Json check_preference_keys(const Json& row, PreferenceForm form, bool is_chat, UnreadKeys* unread) {
  Json rendered = Json::object();
  const std::string_view of_rankings = rule_of_key("rejected").why;
  for (const auto& [key, value] : row.items()) {
    const bool is_pair_key = key == "chosen" || key == "rejected", is_label_key = key == "completion" || key == "label";
    if (key == "prompt" || (form == PreferenceForm::pairs ? is_pair_key : is_label_key) || value.is_null()) continue;
    const KeyRule rule = rule_of_key(key);
    if (is_chat && is_for_templates(key)) {
      rendered[key] = value;
      continue;
    }
    // Datasets of preferences often keep the chosen conversation, and scores of both completions, a second time.
    const bool repeats = row_key(key) == RowKey::messages || rule.why == of_rankings;
    const bool is_read = rule.meaning == KeyMeaning::content || row_key(key) != RowKey::other;
    if (is_read && !repeats)
      throw RowFault{fmt::format("{} is not read in a row of preferences; leave it out", shown_json_key(key.substr(0, 60)))};
    const bool is_one = value == true || (value.is_number() && value.as_double() == 1);
    if (rule.meaning == KeyMeaning::weight && !is_one)
      throw RowFault{fmt::format("{} is not read: {}", shown_json_key(key.substr(0, 60)), rule.why)};
    if (unread != nullptr && (repeats || rule.meaning == KeyMeaning::unknown)) unread->add(key);
  }
  return rendered;
}

const Json& completion_at(const Json& row, const char* key, PreferenceForm form) {
  const Json* const found = row.find(key);
  if (found == nullptr || found->is_null())
    throw RowFault{fmt::format("this row has no \"{}\"; {}", key, wanted_preference_rows(form))};
  if (!found->is_string() && !found->is_array())
    throw RowFault{fmt::format("\"{}\" is neither a string nor an array of messages; {}", key, wanted_preference_rows(form))};
  const bool is_empty = found->is_string() ? found->as_string().empty() : found->empty();
  if (is_empty) throw RowFault{fmt::format("\"{}\" is empty, so there is nothing to learn; give an answer", key)};
  return *found;
}

Chat chat_of(Json messages, const Json& rendered) {
  Json row = rendered;
  row["messages"] = std::move(messages);
  return chat_of_row(row);
}

Json joined(const Json& first, const Json& second) {
  Json all = first;
  for (const Json& message : second) all.push_back(message);
  return all;
}

// The messages from `begin` to before `end`.
Json part_of(const Json& messages, std::size_t begin, std::size_t end) {
  Json part = Json::array();
  for (std::size_t i = begin; i < end; ++i) part.push_back(messages[i]);
  return part;
}

// Returns how many messages two conversations begin with in common, leaving each at least one.
std::size_t common_messages(const Json& one, const Json& other) {
  const std::size_t most = std::min(one.size(), other.size()) - 1;
  std::size_t common = 0;
  while (common < most && one[common] == other[common]) ++common;
  return common;
}

class PreferenceReader {
 public:
  PreferenceReader(const Json& row, PreferenceForm form, UnreadKeys* unread) : row_(row), form_(form), unread_(unread) {}

  PreferenceRow read() const {
    if (form_ == PreferenceForm::pairs) return read_pair();
    const Json& completion = completion_at(row_, "completion", form_);
    PreferenceRow result = read_completions({{"completion", &completion}});
    const Json* const label = row_.find("label");
    if (label == nullptr || !label->is_boolean())
      throw RowFault{fmt::format(R"("label" must be there, and be true or false; {})", wanted_preference_rows(form_))};
    result.desirable = label->as_bool();
    return result;
  }

 private:
  struct Named {
    const char* key;
    const Json* value;
  };

  PreferenceRow read_pair() const {
    const Json &chosen = completion_at(row_, "chosen", form_), &rejected = completion_at(row_, "rejected", form_);
    if (chosen.is_array() != rejected.is_array())
      throw RowFault{R"(one of "chosen" and "rejected" is a string and the other an array; give two of a kind)"};
    const Json* const prompt = row_.find("prompt");
    if (chosen.is_array() && (prompt == nullptr || !prompt->is_array())) return read_conversations(chosen, rejected);
    return read_completions({{"chosen", &chosen}, {"rejected", &rejected}});
  }

  PreferenceRow read_conversations(const Json& chosen, const Json& rejected) const {
    PreferenceRow result{.is_chat = true};
    const Json rendered = check_preference_keys(row_, form_, true, unread_);
    const std::size_t common = common_messages(chosen, rejected);
    if (common == 0)
      throw RowFault{
          R"("chosen" and "rejected" begin with different messages, so the row has no prompt; add a "prompt" of messages)"};
    const Chat prompt = chat_of(part_of(chosen, 0, common), rendered);
    for (const Json* const whole : {&chosen, &rejected})
      result.completions.push_back({.prompt_chat = prompt, .whole_chat = chat_of(*whole, rendered)});
    return result;
  }

  PreferenceRow read_completions(const std::vector<Named>& completions) const {
    const Json* const prompt = row_.find("prompt");
    const Named& first = completions.front();
    PreferenceRow result{.is_chat = first.value->is_array()};
    const bool fits = prompt != nullptr && (result.is_chat ? prompt->is_array() && !prompt->empty() : prompt->is_string());
    if (!fits)
      throw RowFault{fmt::format(R"("prompt" must be there, and be {} as "{}" is; {})",
                                 result.is_chat ? "an array of messages" : "a string", first.key,
                                 wanted_preference_rows(form_))};
    const Json rendered = check_preference_keys(row_, form_, result.is_chat, unread_);
    for (const Named& completion : completions) {
      Completion& one = result.completions.emplace_back();
      if (!result.is_chat) {
        one.prompt = prompt->as_string();
        one.text = completion.value->as_string();
        continue;
      }
      one.prompt_chat = chat_of(*prompt, rendered);
      one.whole_chat = chat_of(joined(*prompt, *completion.value), rendered);
    }
    return result;
  }

  const Json& row_;
  PreferenceForm form_;
  UnreadKeys* unread_;
};

}  // namespace

PreferenceRow parse_preference_row(std::string_view row, PreferenceForm form, UnreadKeys* unread) {
  Json json;
  try {
    json = parse_json(row, {"this row", false}, {.depth = 64, .values = 1'000'000, .token_bytes = std::size_t{16} << 20});
  } catch (const Error& error) {
    throw RowFault{error.what()};
  }
  if (!json.is_object()) throw RowFault{fmt::format("this row is not a JSON object; {}", wanted_preference_rows(form))};
  return PreferenceReader(json, form, unread).read();
}

}  // namespace pipetrain
