#include "data/templates/functions/call_arguments.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace pipetrain::templates {

BoundArguments::BoundArguments(std::string_view function, const Arguments& arguments,
                               std::initializer_list<const char*> parameters, std::size_t required)
    : function_(function), names_(parameters), values_(parameters.size()) {
  if (arguments.positional.size() > names_.size())
    fail(fmt::format("{}() takes {} arguments, not {}", function_, names_.size(), arguments.positional.size()));
  for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = arguments.positional[i];
  for (const auto& [name, value] : arguments.named) {
    const auto found = std::find(names_.begin(), names_.end(), std::string_view(name));
    if (found == names_.end()) fail(fmt::format("{}() has no argument '{}'", function_, name));
    auto& slot = values_[static_cast<std::size_t>(found - names_.begin())];
    if (slot) fail(fmt::format("{}() gets two values for its argument '{}'", function_, name));
    slot = value;
  }
  for (std::size_t i = 0; i < required; ++i)
    if (!values_[i]) fail(fmt::format("{}() needs the argument '{}'", function_, names_[i]));
}

const Value* BoundArguments::find_some(std::size_t index) const {
  const Value* const value = find(index);
  return value == nullptr || value->is<None>() ? nullptr : value;
}

void BoundArguments::fail_type(std::size_t index, const char* wanted) const {
  const Value& value = at(index);
  if (value.is<Undefined>()) fail(*value.as<Undefined>()->why);
  fail(fmt::format("the argument '{}' of {}() is of the type '{}', not '{}'", names_[index], function_, type_name(value),
                   wanted));
}

bool BoundArguments::truth(std::size_t index, bool otherwise) const {
  const Value* const value = find(index);
  return value == nullptr ? otherwise : templates::truth(*value);
}

std::int64_t BoundArguments::integer(std::size_t index, std::int64_t otherwise) const {
  const Value* const value = find(index);
  if (value == nullptr) return otherwise;
  const auto integer = value->integer();
  if (!integer) fail_type(index, "int");
  return *integer;
}

const std::string& BoundArguments::text(std::size_t index) const {
  const std::string* const text = at(index).text();
  if (text == nullptr) fail_type(index, "str");
  return *text;
}

std::string BoundArguments::text_or(std::size_t index, const std::string& otherwise) const {
  return find(index) == nullptr ? otherwise : text(index);
}

}  // namespace pipetrain::templates
