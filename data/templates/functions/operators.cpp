#include "data/templates/functions/operators.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "data/templates/values/iteration.hpp"

namespace pipetrain::templates {
namespace {

using Sign = BinaryOperator;

const char* shown_sign(Sign sign) {
  constexpr const char* signs[] = {"+", "-", "*", "/", "//", "%", "** or pow()"};
  return signs[static_cast<int>(sign)];
}

void refuse_undefined(const Value& value) {
  if (const Undefined* const undefined = value.as<Undefined>()) fail(*undefined->why);
}

[[noreturn]] void fail_overflow() { fail("an integer is too large"); }
[[noreturn]] void fail_zero() { fail("division by zero"); }

struct Floored {
  double quotient, remainder;
};
// Divides as float_divmod() of CPython does.
Floored floored(double left, double right) {
  double remainder = std::fmod(left, right);
  double quotient = (left - remainder) / right;
  if (remainder != 0) {
    if ((right < 0) != (remainder < 0)) {
      remainder += right;
      quotient -= 1;
    }
  } else {
    remainder = std::copysign(0.0, right);
  }
  if (quotient == 0) return {std::copysign(0.0, left / right), remainder};
  const double whole = std::floor(quotient);
  return {quotient - whole > 0.5 ? whole + 1 : whole, remainder};
}

Value integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  if (exponent > 63 && (base > 1 || base < -1)) fail_overflow();
  if (base == 0 || base == 1 || base == -1) exponent = exponent == 0 ? 0 : 2 - exponent % 2;
  for (; exponent > 0; --exponent)
    if (__builtin_mul_overflow(result, base, &result)) fail_overflow();
  return result;
}

Value negated(const LargeInteger& integer) {
  const std::string& digits = *integer.digits;
  return make_integer(digits.front() == '-' ? digits.substr(1) : "-" + digits);
}

Value real_result(Sign sign, double left, double right) {
  if (right == 0 && (sign == Sign::divide || sign == Sign::floor_divide || sign == Sign::modulo)) fail_zero();
  switch (sign) {
    case Sign::add:
      return left + right;
    case Sign::subtract:
      return left - right;
    case Sign::multiply:
      return left * right;
    case Sign::divide:
      return left / right;
    case Sign::floor_divide:
      return floored(left, right).quotient;
    case Sign::modulo:
      return floored(left, right).remainder;
    default:
      if (left == 0 && right < 0) fail("0.0 cannot be raised to a negative power");
      if (left < 0 && std::floor(right) != right) fail("complex numbers are not supported");
      if (const double power = std::pow(left, right); std::isfinite(power) || !std::isfinite(left) || !std::isfinite(right))
        return power;
      fail("a number is too large");
  }
}

Value integer_result(Sign sign, std::int64_t left, std::int64_t right) {
  std::int64_t result = 0;
  switch (sign) {
    case Sign::add:
      if (__builtin_add_overflow(left, right, &result)) fail_overflow();
      return result;
    case Sign::subtract:
      if (__builtin_sub_overflow(left, right, &result)) fail_overflow();
      return result;
    case Sign::multiply:
      if (__builtin_mul_overflow(left, right, &result)) fail_overflow();
      return result;
    case Sign::floor_divide:
    case Sign::modulo: {
      if (right == 0) fail_zero();
      if (right == -1) return sign == Sign::modulo ? Value(0) : integer_result(Sign::subtract, 0, left);
      const std::int64_t remainder = left % right;
      const bool is_off = remainder != 0 && (remainder < 0) != (right < 0);
      return sign == Sign::modulo ? remainder + (is_off ? right : 0) : left / right - (is_off ? 1 : 0);
    }
    case Sign::power:
      if (right >= 0) return integer_power(left, right);
      [[fallthrough]];
    default:
      return real_result(sign, static_cast<double>(left), static_cast<double>(right));
  }
}

Value joined_text(Runtime& runtime, const Text& left, const Text& right) {
  runtime.charge_bytes(left.string().size() + right.string().size());
  if (!left.is_markup && !right.is_markup) return left.string() + right.string();
  return Value((left.is_markup ? left.string() : escaped_html(left.string())) +
                   (right.is_markup ? right.string() : escaped_html(right.string())),
               true);
}

Value joined_elements(Runtime& runtime, const Value& left, const Value& right) {
  Values values = *left.elements();
  runtime.charge_values(values.size() + right.elements()->size());
  values.insert(values.end(), right.elements()->begin(), right.elements()->end());
  return left.is<List>() ? make_list(std::move(values)) : make_tuple(std::move(values));
}

Value repeated(Runtime& runtime, const Value& value, std::int64_t count) {
  const auto times = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  const std::size_t size = value.text() != nullptr ? value.text()->size() : value.elements()->size() * sizeof(Value);
  if (size > 0 && times > (std::size_t{1} << 40) / size) runtime.charge_bytes(std::size_t{1} << 40);
  runtime.charge_bytes(size * times);
  if (const std::string* const text = value.text()) {
    std::string result;
    for (std::size_t i = 0; i < (text->empty() ? 0 : times); ++i) result += *text;
    return Value(std::move(result), value.as<Text>()->is_markup);
  }
  Values values;
  for (std::size_t i = 0; i < (value.elements()->empty() ? 0 : times); ++i)
    values.insert(values.end(), value.elements()->begin(), value.elements()->end());
  return value.is<List>() ? make_list(std::move(values)) : make_tuple(std::move(values));
}

bool is_repeatable(const Value& value) { return value.text() != nullptr || value.elements() != nullptr; }

bool is_found(std::unique_ptr<Iterator> iterator, const Value& value) {
  while (const auto one = iterator->next())
    if (equal(*one, value)) return true;
  return false;
}

}  // namespace

