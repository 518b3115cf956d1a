#include "files/json_value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <limits>
#include <map>

#include "files/json_misuse.hpp"

namespace pipetrain {
namespace {

const char* name_of(JsonKind kind) {
  constexpr const char* names[] = {"null",          "a boolean",       "an integer", "an unsigned integer",
                                   "a real number", "a large integer", "a string",   "an array",
                                   "an object"};
  return names[static_cast<std::size_t>(kind)];
}

[[noreturn]] void refuse_json(JsonKind kind, const char* wanted) {
  throw JsonMisuse(fmt::format("a JSON value is {}, not {}", name_of(kind), wanted));
}

// Throws the error for a missing member, which is a bug of the program.
[[noreturn]] void refuse_key(std::string_view key) { throw JsonMisuse(fmt::format("a JSON object has no \"{}\"", key)); }

}  // namespace

struct Json::Object {
  struct Value {
    std::size_t place = 0;  // in the order of insertion
    Json value;
  };
  std::map<std::string, Value, std::less<>> members;
};

Json::Json(std::string value) : kind_(JsonKind::string), held_{.string = new std::string(std::move(value))} {}

Json Json::array(std::initializer_list<Json> elements) {
  Json made;
  made.held_.array = new std::vector<Json>(elements);
  made.kind_ = JsonKind::array;
  return made;
}

Json Json::object() {
  Json made;
  made.held_.object = new Object;
  made.kind_ = JsonKind::object;
  return made;
}

Json Json::object(std::initializer_list<Member> members) {
  Json made = object();
  for (const Member& member : members)
    if (Json* const place = made.add(std::string(member.key))) *place = member.value;
  return made;
}

Json Json::large_integer(std::string digits) {
  Json made(std::move(digits));
  made.kind_ = JsonKind::large_integer;
  return made;
}

Json::Json(const Json& other) : held_(other.held_) {
  if (other.is_string() || other.is_large_integer()) held_.string = new std::string(*other.held_.string);
  if (other.is_array()) held_.array = new std::vector<Json>(*other.held_.array);
  if (other.is_object()) held_.object = new Object(*other.held_.object);
  kind_ = other.kind_;  // last, because a copy that throws leaves nothing to release
}

Json& Json::operator=(Json other) noexcept {
  std::swap(kind_, other.kind_);
  std::swap(held_, other.held_);
  return *this;
}

void Json::release() noexcept {
  if (is_string() || is_large_integer()) delete held_.string;
  if (is_array()) delete held_.array;
  if (is_object()) delete held_.object;
}

bool Json::as_bool() const {
  if (!is_boolean()) refuse_json(kind_, "a boolean");
  return held_.boolean;
}

std::optional<std::int64_t> Json::whole() const noexcept {
  constexpr std::uint64_t most = std::numeric_limits<std::int64_t>::max();
  if (kind_ == JsonKind::integer) return held_.integer;
  if (is_unsigned() && held_.unsigned_integer <= most) return static_cast<std::int64_t>(held_.unsigned_integer);
  return std::nullopt;
}

std::int64_t Json::as_int64() const {
  const auto number = whole();
  if (!number) refuse_json(kind_, "an integer of 64 bits with a sign");
  return *number;
}

std::uint64_t Json::as_uint64() const {
  if (!is_unsigned() && !(kind_ == JsonKind::integer && held_.integer >= 0)) refuse_json(kind_, "an integer from 0 on");
  return is_unsigned() ? held_.unsigned_integer : static_cast<std::uint64_t>(held_.integer);
}

double Json::as_double() const {
  if (!is_number()) refuse_json(kind_, "a number");
  if (is_real()) return held_.real;
  if (is_large_integer()) return std::strtod(held_.string->c_str(), nullptr);
  return is_unsigned() ? static_cast<double>(held_.unsigned_integer) : static_cast<double>(held_.integer);
}

const std::string& Json::digits() const {
  if (!is_large_integer()) refuse_json(kind_, "a large integer");
  return *held_.string;
}

const std::string& Json::as_string() const {
  if (!is_string()) refuse_json(kind_, "a string");
  return *held_.string;
}

std::string& Json::as_string() {
  if (!is_string()) refuse_json(kind_, "a string");
  return *held_.string;
}

std::size_t Json::size() const noexcept {
  if (is_array()) return held_.array->size();
  return is_object() ? held_.object->members.size() : 0;
}

const Json* Json::begin() const noexcept { return is_array() ? held_.array->data() : nullptr; }

const Json& Json::operator[](std::size_t index) const {
  if (!is_array()) refuse_json(kind_, "an array");
  if (index >= size()) throw JsonMisuse(fmt::format("a JSON array of {} has no element {}", size(), index));
  return (*held_.array)[index];
}

Json& Json::push_back(Json value) {
  if (is_null()) *this = array();
  if (!is_array()) refuse_json(kind_, "an array");
  return held_.array->emplace_back(std::move(value));
}

const Json* Json::find(std::string_view key) const noexcept {
  if (!is_object()) return nullptr;
  const auto found = held_.object->members.find(key);
  return found == held_.object->members.end() ? nullptr : &found->second.value;
}

const Json& Json::at(std::string_view key) const {
  if (!is_object()) refuse_json(kind_, "an object");
  const Json* const found = find(key);
  if (found == nullptr) refuse_key(key);
  return *found;
}

Json& Json::operator[](std::string_view key) {
  if (is_null()) *this = object();
  if (!is_object()) refuse_json(kind_, "an object");
  auto& members = held_.object->members;
  const auto found = members.find(key);
  return found != members.end() ? found->second.value : *add(std::string(key));
}

Json* Json::add(std::string&& key) {
  if (!is_object()) refuse_json(kind_, "an object");
  auto& members = held_.object->members;
  const std::size_t place = members.size();
  const auto [member, is_new] = members.try_emplace(std::move(key));
  if (!is_new) return nullptr;
  member->second.place = place;
  return &member->second.value;
}

std::vector<Json::Item> Json::items(JsonOrder order) const {
  std::vector<Item> items;
  if (!is_object()) return items;
  const auto& members = held_.object->members;
  items.reserve(members.size());
  if (order == JsonOrder::by_key) {
    for (const auto& [key, held] : members) items.push_back({key, held.value});
    return items;
  }
  std::vector<const std::pair<const std::string, Object::Value>*> by_place(members.size());  // members are never removed
  for (const auto& member : members) by_place[member.second.place] = &member;
  for (const auto* member : by_place) items.push_back({member->first, member->second.value});
  return items;
}

bool operator==(const Json& one, const Json& other) {
  if (one.is_integer() && other.is_integer()) {
    if (one.whole() && other.whole()) return one.whole() == other.whole();
    return one.kind_ == other.kind_ && one.held_.unsigned_integer == other.held_.unsigned_integer;
  }
  if (one.is_large_integer() && other.is_large_integer()) return one.digits() == other.digits();
  if (one.is_number() && other.is_number()) return one.as_double() == other.as_double();
  if (one.kind_ != other.kind_) return false;
  if (one.is_boolean()) return one.held_.boolean == other.held_.boolean;
  if (one.is_string()) return *one.held_.string == *other.held_.string;
  if (one.is_array()) return *one.held_.array == *other.held_.array;
  if (!one.is_object()) return true;  // both are null
  const auto& members = one.held_.object->members;
  const auto& others = other.held_.object->members;
  return std::equal(members.begin(), members.end(), others.begin(), others.end(),
                    [](const auto& a, const auto& b) { return a.first == b.first && a.second.value == b.second.value; });
}

}  // namespace pipetrain
