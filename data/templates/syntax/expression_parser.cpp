#include "data/templates/syntax/expression_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

namespace pipetrain::templates {
namespace {

using Kind = Token::Kind;

constexpr int deepest_expression = 200;

ExpressionPointer boxed(Expression value) { return std::make_unique<Expression>(std::move(value)); }

// A node over others, the deepest of which has this depth.
template <class Node>
Expression make(Node node, int line, int depth = 0) {
  if (depth >= deepest_expression)
    throw TemplateFault{fmt::format("an expression has others in it more than {} deep", deepest_expression), line};
  return {std::move(node), line, depth + 1};
}

Expression make_unary(UnaryOperator sign, Expression operand, int line) {
  const int depth = operand.depth;
  return make(Unary{sign, boxed(std::move(operand))}, line, depth);
}

Expression make_binary(BinaryOperator sign, Expression left, Expression right, int line) {
  const int depth = std::max(left.depth, right.depth);
  return make(Binary{sign, boxed(std::move(left)), boxed(std::move(right))}, line, depth);
}

int deepest_of(const Expressions& all) {
  int depth = 0;
  for (const Expression& one : all) depth = std::max(depth, one.depth);
  return depth;
}

std::string shown(const Token& token) {
  switch (token.kind) {
    case Kind::end:
      return "end of the template";
    case Kind::block_end:
    case Kind::variable_end:
      return "end of the tag";
    default:
      return fmt::format("'{}'", token.text.substr(0, 40));
  }
}

}  // namespace

// Counts brackets and signs that are open while they are read.
struct ExpressionParser::Nesting {
  explicit Nesting(ExpressionParser& parser) : parser(parser) {
    if (++parser.depth_ > deepest_expression) parser.fail_here("expressions lie in each other too deep");
  }
  ~Nesting() { --parser.depth_; }
  Nesting(const Nesting&) = delete;
  Nesting& operator=(const Nesting&) = delete;
  ExpressionParser& parser;
};

void ExpressionParser::fail_here(std::string why) const { throw TemplateFault{std::move(why), current().line}; }

Token ExpressionParser::take() {
  Token token = current();
  if (at_ + 1 < tokens_.size()) ++at_;
  return token;
}

bool ExpressionParser::take_name(std::string_view name) {
  if (!current().is_name(name)) return false;
  take();
  return true;
}

bool ExpressionParser::take_sign(std::string_view sign) {
  if (!current().is_sign(sign)) return false;
  take();
  return true;
}

std::string ExpressionParser::expect_name() {
  if (current().kind != Kind::name) fail_here(fmt::format("a name is expected, not {}", shown(current())));
  return take().text;
}

void ExpressionParser::expect_name(std::string_view name) {
  if (!take_name(name)) fail_here(fmt::format("'{}' is expected, not {}", name, shown(current())));
}

void ExpressionParser::expect_sign(std::string_view sign) {
  if (!take_sign(sign)) fail_here(fmt::format("'{}' is expected, not {}", sign, shown(current())));
}

void ExpressionParser::expect(Kind kind, const char* what) {
  if (current().kind != kind) fail_here(fmt::format("{} is expected, not {}", what, shown(current())));
  take();
}

Expression ExpressionParser::expression() {
  const Nesting nesting(*this);
  Expression value = disjunction();
  while (current().is_name("if")) {
    const int line = take().line;
    Expression condition = disjunction();
    int depth = std::max(value.depth, condition.depth);
    ExpressionPointer otherwise;
    if (take_name("else")) {
      otherwise = boxed(expression());
      depth = std::max(depth, otherwise->depth);
    }
    value = make(Conditional{boxed(std::move(condition)), boxed(std::move(value)), std::move(otherwise)}, line, depth);
  }
  return value;
}

Expression ExpressionParser::expression_without_condition() {
  const Nesting nesting(*this);
  return disjunction();
}

Expression ExpressionParser::disjunction() {
  Expression left = conjunction();
  while (current().is_name("or")) {
    const int line = take().line;
    left = make_binary(BinaryOperator::logical_or, std::move(left), conjunction(), line);
  }
  return left;
}

Expression ExpressionParser::conjunction() {
  Expression left = negation();
  while (current().is_name("and")) {
    const int line = take().line;
    left = make_binary(BinaryOperator::logical_and, std::move(left), negation(), line);
  }
  return left;
}

Expression ExpressionParser::negation() {
  if (!current().is_name("not")) return comparison();
  const Nesting nesting(*this);
  const int line = take().line;
  return make_unary(UnaryOperator::logical_not, negation(), line);
}

Expression ExpressionParser::comparison() {
  using Sign = ComparisonOperator;
  static const std::pair<std::string_view, Sign> signs[] = {{"==", Sign::equal},  {"!=", Sign::unequal},
                                                            {"<", Sign::less},    {"<=", Sign::less_equal},
                                                            {">", Sign::greater}, {">=", Sign::greater_equal}};
  const int line = current().line;
  Expression first = sum();
  int depth = first.depth;
  std::vector<std::pair<Sign, ExpressionPointer>> rest;
  while (true) {
    const auto* const sign =
        std::find_if(std::begin(signs), std::end(signs), [&](const auto& one) { return current().is_sign(one.first); });
    const bool is_not_in = current().is_name("not") && following().is_name("in");
    if (sign == std::end(signs) && !is_not_in && !current().is_name("in")) break;
    if (is_not_in) take();
    take();
    rest.emplace_back(sign != std::end(signs) ? sign->second : is_not_in ? Sign::not_in : Sign::in, boxed(sum()));
    depth = std::max(depth, rest.back().second->depth);
  }
  if (rest.empty()) return first;
  return make(Comparison{boxed(std::move(first)), std::move(rest)}, line, depth);
}

Expression ExpressionParser::sum() {
  Expression left = concatenation();
  while (current().is_sign("+") || current().is_sign("-")) {
    const Token sign = take();
    left = make_binary(sign.text == "+" ? BinaryOperator::add : BinaryOperator::subtract, std::move(left), concatenation(),
                       sign.line);
  }
  return left;
}

Expression ExpressionParser::concatenation() {
  const int line = current().line;
  Expressions parts;
  parts.push_back(product());
  while (take_sign("~")) parts.push_back(product());
  if (parts.size() == 1) return std::move(parts.front());
  const int depth = deepest_of(parts);
  return make(Concatenation{std::move(parts)}, line, depth);
}

Expression ExpressionParser::product() {
  static const std::pair<std::string_view, BinaryOperator> signs[] = {{"*", BinaryOperator::multiply},
                                                                      {"/", BinaryOperator::divide},
                                                                      {"//", BinaryOperator::floor_divide},
                                                                      {"%", BinaryOperator::modulo}};
  Expression left = power();
  while (true) {
    const auto* const sign =
        std::find_if(std::begin(signs), std::end(signs), [&](const auto& one) { return current().is_sign(one.first); });
    if (sign == std::end(signs)) return left;
    const int line = take().line;
    left = make_binary(sign->second, std::move(left), power(), line);
  }
}

Expression ExpressionParser::power() {
  Expression left = unary();
  while (current().is_sign("**")) {
    const int line = take().line;
    left = make_binary(BinaryOperator::power, std::move(left), unary(), line);
  }
  return left;
}

Expression ExpressionParser::unary(bool with_filters) {
  const Nesting nesting(*this);
  Expression value;
  if (current().is_sign("-") || current().is_sign("+")) {
    const Token sign = take();
    value = make_unary(sign.text == "-" ? UnaryOperator::negative : UnaryOperator::positive, unary(false), sign.line);
  } else {
    value = primary();
  }
  value = postfix(std::move(value));
  return with_filters ? filtered(std::move(value)) : std::move(value);
}

Expression ExpressionParser::primary() {
  if (current().is_sign("[")) return list();
  if (current().is_sign("{")) return dict();
  if (take_sign("(")) {
    const int line = current().line;
    Expression value = current().is_sign(")") ? make(TupleDisplay{}, line) : tuple();
    expect_sign(")");
    return value;
  }
  if (current().kind == Kind::name || current().kind == Kind::string || current().kind == Kind::integer ||
      current().kind == Kind::real)
    return literal(take());
  fail_here(fmt::format("an expression is expected, not {}", shown(current())));
}

Expression ExpressionParser::literal(Token token) {
  if (token.kind == Kind::string) {
    while (current().kind == Kind::string) token.text += take().text;
    words_.insert(token.text);
    return make(Constant{Value(std::move(token.text))}, token.line);
  }
  if (token.kind == Kind::name) {
    if (token.text == "true" || token.text == "True") return make(Constant{Value(true)}, token.line);
    if (token.text == "false" || token.text == "False") return make(Constant{Value(false)}, token.line);
    if (token.text == "none" || token.text == "None") return make(Constant{Value()}, token.line);
    words_.insert(token.text);
    names_.insert(token.text);
    return make(Name{std::move(token.text)}, token.line);
  }
  const char* const end = token.text.data() + token.text.size();
  if (token.kind == Kind::real) {
    double number = 0;
    if (std::from_chars(token.text.data(), end, number).ec != std::errc())
      throw TemplateFault{fmt::format("the number {} is too large or too small", token.text), token.line};
    return make(Constant{Value(number)}, token.line);
  }
  const char kind = token.text.size() > 1 ? token.text[1] : ' ';
  const int base = kind == 'x' || kind == 'X' ? 16 : kind == 'o' || kind == 'O' ? 8 : kind == 'b' || kind == 'B' ? 2 : 10;
  std::int64_t number = 0;
  if (std::from_chars(token.text.data() + (base == 10 ? 0 : 2), end, number, base).ec != std::errc())
    throw TemplateFault{fmt::format("the integer {} is too large", token.text.substr(0, 40)), token.line};
  return make(Constant{Value(number)}, token.line);
}

bool ExpressionParser::ends_tuple(std::string_view end_name) const {
  return current().kind == Kind::variable_end || current().kind == Kind::block_end || current().is_sign(")") ||
         (!end_name.empty() && current().is_name(end_name));
}

Expression ExpressionParser::tuple(bool with_condition, std::string_view end_name) {
  const int line = current().line;
  Expressions elements;
  bool is_tuple = false;
  while (!ends_tuple(end_name)) {
    elements.push_back(with_condition ? expression() : expression_without_condition());
    if (!take_sign(",")) break;
    is_tuple = true;
  }
  if (elements.empty()) fail_here(fmt::format("an expression is expected, not {}", shown(current())));
  if (!is_tuple) return std::move(elements.front());
  const int depth = deepest_of(elements);
  return make(TupleDisplay{std::move(elements)}, line, depth);
}

Expression ExpressionParser::list() {
  const int line = take().line;
  Expressions elements;
  while (!current().is_sign("]")) {
    if (!elements.empty()) expect_sign(",");
    if (current().is_sign("]")) break;
    elements.push_back(expression());
  }
  expect_sign("]");
  const int depth = deepest_of(elements);
  return make(ListDisplay{std::move(elements)}, line, depth);
}

Expression ExpressionParser::dict() {
  const int line = take().line;
  DictDisplay dict;
  int depth = 0;
  while (!current().is_sign("}")) {
    if (!dict.items.empty()) expect_sign(",");
    if (current().is_sign("}")) break;
    ExpressionPointer key = boxed(expression());
    expect_sign(":");
    ExpressionPointer value = boxed(expression());
    depth = std::max({depth, key->depth, value->depth});
    dict.items.emplace_back(std::move(key), std::move(value));
  }
  expect_sign("}");
  return make(std::move(dict), line, depth);
}

Expression ExpressionParser::filters_of_block() {
  Expression value = filter(nullptr);
  while (take_sign("|")) value = filter(boxed(std::move(value)));
  return value;
}

}  // namespace pipetrain::templates
