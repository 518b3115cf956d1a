// Filters that give numbers, and those that take any value.
#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "data/templates/functions/attributes.hpp"
#include "data/templates/functions/call_arguments.hpp"
#include "data/templates/functions/filters.hpp"
#include "data/templates/functions/operators.hpp"
#include "data/templates/values/characters.hpp"
#include "data/templates/values/iteration.hpp"
#include "data/templates/values/printing.hpp"

namespace pipetrain::templates {
namespace {

// Returns the text without the single "_" between its digits, which int() and float() of Python allow; no value where "_"
// stands elsewhere.
std::optional<std::string> without_underscores(std::string_view text) {
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto is_digit = [&](std::size_t at) {
      return at < text.size() && std::isalnum(static_cast<unsigned char>(text[at])) != 0;
    };
    if (text[i] == '_' && !(i > 0 && is_digit(i - 1) && is_digit(i + 1))) return std::nullopt;
    if (text[i] != '_') digits += text[i];
  }
  return digits;
}

std::optional<double> parsed_real(std::string_view text) {
  const auto digits = without_underscores(stripped(text));
  if (!digits || digits->empty()) return std::nullopt;
  std::string plain = lower_case(*digits);
  const bool is_negative = plain.front() == '-';
  if (is_negative || plain.front() == '+') plain.erase(0, 1);
  if (plain.empty() || plain.front() == '-' || plain.front() == '+') return std::nullopt;
  double number = 0;
  const auto [end, error] = std::from_chars(plain.data(), plain.data() + plain.size(), number);
  if (end != plain.data() + plain.size() || plain.find("nan(") != std::string::npos) return std::nullopt;
  if (error == std::errc::result_out_of_range) number = std::strtod(plain.c_str(), nullptr);
  return is_negative ? -number : number;
}

std::optional<Value> parsed_integer(std::string_view text, std::int64_t base) {
  std::string_view plain = stripped(text);
  const bool is_negative = plain.starts_with('-');
  if (is_negative || plain.starts_with('+')) plain.remove_prefix(1);
  const char kind =
      plain.size() > 1 && plain[0] == '0' ? static_cast<char>(std::tolower(static_cast<unsigned char>(plain[1]))) : ' ';
  const std::int64_t named = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 0;
  if (named != 0 && (base == 0 || base == named)) {
    plain.remove_prefix(2);
    base = named;
    if (plain.starts_with('_')) plain.remove_prefix(1);
  }
  const auto digits = without_underscores(plain);
  if (!digits || digits->empty() || digits->front() == '-') return std::nullopt;
  if (base == 0 && digits->front() == '0' && digits->find_first_not_of('0') != std::string::npos) return std::nullopt;
  std::int64_t number = 0;
  const auto [end, error] =
      std::from_chars(digits->data(), digits->data() + digits->size(), number, base == 0 ? 10 : static_cast<int>(base));
  if (end != digits->data() + digits->size()) return std::nullopt;
  if (error == std::errc()) return is_negative ? -number : number;
  if (base != 0 && base != 10) fail("an integer is too large");
  return make_integer((is_negative ? "-" : "") + digits->substr(digits->find_first_not_of('0')));
}

Value truncated(double number) { return make_integer(fmt::format("{:.0f}", std::trunc(number) + 0.0)); }  // -0.0 becomes 0

Value to_int_filter(Runtime&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("int", arguments, {"default", "base"});
  const Value otherwise = bound.find(0) != nullptr ? bound.at(0) : Value(0);
  if (const Undefined* const undefined = input.as<Undefined>()) fail(*undefined->why);
  if (const auto integer = input.integer()) return *integer;
  if (input.is<LargeInteger>()) return input;
  if (const double* const real = input.as<double>()) {
    if (std::isinf(*real)) fail("cannot convert float infinity to integer");
    return std::isnan(*real) ? otherwise : truncated(*real);
  }
  if (input.text() == nullptr) return otherwise;
  const std::int64_t base = bound.integer(1, 10);
  const bool is_base = base == 0 || (base >= 2 && base <= 36);
  if (is_base)
    if (const auto integer = parsed_integer(*input.text(), base)) return *integer;
  const auto real = parsed_real(*input.text());
  return real && std::isfinite(*real) ? truncated(*real) : otherwise;
}

Value to_float_filter(Runtime&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("float", arguments, {"default"});
  const Value otherwise = bound.find(0) != nullptr ? bound.at(0) : Value(0.0);
  if (const Undefined* const undefined = input.as<Undefined>()) fail(*undefined->why);
  if (const auto number = input.number()) return *number;
  const auto real = input.text() != nullptr ? parsed_real(*input.text()) : std::nullopt;
  return real ? Value(*real) : otherwise;
}

Value absolute_filter(Runtime&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("abs", arguments, {});
  if (const Undefined* const undefined = input.as<Undefined>()) fail(*undefined->why);
  if (const double* const real = input.as<double>()) return std::abs(*real);
  if (input.number())
    return *input.number() < 0 ? apply_unary(UnaryOperator::negative, input) : apply_unary(UnaryOperator::positive, input);
  fail(fmt::format("bad operand type for abs(): '{}'", type_name(input)));
}

// Rounds the exact value of the double to the nearest number with this many decimals; a tie goes to the even one.
double rounded(double number, std::int64_t precision) {
  if (!std::isfinite(number) || precision > 300) return number;
  if (precision >= 0) return std::strtod(fmt::format("{:.{}f}", number, static_cast<int>(precision)).c_str(), nullptr);
  if (precision < -300) return std::copysign(0.0, number);
  const double unit = std::pow(10.0, static_cast<double>(-precision));
  return std::nearbyint(number / unit) * unit;
}

Value round_integer(std::int64_t number, std::int64_t precision) {
  if (precision >= 0) return number;
  if (precision < -18) return 0;
  std::int64_t unit = 1;
  for (std::int64_t i = precision; i < 0; ++i) unit *= 10;
  std::int64_t rest = number % unit, whole = number - rest;
  if (rest < 0) rest += unit, whole -= unit;
  const bool is_up = rest * 2 > unit || (rest * 2 == unit && (whole / unit) % 2 != 0);
  return whole + (is_up ? unit : 0);
}

Value round_filter(Runtime&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("round", arguments, {"precision", "method"});
  const std::int64_t precision = bound.integer(0, 0);
  const std::string method = bound.text_or(1, "common");
  if (method != "common" && method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  if (const Undefined* const undefined = input.as<Undefined>()) fail(*undefined->why);
  const auto number = input.number();
  if (!number) fail(fmt::format("type {} doesn't define __round__ method", type_name(input)));
  if (method == "common" && input.integer()) return round_integer(*input.integer(), precision);
  if (input.is<LargeInteger>() && method == "common") {
    if (precision < 0) fail("an integer is too large");
    return input;
  }
  if (method == "common") return rounded(*number, precision);
  if (std::abs(precision) > 300) fail("a precision is too large");
  const double unit = std::pow(10.0, static_cast<double>(precision));
  return (method == "ceil" ? std::ceil(*number * unit) : std::floor(*number * unit)) / unit;
}

Value length_filter(Runtime&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("length", arguments, {});
  const auto size = length_of(input);
  if (!size) fail(fmt::format("object of type '{}' has no len()", type_name(input)));
  return *size;
}

Value default_value_filter(Runtime&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("default", arguments, {"default_value", "boolean"});
  const bool is_missing = input.is<Undefined>() || (bound.truth(1, false) && !truth(input));
  if (!is_missing) return input;
  return bound.find(0) != nullptr ? bound.at(0) : Value("");
}

Value attribute_filter(Runtime&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("attr", arguments, {"name"}, 1);
  // The filter does not look among the items of a dict.
  const Value found = input.dict() != nullptr && !find_method(input, bound.text(0))
                          ? make_undefined(fmt::format("'dict object' has no attribute {}", text_repr(bound.text(0))))
                          : get_attribute(input, bound.text(0));
  return found;
}

}  // namespace

const FilterTable& number_filters() {
  static const FilterTable table = {
      {"int", to_int_filter},    {"float", to_float_filter}, {"abs", absolute_filter},          {"round", round_filter},
      {"length", length_filter}, {"count", length_filter},   {"default", default_value_filter}, {"d", default_value_filter},
      {"attr", attribute_filter}};
  return table;
}

}  // namespace pipetrain::templates
