#include "data/templates/syntax/operand_parser.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "data/templates/syntax/expression_nodes.hpp"

namespace pipetrain::templates {
namespace {

using Kind = Token::Kind;

}  // namespace

Expression OperandParser::primary() {
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

Expression OperandParser::literal(Token token) {
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
  std::int64_t number = 0;
  if (std::from_chars(token.text.data() + (base == 10 ? 0 : 2), end, number, base).ec != std::errc())
    throw TemplateFault{fmt::format("the integer {} is too large", token.text.substr(0, 40)), token.line};
  return make_expression(Constant{Value(number)}, token.line);
}

Expression OperandParser::list() {
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

Expression OperandParser::dict() {
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

Expression OperandParser::filters_of_block() {
  Expression value = filter(nullptr);
  while (tokens_.take_sign("|")) value = filter(boxed(std::move(value)));
  return value;
}

Expression OperandParser::postfix(Expression value) {
  while (true) {
    if (tokens_.current().is_sign(".")) {
      value = attribute(std::move(value));
    } else if (tokens_.current().is_sign("[")) {
      value = subscript(std::move(value));
    } else if (tokens_.current().is_sign("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

Expression OperandParser::filtered(Expression value) {
  while (true) {
    if (tokens_.take_sign("|")) {
      value = filter(boxed(std::move(value)));
    } else if (tokens_.current().is_name("is")) {
      value = test(std::move(value));
    } else if (tokens_.current().is_sign("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

Expression OperandParser::attribute(Expression object) {
  const int line = tokens_.take().line, depth = object.depth;
  if (tokens_.current().kind == Kind::integer) {
    Expression key = literal(tokens_.take());
    return make_expression(Subscript{boxed(std::move(object)), boxed(std::move(key))}, line, depth);
  }
  std::string name = tokens_.expect_name();
  words_.insert(name);
  return make_expression(Attribute{boxed(std::move(object)), std::move(name)}, line, depth);
}

Expression OperandParser::subscript(Expression object) {
  const int line = tokens_.take().line;
  int depth = object.depth;
  if (tokens_.take_sign(":")) return slice(std::move(object), nullptr);
  Expressions keys;
  bool is_tuple = false;
  while (!tokens_.current().is_sign("]")) {
    if (!keys.empty()) {
      tokens_.expect_sign(",");
      is_tuple = true;
    }
    keys.push_back(nested_.expression());
    depth = std::max(depth, keys.back().depth);
    if (!is_tuple && tokens_.take_sign(":")) return slice(std::move(object), boxed(std::move(keys.front())));
  }
  tokens_.expect_sign("]");
  is_tuple = is_tuple || keys.empty();
  ExpressionPointer key =
      boxed(is_tuple ? make_expression(TupleDisplay{std::move(keys)}, line, depth) : std::move(keys.front()));
  depth = std::max(depth, key->depth);
  return make_expression(Subscript{boxed(std::move(object)), std::move(key)}, line, depth);
}

// Reads a slice from after its first colon.
Expression OperandParser::slice(Expression object, ExpressionPointer begin) {
  const int line = tokens_.current().line;
  int depth = std::max(object.depth, begin ? begin->depth : 0);
  Slice slice{boxed(std::move(object)), std::move(begin), nullptr, nullptr};
  if (!tokens_.current().is_sign(":") && !tokens_.current().is_sign("]")) slice.end = boxed(nested_.expression());
  if (tokens_.take_sign(":") && !tokens_.current().is_sign("]")) slice.step = boxed(nested_.expression());
  tokens_.expect_sign("]");
  for (const ExpressionPointer* one : {&slice.end, &slice.step})
    if (*one) depth = std::max(depth, (*one)->depth);
  return make_expression(std::move(slice), line, depth);
}

Expression OperandParser::call(Expression callee) {
  const int line = tokens_.current().line;
  CallArguments given = arguments();
  const int depth = std::max(callee.depth, given.depth);
  return make_expression(Call{boxed(std::move(callee)), std::move(given)}, line, depth);
}

CallArguments OperandParser::arguments() {
  CallArguments arguments;
  tokens_.expect_sign("(");
  bool is_first = true;
  while (!tokens_.current().is_sign(")")) {
    if (!is_first) tokens_.expect_sign(",");
    if (tokens_.current().is_sign(")")) break;
    is_first = false;
    add_argument(arguments);
  }
  tokens_.expect_sign(")");
  return arguments;
}

void OperandParser::add_argument(CallArguments& arguments) {
  const auto note = [&](const Expression& value) { arguments.depth = std::max(arguments.depth, value.depth); };
  const auto require = [&](bool is_allowed) {
    if (!is_allowed) tokens_.fail_here("the arguments of this call are in a wrong order");
  };
  if (tokens_.take_sign("*")) {
    require(!arguments.more_positional && !arguments.more_named);
    note(*(arguments.more_positional = boxed(nested_.expression())));
  } else if (tokens_.take_sign("**")) {
    require(!arguments.more_named);
    note(*(arguments.more_named = boxed(nested_.expression())));
  } else if (tokens_.current().kind == Kind::name && tokens_.following().is_sign("=")) {
    require(!arguments.more_named);
    std::string name = tokens_.take().text;
    tokens_.take();
    words_.insert(name);
    arguments.named.emplace_back(std::move(name), boxed(nested_.expression()));
    note(*arguments.named.back().second);
  } else {
    require(!arguments.more_positional && !arguments.more_named && arguments.named.empty());
    arguments.positional.push_back(nested_.expression());
    note(arguments.positional.back());
  }
}

Expression OperandParser::filter(ExpressionPointer input) {
  const int line = tokens_.current().line;
  std::string name = tokens_.expect_name();
  while (tokens_.take_sign(".")) name += "." + tokens_.expect_name();
  CallArguments given;
  if (tokens_.current().is_sign("(")) given = arguments();
  const int depth = std::max(input ? input->depth : 0, given.depth);
  return make_expression(Filter{std::move(input), std::move(name), std::move(given)}, line, depth);
}

bool OperandParser::begins_operand() const {
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

Expression OperandParser::test(Expression value) {
  const int line = tokens_.take().line;
  const bool is_negated = tokens_.take_name("not");
  std::string name = tokens_.expect_name();
  while (tokens_.take_sign(".")) name += "." + tokens_.expect_name();
  CallArguments given;
  if (tokens_.current().is_sign("(")) {
    given = arguments();
  } else if (begins_operand()) {
    if (tokens_.current().is_name("is")) tokens_.fail_here("a test does not follow another one; use \"and\"");
    given.positional.push_back(postfix(primary()));
    given.depth = given.positional.back().depth;
  }
  int depth = std::max(value.depth, given.depth);
  Expression result = make_expression(Test{boxed(std::move(value)), std::move(name), std::move(given)}, line, depth);
  if (!is_negated) return result;
  depth = result.depth;
  return make_expression(Unary{UnaryOperator::logical_not, boxed(std::move(result))}, line, depth);
}

}  // namespace pipetrain::templates