std::string escaped_html(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '\'':
        out += "&#39;";
        break;
      case '"':
        out += "&#34;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

Value apply_binary(Runtime& runtime, Sign sign, const Value& left, const Value& right) {
  if (sign == Sign::modulo && left.text() != nullptr) return percent_formatted(runtime, *left.text(), right);
  refuse_undefined(left);
  refuse_undefined(right);
  if (const auto one = left.integer(), other = right.integer(); one && other) return integer_result(sign, *one, *other);
  const auto is_large = [](const Value& value) { return value.is<LargeInteger>(); };
  if ((is_large(left) && (is_large(right) || right.integer())) || (is_large(right) && left.integer())) fail_overflow();
  if (const auto one = left.number(), other = right.number(); one && other) return real_result(sign, *one, *other);
  if (sign == Sign::add && left.text() != nullptr && right.text() != nullptr)
    return joined_text(runtime, *left.as<Text>(), *right.as<Text>());
  if (sign == Sign::add && left.elements() != nullptr && left.kind() == right.kind())
    return joined_elements(runtime, left, right);
  if (sign == Sign::multiply && is_repeatable(left) && right.integer()) return repeated(runtime, left, *right.integer());
  if (sign == Sign::multiply && is_repeatable(right) && left.integer()) return repeated(runtime, right, *left.integer());
  if (sign == Sign::add && (left.text() != nullptr || left.elements() != nullptr))
    fail(fmt::format("can only concatenate {0} (not \"{1}\") to {0}", type_name(left), type_name(right)));
  fail(fmt::format("unsupported operand type(s) for {}: '{}' and '{}'", shown_sign(sign), type_name(left), type_name(right)));
}

Value apply_unary(UnaryOperator sign, const Value& operand) {
  if (sign == UnaryOperator::logical_not) return !truth(operand);
  refuse_undefined(operand);
  const bool is_negative = sign == UnaryOperator::negative;
  if (const auto integer = operand.integer())
    return is_negative ? integer_result(Sign::subtract, 0, *integer) : Value(*integer);
  if (const LargeInteger* const large = operand.as<LargeInteger>()) return is_negative ? negated(*large) : operand;
  if (const auto number = operand.number()) return is_negative ? -*number : *number;
  fail(fmt::format("bad operand type for unary {}: '{}'", is_negative ? "-" : "+", type_name(operand)));
}

bool contains(Runtime& runtime, const Value& container, const Value& value) {
  runtime.charge_steps(container.extent().weight / 8);
  if (const std::string* const text = container.text()) {
    runtime.charge_steps(text->size() / 64);
    if (value.text() == nullptr) fail(fmt::format("'in <string>' requires string as left operand, not {}", type_name(value)));
    return text->find(*value.text()) != std::string::npos;
  }
  if (const DictItems* const dict = container.dict()) return dict->find(value) != nullptr;
  auto iterator = try_iterate(container);
  if (!iterator) fail(fmt::format("argument of type '{}' is not iterable", type_name(container)));
  return is_found(std::move(iterator), value);
}

bool apply_comparison(Runtime& runtime, ComparisonOperator sign, const Value& left, const Value& right) {
  runtime.charge_steps((left.extent().weight + right.extent().weight) / 8);
  switch (sign) {
    case ComparisonOperator::equal:
      return equal(left, right);
    case ComparisonOperator::unequal:
      return !equal(left, right);
    case ComparisonOperator::less:
      return compare(left, right, "<") < 0;
    case ComparisonOperator::less_equal:
      return compare(left, right, "<=") <= 0;
    case ComparisonOperator::greater:
      return compare(left, right, ">") > 0;
    case ComparisonOperator::greater_equal:
      return compare(left, right, ">=") >= 0;
    case ComparisonOperator::in:
      return contains(runtime, right, left);
    default:
      return !contains(runtime, right, left);
  }
}

}  // namespace pipetrain::templates
