#include "data/templates/functions/attributes.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "data/templates/values/characters.hpp"
#include "data/templates/values/iteration.hpp"
#include "data/templates/values/printing.hpp"

namespace pipetrain::templates {
namespace {

Value missing(const Value& object, const Value& key) {
  const bool is_text = key.text() != nullptr;
  if (object.is<None>() || is_text)
    return make_undefined(fmt::format("'{}' has no attribute {}",
                                      object.is<None>() ? "None" : fmt::format("{} object", type_name(object)), repr(key)));
  return make_undefined(fmt::format("{} object has no element {}", type_name(object), repr(key)));
}

void refuse_undefined_object(const Value& object) {
  if (const Undefined* const undefined = object.as<Undefined>()) fail(*undefined->why);
}

bool is_private(std::string_view name) { return name.starts_with('_'); }

std::optional<Value> group_attribute(const Value& object, std::string_view name) {
  const Tuple* const tuple = object.as<Tuple>();
  if (tuple == nullptr || !tuple->is_group || (name != "grouper" && name != "list")) return std::nullopt;
  return tuple->values()[name == "grouper" ? 0 : 1];
}

// Returns the attribute that getattr() of Python finds.
std::optional<Value> find_attribute(const Value& object, std::string_view name) {
  refuse_undefined_object(object);
  if (is_private(name)) return std::nullopt;
  if (Object* const own = object.object(); own != nullptr) {
    if (auto found = own->attribute(name)) return found;
  }
  if (auto found = group_attribute(object, name)) return found;
  return find_method(object, name);
}

std::optional<std::size_t> place_of(std::int64_t index, std::int64_t size) {
  if (index < 0) index += size;
  return index >= 0 && index < size ? std::optional(static_cast<std::size_t>(index)) : std::nullopt;
}

Value character_at(const Text& text, std::int64_t index) {
  const std::string& bytes = text.string();
  if (index < 0) index += static_cast<std::int64_t>(count_characters(bytes));
  const std::size_t at = index < 0 ? bytes.size() : offset_of(bytes, index);
  if (at >= bytes.size()) return make_undefined("str object has no such element");
  return Value(bytes.substr(at, character_size(bytes, at)), text.is_markup);
}

// Returns the value of object[key] in Python; nothing if that raises an error that Jinja turns into Undefined.
std::optional<Value> find_item(Runtime& runtime, const Value& object, const Value& key) {
  if (const DictItems* const dict = object.dict()) {
    if (key.elements() != nullptr && key.is<List>()) return std::nullopt;  // has no hash
    if (key.dict() != nullptr) return std::nullopt;
    const Value* const found = dict->find(key);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  const auto index = key.integer();
  if (!index) return std::nullopt;
  if (const Text* const text = object.as<Text>()) {
    runtime.charge_steps(text->string().size() / 64);
    Value found = character_at(*text, *index);
    return found.is<Undefined>() ? std::nullopt : std::optional(found);
  }
  if (const Values* const elements = object.elements()) {
    const auto place = place_of(*index, std::ssize(*elements));
    return place ? std::optional((*elements)[*place]) : std::nullopt;
  }
  if (const Range* const range = object.as<Range>()) {
    const auto place = place_of(*index, range->size());
    return place ? std::optional(Value(range->at(static_cast<std::int64_t>(*place)))) : std::nullopt;
  }
  return std::nullopt;
}

// Returns the bounds as indices, as PySlice_AdjustIndices() of CPython does.
Range adjusted(const SliceBounds& bounds, std::int64_t size) {
  const std::int64_t step = std::max<std::int64_t>(bounds.step.value_or(1), -std::numeric_limits<std::int64_t>::max());
  if (step == 0) fail("slice step cannot be zero");
  const std::int64_t lowest = step < 0 ? -1 : 0, highest = step < 0 ? size - 1 : size;
  const auto clamp = [&](std::int64_t index) {
    if (index < 0) index = index < -size ? lowest : index + size;
    return std::clamp(index, lowest, highest);
  };
  const std::int64_t begin = bounds.begin ? clamp(*bounds.begin) : step < 0 ? size - 1 : 0;
  const std::int64_t end = bounds.end ? clamp(*bounds.end) : step < 0 ? -1 : size;
  // A step beyond the size reaches one element only; it must not overflow.
  return {begin, end, std::clamp(step, -size - 1, size + 1)};
}

Value sliced_text(const Text& text, const SliceBounds& bounds) {
  const std::vector<std::string_view> characters = characters_in(text.string());
  const Range range = adjusted(bounds, std::ssize(characters));
  std::string result;
  for (std::int64_t i = 0; i < range.size(); ++i) result += characters[static_cast<std::size_t>(range.at(i))];
  return Value(std::move(result), text.is_markup);
}

}  // namespace

Value get_attribute(const Value& object, std::string_view name) {
  if (auto found = find_attribute(object, name)) return std::move(*found);
  if (const DictItems* const dict = object.dict())
    if (const Value* const found = dict->find(name)) return *found;
  return missing(object, Value(name));
}

Value get_item(Runtime& runtime, const Value& object, const Value& key) {
  refuse_undefined_object(object);
  if (auto found = find_item(runtime, object, key)) return std::move(*found);
  if (const std::string* const name = key.text())
    if (auto found = find_attribute(object, *name)) return std::move(*found);
  return missing(object, key);
}

Value get_slice(Runtime& runtime, const Value& object, const SliceBounds& bounds) {
  refuse_undefined_object(object);
  if (const Text* const text = object.as<Text>()) {
    runtime.charge_bytes(text->string().size());
    return sliced_text(*text, bounds);
  }
  if (const Range* const range = object.as<Range>()) {
    const Range part = adjusted(bounds, range->size());
    return Range{range->at(part.begin), range->at(part.end), range->step * part.step};
  }
  const Values* const elements = object.elements();
  if (elements == nullptr) fail(fmt::format("'{}' object has no slices", type_name(object)));
  const Range part = adjusted(bounds, std::ssize(*elements));
  runtime.charge_values(static_cast<std::size_t>(part.size()));
  Values values;
  for (std::int64_t i = 0; i < part.size(); ++i) values.push_back((*elements)[static_cast<std::size_t>(part.at(i))]);
  return object.is<List>() ? make_list(std::move(values)) : make_tuple(std::move(values));
}

Value get_path(Runtime& runtime, const Value& object, const Value& path) {
  if (path.text() == nullptr) return path.is<None>() ? object : get_item(runtime, object, path);
  Value value = object;
  for (const std::string_view part : split_at(*path.text(), ".", -1, false)) {
    std::int64_t index = 0;
    const bool is_index = is_all(part, TextClass::digit) && part.size() < 18 &&
                          std::from_chars(part.data(), part.data() + part.size(), index).ec == std::errc();
    value = get_item(runtime, value, is_index ? Value(index) : Value(part));
  }
  return value;
}

}  // namespace pipetrain::templates
