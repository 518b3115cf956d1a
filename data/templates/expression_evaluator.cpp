#include "data/templates/expression_evaluator.hpp"

#include <fmt/format.h>

#include "data/templates/functions/attributes.hpp"
#include "data/templates/functions/filters.hpp"
#include "data/templates/functions/operators.hpp"
#include "data/templates/values/iteration.hpp"
#include "data/templates/values/printing.hpp"

namespace pipetrain::templates {

Value ExpressionEvaluator::evaluate(const Expression& expression) {
  const Level level(runtime_);
  runtime_.charge_step();
  // A node sets the line again before it does its own work: its parts may have changed it.
  line_ = expression.line;
  return std::visit([this](const auto& node) { return value_of(node); }, expression.node);
}

Value ExpressionEvaluator::value_of(const Name& node) {
  const Value* const found = scope_->find(node.name);
  return found != nullptr ? *found : undefined_name(node.name);
}

Value ExpressionEvaluator::value_of(const Unary& node) { return apply_unary(node.sign, evaluate(*node.operand)); }

Value ExpressionEvaluator::value_of(const Binary& node) {
  const int line = line_;
  Value left = evaluate(*node.left);
  if (node.sign == BinaryOperator::logical_and) return truth(left) ? evaluate(*node.right) : left;
  if (node.sign == BinaryOperator::logical_or) return truth(left) ? left : evaluate(*node.right);
  const Value right = evaluate(*node.right);
  line_ = line;
  return apply_binary(runtime_, node.sign, left, right);
}

Value ExpressionEvaluator::value_of(const Comparison& node) {
  const int line = line_;
  Value left = evaluate(*node.first);
  for (const auto& [sign, expression] : node.rest) {
    Value right = evaluate(*expression);
    line_ = line;
    if (!apply_comparison(runtime_, sign, left, right)) return false;
    left = std::move(right);
  }
  return true;
}

Value ExpressionEvaluator::value_of(const Concatenation& node) {
  std::string text;
  for (const Expression& part : node.parts) text += printed(evaluate(part));
  runtime_.charge_bytes(text.size());
  return Value(std::move(text));
}

Value ExpressionEvaluator::value_of(const Conditional& node) {
  const int line = line_;
  if (truth(evaluate(*node.condition))) return evaluate(*node.then);
  if (node.otherwise) return evaluate(*node.otherwise);
  return make_undefined(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was defined.", line));
}

Values ExpressionEvaluator::values_of_all(const Expressions& expressions) {
  Values values;
  runtime_.charge_values(expressions.size());
  for (const Expression& one : expressions) values.push_back(evaluate(one));
  return values;
}

Value ExpressionEvaluator::value_of(const ListDisplay& node) { return make_list(values_of_all(node.elements)); }
Value ExpressionEvaluator::value_of(const TupleDisplay& node) { return make_tuple(values_of_all(node.elements)); }

Value ExpressionEvaluator::value_of(const DictDisplay& node) {
  DictItems items;
  runtime_.charge_values(2 * node.items.size());
  for (const auto& [key, value] : node.items) {
    const Value name = evaluate(*key);
    items.set(name, evaluate(*value));
  }
  return make_dict(std::move(items));
}

Value ExpressionEvaluator::value_of(const Attribute& node) {
  const int line = line_;
  const Value object = evaluate(*node.object);
  line_ = line;
  return get_attribute(object, node.name);
}

Value ExpressionEvaluator::value_of(const Subscript& node) {
  const int line = line_;
  const Value object = evaluate(*node.object), key = evaluate(*node.key);
  line_ = line;
  return get_item(runtime_, object, key);
}

Value ExpressionEvaluator::value_of(const Slice& node) {
  const int line = line_;
  const Value object = evaluate(*node.object);
  const auto bound = [&](const ExpressionPointer& expression) -> std::optional<std::int64_t> {
    if (!expression) return std::nullopt;
    const Value value = evaluate(*expression);
    if (value.is<None>()) return std::nullopt;
    if (!value.integer()) fail("slice indices must be integers or None or have an __index__ method");
    return value.integer();
  };
  const auto begin = bound(node.begin), end = bound(node.end), step = bound(node.step);
  line_ = line;
  return get_slice(runtime_, object, {begin, end, step});
}

Arguments ExpressionEvaluator::arguments_of(const CallArguments& given) {
  Arguments arguments{values_of_all(given.positional), {}};
  for (const auto& [name, value] : given.named) arguments.named.emplace_back(name, evaluate(*value));
  if (given.more_positional)
    for (Value& value : values_of(runtime_, evaluate(*given.more_positional))) arguments.positional.push_back(std::move(value));
  if (!given.more_named) return arguments;
  const Value more = evaluate(*given.more_named);
  if (more.dict() == nullptr) fail(fmt::format("argument after ** must be a mapping, not {}", type_name(more)));
  for (const auto& [name, value] : more.dict()->items()) {
    if (name.text() == nullptr) fail("keywords must be strings");
    arguments.named.emplace_back(*name.text(), value);
  }
  return arguments;
}

Value ExpressionEvaluator::call(const Value& callee, const Arguments& arguments) {
  if (const Undefined* const undefined = callee.as<Undefined>()) fail(*undefined->why);
  if (callee.object() == nullptr) fail(fmt::format("'{}' object is not callable", type_name(callee)));
  const ObjectPointer keeps = *callee.as<ObjectPointer>();
  return keeps->call(runtime_, arguments);
}

Value ExpressionEvaluator::value_of(const Call& node) {
  const int line = line_;
  const Value callee = evaluate(*node.callee);
  const Arguments arguments = arguments_of(node.arguments);
  line_ = line;
  return call(callee, arguments);
}

Value ExpressionEvaluator::value_of(const Filter& node) {
  const int line = line_;
  const Value input = node.input ? evaluate(*node.input) : block_text_;
  const Arguments arguments = arguments_of(node.arguments);
  line_ = line;
  return call_filter(runtime_, node.name, input, arguments);
}

Value ExpressionEvaluator::filtered_block(const Expression& filter, std::string text) {
  block_text_ = Value(std::move(text));
  return evaluate(filter);
}

Value ExpressionEvaluator::value_of(const Test& node) {
  const int line = line_;
  const Value input = evaluate(*node.input);
  const Arguments arguments = arguments_of(node.arguments);
  line_ = line;
  return call_test(runtime_, node.name, input, arguments);
}

}  // namespace pipetrain::templates
