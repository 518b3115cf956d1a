// object.name, object[key] and object[begin:end:step], by the rules of Jinja's sandbox. Internal to data/.
#pragma once

#include <optional>
#include <string_view>

#include "data/templates/values/runtime.hpp"

namespace pipetrain::templates {

// A method or other attribute, else the item of this name; Undefined where there is neither. Methods that change their object
// are Undefined too. Throws TemplateFault for an attribute of Undefined, and for methods that are not supported.
Value get_attribute(const Value& object, std::string_view name);
// The item, else, for a key that is text, the attribute of this name; Undefined where there is neither.
Value get_item(Runtime& runtime, const Value& object, const Value& key);

struct SliceBounds {
  std::optional<std::int64_t> begin, end, step;
};
// Throws TemplateFault for a value that has no slices.
Value get_slice(Runtime& runtime, const Value& object, const SliceBounds& bounds);

// "user.name" or 0, as the filters "map", "sort" and others take an attribute; each part as get_item() has it.
Value get_path(Runtime& runtime, const Value& object, const Value& path);

// A method of the type by its name, bound to the value; nothing where there is none. Throws TemplateFault for one that is not
// supported.
std::optional<Value> find_method(const Value& value, std::string_view name);

}  // namespace pipetrain::templates
