// str(), repr() and json.dumps() of Python. Internal to data/.
#pragma once

#include <string>
#include <string_view>

#include "data/templates/values/runtime.hpp"
#include "data/templates/values/value.hpp"

namespace pipetrain::templates {

// Longer texts of containers are refused: all throw TemplateFault.
inline constexpr std::size_t most_printed_bytes = std::size_t{64} << 20;

std::string float_repr(double number);
std::string text_repr(std::string_view text);
std::string repr(const Value& value);
// Returns the text that {{ value }} prints.
std::string printed(const Value& value);

struct JsonOptions {
  bool ascii = false;
  bool sorts_keys = false;
  std::string indent;  // of each level
  bool has_indent = false;
  std::string item_separator = ", ", key_separator = ": ";
};
// Throws TemplateFault for a value that JSON does not have.
std::string json_of(const Value& value, const JsonOptions& options);

}  // namespace pipetrain::templates
