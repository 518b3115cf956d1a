#include "data/templates/syntax/operand_parser.hpp"

#include <algorithm>

#include "data/templates/syntax/expression_nodes.hpp"

namespace pipetrain::templates {

using Kind = Token::Kind;

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
    Expression key = primary_.literal(tokens_.take());
    return make_expression(Subscript{boxed(std::move(object)), boxed(std::move(key))}, line, depth);
  }
  std::string name = tokens_.expect_name();
  primary_.add_word(name);
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
    primary_.add_word(name);
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

Expression OperandParser::test(Expression value) {
  const int line = tokens_.take().line;
  const bool is_negated = tokens_.take_name("not");
  std::string name = tokens_.expect_name();
  while (tokens_.take_sign(".")) name += "." + tokens_.expect_name();
  CallArguments given;
  if (tokens_.current().is_sign("(")) {
    given = arguments();
  } else if (primary_.begins()) {
    if (tokens_.current().is_name("is")) tokens_.fail_here("a test does not follow another one; use \"and\"");
    given.positional.push_back(postfix(primary_.primary()));
    given.depth = given.positional.back().depth;
  }
  int depth = std::max(value.depth, given.depth);
  Expression result = make_expression(Test{boxed(std::move(value)), std::move(name), std::move(given)}, line, depth);
  if (!is_negated) return result;
  depth = result.depth;
  return make_expression(Unary{UnaryOperator::logical_not, boxed(std::move(result))}, line, depth);
}

}  // namespace pipetrain::templates
