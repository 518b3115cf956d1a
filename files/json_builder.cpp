#include "files/json_builder.hpp"

#include <fmt/format.h>

#include <utility>

#include "files/json.hpp"
#include "files/json_fault.hpp"

namespace pipetrain {

Json JsonBuilder::take() {
  is_complete_ = false;
  return std::exchange(root_, Json());
}

void JsonBuilder::open(JsonKind kind) { open_.push_back(place(kind == JsonKind::object ? Json::object() : Json::array())); }

void JsonBuilder::close() {
  open_.pop_back();
  is_complete_ = open_.empty();
}

void JsonBuilder::key(std::string&& name, std::size_t line) {
  member_ = open_.back()->add(std::move(name));
  if (member_ == nullptr) throw JsonFault(line, fmt::format("key {} appears twice; keep one", shown_json_key(name)));
}

void JsonBuilder::value(Json&& value) {
  place(std::move(value));
  is_complete_ = open_.empty();
}

Json* JsonBuilder::place(Json&& value) {
  if (open_.empty()) return &(root_ = std::move(value));
  if (open_.back()->is_object()) return &(*member_ = std::move(value));
  return &open_.back()->push_back(std::move(value));
}

std::string shown_json_key(std::string_view key) { return Json(key).dump({.ascii = true, .replace = true}); }

}  // namespace pipetrain
