// What stands behind a value: attributes, subscripts, calls, filters and tests.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "data/templates/syntax/expression_parser.hpp"

namespace pipetrain::templates {
namespace {

using Kind = Token::Kind;

constexpr int longest_postfix = 200;

ExpressionPointer boxed_operand(Expression value) { return std::make_unique<Expression>(std::move(value)); }

template <class Node>
Expression make_postfix(Node node, int line, int depth) {
  if (depth >= longest_postfix)
    throw TemplateFault{fmt::format("an expression has others in it more than {} deep", longest_postfix), line};
  return {std::move(node), line, depth + 1};
}

}  // namespace

Expression ExpressionParser::postfix(Expression value) {
  while (true) {
    if (current().is_sign(".")) {
      value = attribute(std::move(value));
    } else if (current().is_sign("[")) {
      value = subscript(std::move(value));
    } else if (current().is_sign("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

Expression ExpressionParser::filtered(Expression value) {
  while (true) {
    if (take_sign("|")) {
      value = filter(boxed_operand(std::move(value)));
    } else if (current().is_name("is")) {
      value = test(std::move(value));
    } else if (current().is_sign("(")) {
      value = call(std::move(value));
    } else {
      return value;
    }
  }
}

Expression ExpressionParser::attribute(Expression object) {
  const int line = take().line, depth = object.depth;
  if (current().kind == Kind::integer) {
    Expression key = literal(take());
    return make_postfix(Subscript{boxed_operand(std::move(object)), boxed_operand(std::move(key))}, line, depth);
  }
  std::string name = expect_name();
  words_.insert(name);
  return make_postfix(Attribute{boxed_operand(std::move(object)), std::move(name)}, line, depth);
}

Expression ExpressionParser::subscript(Expression object) {
  const int line = take().line;
  int depth = object.depth;
  if (take_sign(":")) return slice(std::move(object), nullptr);
  Expressions keys;
  bool is_tuple = false;
  while (!current().is_sign("]")) {
    if (!keys.empty()) {
      expect_sign(",");
      is_tuple = true;
    }
    keys.push_back(expression());
    depth = std::max(depth, keys.back().depth);
    if (!is_tuple && take_sign(":")) return slice(std::move(object), boxed_operand(std::move(keys.front())));
  }
  expect_sign("]");
  is_tuple = is_tuple || keys.empty();
  ExpressionPointer key =
      boxed_operand(is_tuple ? make_postfix(TupleDisplay{std::move(keys)}, line, depth) : std::move(keys.front()));
  depth = std::max(depth, key->depth);
  return make_postfix(Subscript{boxed_operand(std::move(object)), std::move(key)}, line, depth);
}

// Behind the first colon.
Expression ExpressionParser::slice(Expression object, ExpressionPointer begin) {
  const int line = current().line;
  int depth = std::max(object.depth, begin ? begin->depth : 0);
  Slice slice{boxed_operand(std::move(object)), std::move(begin), nullptr, nullptr};
  if (!current().is_sign(":") && !current().is_sign("]")) slice.end = boxed_operand(expression());
  if (take_sign(":") && !current().is_sign("]")) slice.step = boxed_operand(expression());
  expect_sign("]");
  for (const ExpressionPointer* one : {&slice.end, &slice.step})
    if (*one) depth = std::max(depth, (*one)->depth);
  return make_postfix(std::move(slice), line, depth);
}

Expression ExpressionParser::call(Expression callee) {
  const int line = current().line;
  CallArguments given = arguments();
  const int depth = std::max(callee.depth, given.depth);
  return make_postfix(Call{boxed_operand(std::move(callee)), std::move(given)}, line, depth);
}

CallArguments ExpressionParser::arguments() {
  CallArguments arguments;
  expect_sign("(");
  bool is_first = true;
  while (!current().is_sign(")")) {
    if (!is_first) expect_sign(",");
    if (current().is_sign(")")) break;
    is_first = false;
    add_argument(arguments);
  }
  expect_sign(")");
  return arguments;
}

void ExpressionParser::add_argument(CallArguments& arguments) {
  const auto note = [&](const Expression& value) { arguments.depth = std::max(arguments.depth, value.depth); };
  const auto require = [&](bool is_allowed) {
    if (!is_allowed) fail_here("the arguments of this call are in a wrong order");
  };
  if (take_sign("*")) {
    require(!arguments.more_positional && !arguments.more_named);
    note(*(arguments.more_positional = boxed_operand(expression())));
  } else if (take_sign("**")) {
    require(!arguments.more_named);
    note(*(arguments.more_named = boxed_operand(expression())));
  } else if (current().kind == Kind::name && following().is_sign("=")) {
    require(!arguments.more_named);
    std::string name = take().text;
    take();
    words_.insert(name);
    arguments.named.emplace_back(std::move(name), boxed_operand(expression()));
    note(*arguments.named.back().second);
  } else {
    require(!arguments.more_positional && !arguments.more_named && arguments.named.empty());
    arguments.positional.push_back(expression());
    note(arguments.positional.back());
  }
}

Expression ExpressionParser::filter(ExpressionPointer input) {
  const int line = current().line;
  std::string name = expect_name();
  while (take_sign(".")) name += "." + expect_name();
  CallArguments given;
  if (current().is_sign("(")) given = arguments();
  const int depth = std::max(input ? input->depth : 0, given.depth);
  return make_postfix(Filter{std::move(input), std::move(name), std::move(given)}, line, depth);
}

bool ExpressionParser::begins_operand() const {
  constexpr std::array others = {"else", "or", "and"};
  switch (current().kind) {
    case Kind::name:
      return std::none_of(others.begin(), others.end(), [&](const char* other) { return current().is_name(other); });
    case Kind::string:
    case Kind::integer:
    case Kind::real:
      return true;
    default:
      return current().is_sign("(") || current().is_sign("[") || current().is_sign("{");
  }
}

Expression ExpressionParser::test(Expression value) {
  const int line = take().line;
  const bool is_negated = take_name("not");
  std::string name = expect_name();
  while (take_sign(".")) name += "." + expect_name();
  CallArguments given;
  if (current().is_sign("(")) {
    given = arguments();
  } else if (begins_operand()) {
    if (current().is_name("is")) fail_here("a test does not follow another one; use \"and\"");
    given.positional.push_back(postfix(primary()));
    given.depth = given.positional.back().depth;
  }
  int depth = std::max(value.depth, given.depth);
  Expression result = make_postfix(Test{boxed_operand(std::move(value)), std::move(name), std::move(given)}, line, depth);
  if (!is_negated) return result;
  depth = result.depth;
  return make_postfix(Unary{UnaryOperator::logical_not, boxed_operand(std::move(result))}, line, depth);
}

}  // namespace pipetrain::templates
