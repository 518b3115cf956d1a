// iter(), list() and len() of Python. Internal to data/.
#pragma once

#include <functional>
#include <memory>
#include <optional>

#include "data/templates/values/object.hpp"
#include "data/templates/values/runtime.hpp"

namespace pipetrain::templates {

std::unique_ptr<Iterator> iterator_of(std::function<std::optional<Value>()> next);
std::unique_ptr<Iterator> iterator_over(Values values);

// Returns null for a value that cannot be iterated. Text gives its characters, a dict its keys, Undefined nothing.
std::unique_ptr<Iterator> try_iterate(const Value& value);
// Throws TemplateFault instead.
std::unique_ptr<Iterator> iterate(const Value& value);

// Returns every value that iterating gives, charged to the runtime.
Values values_of(Runtime& runtime, const Value& value);

// Returns no value for a value without a length. The length of a text counts characters.
std::optional<std::int64_t> length_of(const Value& value);

}  // namespace pipetrain::templates
