#include "data/templates/syntax/target_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

namespace pipetrain::templates {

using Kind = Token::Kind;

std::vector<Parameter> TargetParser::parameters() {
  std::vector<Parameter> all;
  tokens_.expect_sign("(");
  while (!tokens_.current().is_sign(")")) {
    if (!all.empty()) tokens_.expect_sign(",");
    Parameter one;
    one.name = assigned_name();
    if (tokens_.take_sign("=")) {
      one.otherwise = expressions_.expression();
    } else if (!all.empty() && all.back().otherwise) {
      tokens_.fail_here("a parameter without a default follows one with a default");
    }
    all.push_back(std::move(one));
  }
  tokens_.expect_sign(")");
  return all;
}

std::string TargetParser::assigned_name() {
  constexpr std::string_view constants[] = {"true", "false", "none", "True", "False", "None"};
  const Token token = tokens_.current();
  std::string name = tokens_.expect_name();
  if (std::find(std::begin(constants), std::end(constants), name) != std::end(constants))
    throw TemplateFault{fmt::format("nothing can be assigned to '{}'", name), token.line};
  return name;
}

Target TargetParser::target(std::string_view end_name, bool with_attributes) {
  Target all;
  all.line = tokens_.current().line;
  while (!(tokens_.current().is_name(end_name) || tokens_.current().kind == Kind::block_end || tokens_.current().is_sign("=") ||
           tokens_.current().is_sign("|") || tokens_.current().is_sign(")"))) {
    all.parts.push_back(single_target(with_attributes));
    if (!tokens_.take_sign(",")) break;
    all.is_tuple = true;
  }
  if (all.parts.empty()) tokens_.fail_here("a name is expected");
  if (all.is_tuple) return all;
  Target only = std::move(all.parts.front());
  return only;
}

Target TargetParser::single_target(bool with_attributes) {
  const int line = tokens_.current().line;
  if (tokens_.take_sign("(")) {
    if (++depth_ > deepest_block) tokens_.fail_here("targets are nested too deep");
    Target inner = target("", with_attributes);
    --depth_;
    tokens_.expect_sign(")");
    return inner;
  }
  Target one;
  one.line = line;
  one.name = assigned_name();
  if (with_attributes && tokens_.take_sign(".")) one.attribute = tokens_.expect_name();
  return one;
}

}  // namespace pipetrain::templates
