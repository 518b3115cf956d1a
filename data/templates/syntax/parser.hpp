// Reads a template into its syntax tree. Internal to data/.
#pragma once

#include <set>
#include <string>
#include <string_view>

#include "data/templates/syntax/ast.hpp"

namespace pipetrain::templates {

struct ParsedTemplate {
  Block body;
  std::set<std::string> words;  // every name, attribute and string in its expressions
  bool has_generation = false;  // {% generation %} marks what the model is to say
};

// The text must be valid UTF-8. Throws TemplateFault with the line.
ParsedTemplate parse_template(std::string_view source);

}  // namespace pipetrain::templates
