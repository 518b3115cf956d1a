#include "files/json_builder.hpp"

#include <fmt/format.h>

#include <utility>

#include "files/json.hpp"

namespace pipetrain {

using nlohmann::json;

json JsonBuilder::take() {
  is_complete_ = false;
  return std::exchange(root_, json());
}

void JsonBuilder::open(json::value_t kind) { open_.push_back(place(json(kind))); }

void JsonBuilder::close() {
  open_.pop_back();
  is_complete_ = open_.empty();
}

void JsonBuilder::key(std::string&& name, std::size_t line) {
  const auto [member, is_new] = open_.back()->get_ref<json::object_t&>().try_emplace(std::move(name));
  if (!is_new) throw JsonFault(line, fmt::format("key {} appears twice; keep one", shown_json_key(member->first)));
  member_ = &member->second;
}

void JsonBuilder::value(json&& value) {
  place(std::move(value));
  is_complete_ = open_.empty();
}

json* JsonBuilder::place(json&& value) {
  if (open_.empty()) return &(root_ = std::move(value));
  if (open_.back()->is_object()) return &(*member_ = std::move(value));
  auto& elements = open_.back()->get_ref<json::array_t&>();
  return &elements.emplace_back(std::move(value));
}

std::string shown_json_key(const std::string& key) { return json(key).dump(-1, ' ', true, json::error_handler_t::replace); }

}  // namespace pipetrain
