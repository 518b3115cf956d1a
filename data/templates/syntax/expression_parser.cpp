#include "data/templates/syntax/expression_parser.hpp"

#include <algorithm>
#include <iterator>

#include "data/templates/syntax/expression_nodes.hpp"

namespace pipetrain::templates {
namespace {

using Kind = Token::Kind;

Expression make_unary(UnaryOperator sign, Expression operand, int line) {
  const int depth = operand.depth;
  return make_expression(Unary{sign, boxed(std::move(operand))}, line, depth);
}

Expression make_binary(BinaryOperator sign, Expression left, Expression right, int line) {
  const int depth = std::max(left.depth, right.depth);
  return make_expression(Binary{sign, boxed(std::move(left)), boxed(std::move(right))}, line, depth);
}

}  // namespace

// Counts expressions that are open while they are read.
class ExpressionParser::Nesting {
 public:
  explicit Nesting(ExpressionParser& parser) : parser_(parser) {
    if (++parser_.depth_ > deepest_expression) parser_.tokens_.fail_here("expressions are nested too deep");
  }
  ~Nesting() { --parser_.depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;

 private:
  ExpressionParser& parser_;
};

Expression ExpressionParser::expression() {
  const Nesting nesting(*this);
  Expression value = disjunction();
  while (tokens_.current().is_name("if")) {
    const int line = tokens_.take().line;
    Expression condition = disjunction();
    int depth = std::max(value.depth, condition.depth);
    ExpressionPointer otherwise;
    if (tokens_.take_name("else")) {
      otherwise = boxed(expression());
      depth = std::max(depth, otherwise->depth);
    }
    value =
        make_expression(Conditional{boxed(std::move(condition)), boxed(std::move(value)), std::move(otherwise)}, line, depth);
  }
  return value;
}

Expression ExpressionParser::expression_without_condition() {
  const Nesting nesting(*this);
  return disjunction();
}

Expression ExpressionParser::disjunction() {
  Expression left = conjunction();
  while (tokens_.current().is_name("or")) {
    const int line = tokens_.take().line;
    left = make_binary(BinaryOperator::logical_or, std::move(left), conjunction(), line);
  }
  return left;
}

Expression ExpressionParser::conjunction() {
  Expression left = negation();
  while (tokens_.current().is_name("and")) {
    const int line = tokens_.take().line;
    left = make_binary(BinaryOperator::logical_and, std::move(left), negation(), line);
  }
  return left;
}

Expression ExpressionParser::negation() {
  if (!tokens_.current().is_name("not")) return comparison();
  const Nesting nesting(*this);
  const int line = tokens_.take().line;
  return make_unary(UnaryOperator::logical_not, negation(), line);
}

Expression ExpressionParser::comparison() {
  using Sign = ComparisonOperator;
  static const std::pair<std::string_view, Sign> signs[] = {{"==", Sign::equal},  {"!=", Sign::unequal},
                                                            {"<", Sign::less},    {"<=", Sign::less_equal},
                                                            {">", Sign::greater}, {">=", Sign::greater_equal}};
  const int line = tokens_.current().line;
  Expression first = sum();
  int depth = first.depth;
  std::vector<std::pair<Sign, ExpressionPointer>> rest;
  while (true) {
    const auto* const sign =
        std::find_if(std::begin(signs), std::end(signs), [&](const auto& one) { return tokens_.current().is_sign(one.first); });
    const bool is_not_in = tokens_.current().is_name("not") && tokens_.following().is_name("in");
    if (sign == std::end(signs) && !is_not_in && !tokens_.current().is_name("in")) break;
    if (is_not_in) tokens_.take();
    tokens_.take();
    rest.emplace_back(sign != std::end(signs) ? sign->second : is_not_in ? Sign::not_in : Sign::in, boxed(sum()));
    depth = std::max(depth, rest.back().second->depth);
  }
  if (rest.empty()) return first;
  return make_expression(Comparison{boxed(std::move(first)), std::move(rest)}, line, depth);
}

Expression ExpressionParser::sum() {
  Expression left = concatenation();
  while (tokens_.current().is_sign("+") || tokens_.current().is_sign("-")) {
    const Token sign = tokens_.take();
    left = make_binary(sign.text == "+" ? BinaryOperator::add : BinaryOperator::subtract, std::move(left), concatenation(),
                       sign.line);
  }
  return left;
}

Expression ExpressionParser::concatenation() {
  const int line = tokens_.current().line;
  Expressions parts;
  parts.push_back(product());
  while (tokens_.take_sign("~")) parts.push_back(product());
  if (parts.size() == 1) return std::move(parts.front());
  const int depth = deepest_of(parts);
  return make_expression(Concatenation{std::move(parts)}, line, depth);
}

Expression ExpressionParser::product() {
  static const std::pair<std::string_view, BinaryOperator> signs[] = {{"*", BinaryOperator::multiply},
                                                                      {"/", BinaryOperator::divide},
                                                                      {"//", BinaryOperator::floor_divide},
                                                                      {"%", BinaryOperator::modulo}};
  Expression left = power();
  while (true) {
    const auto* const sign =
        std::find_if(std::begin(signs), std::end(signs), [&](const auto& one) { return tokens_.current().is_sign(one.first); });
    if (sign == std::end(signs)) return left;
    const int line = tokens_.take().line;
    left = make_binary(sign->second, std::move(left), power(), line);
  }
}

Expression ExpressionParser::power() {
  Expression left = unary();
  while (tokens_.current().is_sign("**")) {
    const int line = tokens_.take().line;
    left = make_binary(BinaryOperator::power, std::move(left), unary(), line);
  }
  return left;
}

Expression ExpressionParser::unary(bool with_filters) {
  const Nesting nesting(*this);
  Expression value;
  if (tokens_.current().is_sign("-") || tokens_.current().is_sign("+")) {
    const Token sign = tokens_.take();
    value = make_unary(sign.text == "-" ? UnaryOperator::negative : UnaryOperator::positive, unary(false), sign.line);
  } else {
    value = operands_.primary();
  }
  value = operands_.postfix(std::move(value));
  return with_filters ? operands_.filtered(std::move(value)) : std::move(value);
}

bool ExpressionParser::ends_tuple(std::string_view end_name) const {
  return tokens_.current().kind == Kind::variable_end || tokens_.current().kind == Kind::block_end ||
         tokens_.current().is_sign(")") || (!end_name.empty() && tokens_.current().is_name(end_name));
}

Expression ExpressionParser::tuple(bool with_condition, std::string_view end_name) {
  const int line = tokens_.current().line;
  Expressions elements;
  bool is_tuple = false;
  while (!ends_tuple(end_name)) {
    elements.push_back(with_condition ? expression() : expression_without_condition());
    if (!tokens_.take_sign(",")) break;
    is_tuple = true;
  }
  if (elements.empty()) tokens_.fail_expecting("an expression");
  if (!is_tuple) return std::move(elements.front());
  const int depth = deepest_of(elements);
  return make_expression(TupleDisplay{std::move(elements)}, line, depth);
}

}  // namespace pipetrain::templates
