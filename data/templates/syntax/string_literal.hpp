// The strings and numbers that stand in expressions of a template. Internal to data/.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace pipetrain::templates {

// Returns the text of a string, given the characters between its quotes. Throws TemplateFault for an invalid escape.
std::string string_of_literal(std::string_view literal, int line);

struct NumberLiteral {
  bool is_real = false;
  std::size_t size = 0;  // of the literal
  std::string digits;    // without "_"
};
// Reads the number that a text begins with. A number after a dot, as in list.0, is an integer.
NumberLiteral read_number_literal(std::string_view text, bool is_after_dot);

}  // namespace pipetrain::templates
