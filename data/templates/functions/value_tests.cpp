// The tests of Jinja, which follow "is" in expressions.
#include <fmt/format.h>

#include "data/templates/functions/call_arguments.hpp"
#include "data/templates/functions/filters.hpp"
#include "data/templates/functions/operators.hpp"
#include "data/templates/values/characters.hpp"
#include "data/templates/values/iteration.hpp"
#include "data/templates/values/printing.hpp"

namespace pipetrain::templates {
namespace {

using TestTable = std::map<std::string_view, TestFunction>;

void take_nothing(const Arguments& arguments) { const BoundArguments bound("test", arguments, {}); }

bool is_mapping(const Value& value) { return value.dict() != nullptr; }
bool is_plain_integer(const Value& value) { return value.is<std::int64_t>() || value.is<LargeInteger>(); }
bool is_true(const Value& value) { return value.is<bool>() && *value.as<bool>(); }
bool is_false(const Value& value) { return value.is<bool>() && !*value.as<bool>(); }
bool is_sequence(const Value& value) {
  return value.text() != nullptr || value.elements() != nullptr || is_mapping(value) || value.is<Range>() ||
         value.is<Undefined>();
}
bool is_iterable(const Value& value) { return try_iterate(value) != nullptr; }
bool is_number(const Value& value) { return value.number().has_value(); }
bool is_callable(const Value& value) {
  return value.is<Undefined>() || (value.object() != nullptr && value.object()->is_callable());
}
bool is_escaped(const Value& value) { return value.is<Text>() && value.as<Text>()->is_markup; }
bool is_lower(const Value& value) { return is_all(printed(value), TextClass::lower); }
bool is_upper(const Value& value) { return is_all(printed(value), TextClass::upper); }

template <bool (*Holds)(const Value&)>
bool plain(Runtime&, const Value& input, const Arguments& arguments) {
  take_nothing(arguments);
  return Holds(input);
}

template <class Type, bool Wanted>
bool of_type(Runtime&, const Value& input, const Arguments& arguments) {
  take_nothing(arguments);
  return input.is<Type>() == Wanted;
}

template <ComparisonOperator ComparisonSign>
bool compares(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("test", arguments, {"other"}, 1);
  return apply_comparison(runtime, ComparisonSign, input, bound.at(0));
}

bool has_remainder(Runtime& runtime, const Value& input, const Value& divisor, int remainder) {
  return equal(apply_binary(runtime, BinaryOperator::modulo, input, divisor), Value(remainder));
}

template <int Remainder>
bool is_even_or_odd(Runtime& runtime, const Value& input, const Arguments& arguments) {
  take_nothing(arguments);
  return has_remainder(runtime, input, Value(2), Remainder);
}

bool is_divisible(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("divisibleby", arguments, {"num"}, 1);
  return has_remainder(runtime, input, bound.at(0), 0);
}

// Values that Python stores only once are the same if they are equal; containers are the same if they share their contents.
bool is_same(Runtime&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("sameas", arguments, {"other"}, 1);
  const Value& other = bound.at(0);
  if (input.kind() != other.kind()) return false;
  if (input.elements() != nullptr) return input.elements() == other.elements();
  if (input.dict() != nullptr) return input.dict() == other.dict();
  return equal(input, other);
}

const TestTable& test_table() {
  using ComparisonSign = ComparisonOperator;
  static const TestTable table = {{"defined", of_type<Undefined, false>},
                                  {"undefined", of_type<Undefined, true>},
                                  {"none", of_type<None, true>},
                                  {"boolean", of_type<bool, true>},
                                  {"float", of_type<double, true>},
                                  {"string", of_type<Text, true>},
                                  {"integer", plain<is_plain_integer>},
                                  {"number", plain<is_number>},
                                  {"true", plain<is_true>},
                                  {"false", plain<is_false>},
                                  {"mapping", plain<is_mapping>},
                                  {"sequence", plain<is_sequence>},
                                  {"iterable", plain<is_iterable>},
                                  {"callable", plain<is_callable>},
                                  {"escaped", plain<is_escaped>},
                                  {"lower", plain<is_lower>},
                                  {"upper", plain<is_upper>},
                                  {"even", is_even_or_odd<0>},
                                  {"odd", is_even_or_odd<1>},
                                  {"divisibleby", is_divisible},
                                  {"sameas", is_same},
                                  {"eq", compares<ComparisonSign::equal>},
                                  {"equalto", compares<ComparisonSign::equal>},
                                  {"==", compares<ComparisonSign::equal>},
                                  {"ne", compares<ComparisonSign::unequal>},
                                  {"!=", compares<ComparisonSign::unequal>},
                                  {"lt", compares<ComparisonSign::less>},
                                  {"lessthan", compares<ComparisonSign::less>},
                                  {"<", compares<ComparisonSign::less>},
                                  {"le", compares<ComparisonSign::less_equal>},
                                  {"<=", compares<ComparisonSign::less_equal>},
                                  {"gt", compares<ComparisonSign::greater>},
                                  {"greaterthan", compares<ComparisonSign::greater>},
                                  {">", compares<ComparisonSign::greater>},
                                  {"ge", compares<ComparisonSign::greater_equal>},
                                  {">=", compares<ComparisonSign::greater_equal>},
                                  {"in", compares<ComparisonSign::in>}};
  return table;
}

}  // namespace

bool call_test(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments) {
  const auto& table = test_table();
  if (const auto found = table.find(name); found != table.end()) return found->second(runtime, input, arguments);
  if (name == "filter" || name == "test") fail(fmt::format("the test '{}' is not supported in a chat template", name));
  fail(fmt::format("there is no test '{}'", name));
}

}  // namespace pipetrain::templates
