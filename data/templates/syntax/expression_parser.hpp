// Reads the expressions in the tags of a template. Internal to data/.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/templates/syntax/ast.hpp"
#include "data/templates/syntax/operand_parser.hpp"
#include "data/templates/syntax/token_reader.hpp"

namespace pipetrain::templates {

// The grammar of jinja2/parser.py. All methods throw TemplateFault with the line.
class ExpressionParser : public NestedExpressions {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)), operands_(tokens_, *this) {}
  ExpressionParser(const ExpressionParser&) = delete;
  ExpressionParser& operator=(const ExpressionParser&) = delete;

  TokenReader& tokens() { return tokens_; }
  Expression expression() override;
  Expression expression_without_condition();  // an if after it is not part of it
  Expression tuple() override { return tuple(true, ""); }
  // Reads a tuple that also ends before this name.
  Expression tuple(bool with_condition, std::string_view end_name = "");
  // Reads filters without a value in front, as in {% filter NAME %} and {% set a | NAME %}.
  Expression filters_of_block() { return operands_.filters_of_block(); }

  // These return every name, attribute and string read so far, and only the names read since the caller emptied them.
  const std::set<std::string>& words() const { return operands_.words(); }
  std::set<std::string>& names() { return operands_.names(); }

 private:
  class Nesting;
  Expression disjunction();
  Expression conjunction();
  Expression negation();
  Expression comparison();
  Expression sum();
  Expression concatenation();
  Expression product();
  Expression power();
  Expression unary(bool with_filters = true);
  bool ends_tuple(std::string_view end_name) const;

  TokenReader tokens_;
  OperandParser operands_;
  int depth_ = 0;
};

}  // namespace pipetrain::templates
