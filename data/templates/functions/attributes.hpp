// object.name, object[key] and object[begin:end:step], by the rules of Jinja's sandbox. Internal to data/.
#pragma once

#include <optional>
#include <string_view>

#include "data/templates/values/runtime.hpp"

namespace pipetrain::templates {

// Returns the method or other attribute of this name, else the item of this name, else Undefined. Methods that change their
// object are Undefined too. Throws TemplateFault for an attribute of Undefined, and for methods that are not supported.
Value get_attribute(const Value& object, std::string_view name);
// Returns the item of this key. If there is none and the key is text, returns the attribute of this name, else Undefined.
Value get_item(Runtime& runtime, const Value& object, const Value& key);

struct SliceBounds {
  std::optional<std::int64_t> begin, end, step;
};
// Throws TemplateFault for a value that has no slices.
Value get_slice(Runtime& runtime, const Value& object, const SliceBounds& bounds);

// Returns the value at a path such as "user.name" or 0, which the filters "map", "sort" and others take as an attribute. Looks
// each part up with get_item().
Value get_path(Runtime& runtime, const Value& object, const Value& path);

// Returns the type's method of this name, bound to the value; no value where there is none. Throws TemplateFault for a method
// that is not supported.
std::optional<Value> find_method(const Value& value, std::string_view name);

}  // namespace pipetrain::templates
