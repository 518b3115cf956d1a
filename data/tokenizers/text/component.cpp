#include "data/tokenizers/text/component.hpp"

#include <fmt/format.h>

#include "core/error.hpp"
#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain {

Component::Component(std::string file, std::string part, const Json& value)
    : file_(std::move(file)), part_(std::move(part)), place_(fmt::format("{}: {}", file_, part_)), value_(&value) {
  if (!value.is_object()) fail("is not a JSON object");
  const Json* type = find("type");
  if (type == nullptr || !type->is_string()) fail("has no \"type\"");
  type_ = type->as_string();
  place_ += " " + (type_.size() > 60 ? "of an unknown type" : type_);
}

void Component::fail(const std::string& what) const {
  throw Error(ErrorKind::input, fmt::format("{}: {}; {}", place_, what, tokenizer_file_remedy));
}

void Component::fail_unsupported(const std::string& what) const {
  throw Error(ErrorKind::input, fmt::format("{}: {}; give another tokenizer", place_, what));
}

void Component::fail_type(std::string_view known) const {
  throw Error(ErrorKind::input,
              fmt::format("{}: this type of {} is not supported; give a tokenizer with {}", place_, part_, known));
}

const Json* Component::find(const char* key) const {
  const Json* const found = value_->find(key);
  return found == nullptr || found->is_null() ? nullptr : found;
}

const Json& Component::get(const char* key) const {
  const Json* value = find(key);
  if (value == nullptr) fail(fmt::format("\"{}\" is missing", key));
  return *value;
}

bool Component::flag(const char* key, bool otherwise) const {
  const Json* value = find(key);
  if (value == nullptr) return otherwise;
  if (!value->is_boolean()) fail(fmt::format("\"{}\" is neither true nor false", key));
  return value->as_bool();
}

std::int64_t Component::integer(const char* key, std::int64_t least, std::int64_t most) const {
  const Json& value = get(key);
  const auto number = value.whole();
  if (!number || *number < least || *number > most)
    fail(fmt::format("\"{}\" is not an integer from {} to {}", key, least, most));
  return *number;
}

std::string Component::text(const char* key) const {
  const Json& value = get(key);
  if (!value.is_string()) fail(fmt::format("\"{}\" is not a string", key));
  return value.as_string();
}

std::string Component::text_or(const char* key, const std::string& otherwise) const {
  return find(key) == nullptr ? otherwise : text(key);
}

char32_t Component::character(const char* key) const {
  const std::string value = text(key);
  if (value.empty() || utf8_length(value[0]) != value.size()) fail(fmt::format("\"{}\" is not one character", key));
  std::size_t at = 0;
  return next_code_point(value, at);
}

Regex Component::pattern(const char* key) const {
  const Json& value = get(key);
  if (value.is_string()) return Regex::literal(value.as_string(), place_);
  if (const auto members = value.items(); members.size() == 1 && members[0].value.is_string()) {
    if (members[0].key == "String") return Regex::literal(members[0].value.as_string(), place_);
    if (members[0].key == "Regex") return Regex(members[0].value.as_string(), place_);
  }
  fail(fmt::format(R"("{}" is neither {{"String": "..."}} nor {{"Regex": "..."}})", key));
}

std::string Component::literal_pattern(const char* key) const {
  const Json& value = get(key);
  if (value.is_string()) return value.as_string();
  const Json* const text = value.find("String");
  return text && text->is_string() ? text->as_string() : "";
}

std::vector<Component> Component::parts(const char* key) const {
  const Json& list = get(key);
  if (!list.is_array()) fail(fmt::format("\"{}\" is not an array", key));
  std::vector<Component> parts;
  for (const Json& part : list) parts.emplace_back(file_, part_, part);
  return parts;
}

}  // namespace pipetrain
