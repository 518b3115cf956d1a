// The operators of expressions, as Python has them. Internal to data/.
#pragma once

#include "data/templates/syntax/ast.hpp"
#include "data/templates/values/runtime.hpp"

namespace pipetrain::templates {

// All throw TemplateFault where Python raises an error, and where integers or their result do not fit 64 bits. `sign` is an
// arithmetic one.
Value apply_binary(Runtime& runtime, BinaryOperator sign, const Value& left, const Value& right);
Value apply_unary(UnaryOperator sign, const Value& operand);
bool apply_comparison(Runtime& runtime, ComparisonOperator sign, const Value& left, const Value& right);
// Returns the result of `value in container`.
bool contains(Runtime& runtime, const Value& container, const Value& value);

// Returns the result of `format % values`.
std::string percent_formatted(Runtime& runtime, std::string_view format, const Value& values);

std::string escaped_html(std::string_view text);

}  // namespace pipetrain::templates
