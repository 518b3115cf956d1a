// Reads the expressions in the tags of a template. Internal to data/.
#pragma once

#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "data/templates/syntax/ast.hpp"
#include "data/templates/syntax/token.hpp"

namespace pipetrain::templates {

// The grammar of jinja2/parser.py. All methods throw TemplateFault with the line.
class ExpressionParser {
 public:
  explicit ExpressionParser(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[at_]; }
  const Token& following() const { return tokens_[at_ + 1 < tokens_.size() ? at_ + 1 : at_]; }
  Token take();
  bool take_name(std::string_view name);
  bool take_sign(std::string_view sign);
  std::string expect_name();
  void expect_name(std::string_view name);
  void expect_sign(std::string_view sign);
  void expect(Token::Kind kind, const char* what);
  [[noreturn]] void fail_here(std::string why) const;

  Expression expression();
  Expression expression_without_condition();  // an if behind it is not part of it
  // One expression, or several with commas between, which are a tuple.
  Expression tuple(bool with_condition = true, std::string_view end_name = "");
  // Filters alone, behind which there is no value, as {% filter NAME %} and {% set a | NAME %} have them.
  Expression filters_of_block();

  // Every name, attribute and string so far.
  const std::set<std::string>& words() const { return words_; }
  void begin_names() { names_.clear(); }
  // The names that expressions load since begin_names().
  std::set<std::string>& names() { return names_; }

 private:
  Expression disjunction();
  Expression conjunction();
  Expression negation();
  Expression comparison();
  Expression sum();
  Expression concatenation();
  Expression product();
  Expression power();
  Expression unary(bool with_filters = true);
  Expression primary();
  Expression literal(Token token);
  Expression list();
  Expression dict();
  Expression postfix(Expression value);
  Expression filtered(Expression value);
  Expression filter(ExpressionPointer input);
  Expression test(Expression value);
  Expression attribute(Expression object);
  Expression subscript(Expression object);
  Expression slice(Expression object, ExpressionPointer begin);
  Expression call(Expression callee);
  CallArguments arguments();
  void add_argument(CallArguments& arguments);
  bool ends_tuple(std::string_view end_name) const;
  bool begins_operand() const;

  struct Nesting;
  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::set<std::string> words_, names_;
};

}  // namespace pipetrain::templates
