#include "data/templates/syntax/primary_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "data/templates/syntax/expression_nodes.hpp"

namespace pipetrain::templates {

using Kind = Token::Kind;

bool PrimaryParser::begins() const {
  constexpr std::array others = {"else", "or", "and"};
  switch (tokens_.current().kind) {
    case Kind::name:
      return std::none_of(others.begin(), others.end(), [&](const char* other) { return tokens_.current().is_name(other); });
    case Kind::string:
    case Kind::integer:
    case Kind::real:
      return true;
    default:
      return tokens_.current().is_sign("(") || tokens_.current().is_sign("[") || tokens_.current().is_sign("{");
  }
}

Expression PrimaryParser::primary() {
  if (tokens_.current().is_sign("[")) return list();
  if (tokens_.current().is_sign("{")) return dict();
  if (tokens_.take_sign("(")) {
    const int line = tokens_.current().line;
    Expression value = tokens_.current().is_sign(")") ? make_expression(TupleDisplay{}, line) : nested_.tuple();
    tokens_.expect_sign(")");
    return value;
  }
  if (tokens_.current().kind == Kind::name || tokens_.current().kind == Kind::string ||
      tokens_.current().kind == Kind::integer || tokens_.current().kind == Kind::real)
    return literal(tokens_.take());
  tokens_.fail_expecting("an expression");
}

Expression PrimaryParser::literal(Token token) {
  if (token.kind == Kind::string) {
    while (tokens_.current().kind == Kind::string) token.text += tokens_.take().text;
    words_.insert(token.text);
    return make_expression(Constant{Value(std::move(token.text))}, token.line);
  }
  if (token.kind == Kind::name) {
    if (token.text == "true" || token.text == "True") return make_expression(Constant{Value(true)}, token.line);
    if (token.text == "false" || token.text == "False") return make_expression(Constant{Value(false)}, token.line);
    if (token.text == "none" || token.text == "None") return make_expression(Constant{Value()}, token.line);
    words_.insert(token.text);
    names_.insert(token.text);
    return make_expression(Name{std::move(token.text)}, token.line);
  }
  const char* const end = token.text.data() + token.text.size();
  if (token.kind == Kind::real) {
    double number = 0;
    if (std::from_chars(token.text.data(), end, number).ec != std::errc())
      throw TemplateFault{fmt::format("the number {} is too large or too small", token.text), token.line};
    return make_expression(Constant{Value(number)}, token.line);
  }
  const char kind = token.text.size() > 1 ? token.text[1] : ' ';
  const int base = kind == 'x' || kind == 'X' ? 16 : kind == 'o' || kind == 'O' ? 8 : kind == 'b' || kind == 'B' ? 2 : 10;
  if (base == 10) return make_expression(Constant{make_integer(token.text)}, token.line);
  std::int64_t number = 0;
  if (std::from_chars(token.text.data() + 2, end, number, base).ec != std::errc())
    throw TemplateFault{fmt::format("the integer {} is too large", token.text.substr(0, 40)), token.line};
  return make_expression(Constant{Value(number)}, token.line);
}

Expression PrimaryParser::list() {
  const int line = tokens_.take().line;
  Expressions elements;
  while (!tokens_.current().is_sign("]")) {
    if (!elements.empty()) tokens_.expect_sign(",");
    if (tokens_.current().is_sign("]")) break;
    elements.push_back(nested_.expression());
  }
  tokens_.expect_sign("]");
  const int depth = deepest_of(elements);
  return make_expression(ListDisplay{std::move(elements)}, line, depth);
}

Expression PrimaryParser::dict() {
  const int line = tokens_.take().line;
  DictDisplay dict;
  int depth = 0;
  while (!tokens_.current().is_sign("}")) {
    if (!dict.items.empty()) tokens_.expect_sign(",");
    if (tokens_.current().is_sign("}")) break;
    ExpressionPointer key = boxed(nested_.expression());
    tokens_.expect_sign(":");
    ExpressionPointer value = boxed(nested_.expression());
    depth = std::max({depth, key->depth, value->depth});
    dict.items.emplace_back(std::move(key), std::move(value));
  }
  tokens_.expect_sign("}");
  return make_expression(std::move(dict), line, depth);
}

}  // namespace pipetrain::templates
