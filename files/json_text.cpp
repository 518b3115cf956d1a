// Writes a JSON value as text by nlohmann's library, which takes the fewest digits for a number.
#include <nlohmann/json.hpp>

#include "files/json_misuse.hpp"
#include "files/json_value.hpp"

namespace pipetrain {
namespace {

using nlohmann::ordered_json;

ordered_json copy_of(const Json& value, JsonOrder order) {
  switch (value.kind()) {
    case JsonKind::null:
      return nullptr;
    case JsonKind::boolean:
      return value.as_bool();
    case JsonKind::integer:
      return value.as_int64();
    case JsonKind::unsigned_integer:
      return value.as_uint64();
    case JsonKind::real:
    case JsonKind::large_integer:
      return value.as_double();
    case JsonKind::string:
      return value.as_string();
    case JsonKind::array:
      break;
    case JsonKind::object:
      ordered_json copy = ordered_json::object();
      // Does not insert by key, because an ordered object searches all its members before it inserts one.
      auto& members = copy.get_ref<ordered_json::object_t&>();
      members.reserve(value.size());
      for (const auto& [key, member] : value.items(order)) members.emplace_back(key, copy_of(member, order));
      return copy;
  }
  ordered_json copy = ordered_json::array();
  copy.get_ref<ordered_json::array_t&>().reserve(value.size());
  for (const Json& element : value) copy.push_back(copy_of(element, order));
  return copy;
}

}  // namespace

std::string Json::dump(const JsonStyle& style) const {
  const auto handler = style.replace ? ordered_json::error_handler_t::replace : ordered_json::error_handler_t::strict;
  try {
    return copy_of(*this, style.order).dump(style.indent, ' ', style.ascii, handler);
  } catch (const ordered_json::exception& error) {
    throw JsonMisuse(error.what());
  }
}

}  // namespace pipetrain
