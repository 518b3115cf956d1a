#include "data/rows/message_reader.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "data/rows/chat_row.hpp"
#include "files/json_builder.hpp"

namespace pipetrain {

void MessageReader::begin() {
  if (row_.messages.size() == most_row_messages)
    throw RowFault{fmt::format("this row has more than {} messages; split it", most_row_messages)};
  row_.messages.emplace_back();
  keys_.clear();
  has_role_ = has_text_ = false;
}

MessageReader::Field MessageReader::key(std::string_view key) {
  constexpr std::size_t most_keys = 1000;
  key_ = key.substr(0, 60);
  if (!keys_.insert(std::string(key)).second) refuse(fmt::format("has {} twice; keep one", shown_json_key(key_)));
  key_bytes_ += key.size();
  if (keys_.size() > most_keys || key_bytes_ > most_row_key_bytes) refuse("has too many keys; leave some out");
  if (key == "role" || key == "from") return Field::role;
  return key == "content" || key == "value" ? Field::text : Field::other;
}

void MessageReader::note_unrendered(std::string why) {
  if (row_.unrendered.empty()) row_.unrendered = std::move(why);
}

void MessageReader::not_text(Field field) {
  if (field == Field::role) refuse("has a \"role\" or \"content\" that is not a string");
  has_text_ = true;
  note_unrendered(fault_of("has a \"role\" or \"content\" that is not a string"));
}

// A chat template may render any field of a message; the built-in ones allow only fields that are known not to be part of the
// text.
void MessageReader::other(ValueKind kind) {
  const KeyMeaning meaning = rule_of_key(key_).meaning;
  const bool is_neutral = meaning == KeyMeaning::harmless || (meaning == KeyMeaning::weight && kind == ValueKind::one);
  const bool is_nothing = kind == ValueKind::null || (kind == ValueKind::empty && meaning != KeyMeaning::weight);
  if (is_nothing || is_neutral) return;
  const std::string why = fmt::format("has {}, which is not read; give \"role\" and \"content\" only", shown_json_key(key_));
  if (meaning == KeyMeaning::weight) refuse(why);
  note_unrendered(fault_of(why));
}

void MessageReader::text(Field field, std::string_view text) {
  const bool is_role = field == Field::role;
  (is_role ? row_.messages.back().role : row_.messages.back().text) = is_role ? usual_role(text) : text;
  (is_role ? has_role_ : has_text_) = true;
}

void MessageReader::end() {
  const std::string why =
      fmt::format("has no \"{}\"; write {{\"role\": \"user\", \"content\": \"...\"}}", has_role_ ? "content" : "role");
  if (!has_role_) refuse(why);
  if (!has_text_) note_unrendered(fault_of(why));
}

std::string MessageReader::fault_of(std::string_view why) const {
  return fmt::format("messages[{}] {}", std::max<std::size_t>(row_.messages.size(), 1) - 1, why);
}

}  // namespace pipetrain
