// Reads the names that statements assign to, and the parameters of macros. Internal to data/.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "data/templates/syntax/expression_parser.hpp"

namespace pipetrain::templates {

// Deeper blocks, and targets in deeper brackets, are refused, so that functions may walk them by recursion.
inline constexpr int deepest_block = 100;

// All methods throw TemplateFault with the line of the fault.
class TargetParser {
 public:
  // The parser of the same template, which must outlive this.
  explicit TargetParser(ExpressionParser& expressions) : expressions_(expressions), tokens_(expressions.tokens()) {}

  // Reads names that are separated by commas. They end at the name `end_name` or at any other sign.
  Target target(std::string_view end_name, bool with_attributes = false);
  // Reads parameters in brackets, with their defaults.
  std::vector<Parameter> parameters();

 private:
  std::string assigned_name();
  Target single_target(bool with_attributes);

  ExpressionParser& expressions_;
  TokenReader& tokens_;
  int depth_ = 0;
};

}  // namespace pipetrain::templates
