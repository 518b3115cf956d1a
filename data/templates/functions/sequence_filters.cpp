// Filters that take values one after the other, and give one value.
#include <fmt/format.h>

#include <algorithm>

#include "data/templates/functions/attributes.hpp"
#include "data/templates/functions/call_arguments.hpp"
#include "data/templates/functions/filters.hpp"
#include "data/templates/functions/operators.hpp"
#include "data/templates/functions/sort_keys.hpp"
#include "data/templates/values/characters.hpp"
#include "data/templates/values/iteration.hpp"
#include "data/templates/values/printing.hpp"

namespace pipetrain::templates {
namespace {

Value first_filter(Runtime&, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("first", arguments, {});
  auto value = iterate(input)->next();
  return value ? *value : make_undefined("No first item, sequence was empty.");
}

Value last_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("last", arguments, {});
  if (input.object() != nullptr && !input.object()->size())
    fail(fmt::format("'{}' object is not reversible", type_name(input)));
  Values values = values_of(runtime, input);
  return values.empty() ? make_undefined("No last item, sequence was empty.") : values.back();
}

Value list_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("list", arguments, {});
  return make_list(values_of(runtime, input));
}

Value join_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("join", arguments, {"d", "attribute"});
  const std::string between = bound.find(0) == nullptr ? "" : printed(bound.at(0));
  std::string result;
  const auto iterator = iterate(input);
  for (bool is_first = true; const auto one = iterator->next(); is_first = false) {
    const Value* const path = bound.find_some(1);
    if (!is_first) result += between;
    result += printed(path == nullptr ? *one : get_path(runtime, *one, *path));
    runtime.charge_steps(1 + (result.size() >> 20));
    runtime.check_output(result.size());
  }
  runtime.charge_bytes(result.size());
  return Value(std::move(result));
}

Value reverse_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("reverse", arguments, {});
  if (input.text() != nullptr) {
    std::string result;
    auto characters = characters_in(*input.text());
    std::for_each(characters.rbegin(), characters.rend(), [&](auto one) { result += one; });
    runtime.charge_bytes(result.size());
    return Value(std::move(result), input.as<Text>()->is_markup);
  }
  auto values = std::make_shared<Values>(values_of(runtime, input));
  const auto next = [values]() -> std::optional<Value> {
    if (values->empty()) return std::nullopt;
    Value value = std::move(values->back());
    values->pop_back();
    return value;
  };
  return ObjectPointer(std::make_shared<Generator>(next, input.depth() + 1));
}

Value sort_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  std::vector<KeyedValue> values;
  for (Value& value : values_of(runtime, input)) {
    Value key = sort_key(runtime, value, {bound.find_some(2), bound.truth(1, false), true});
    values.push_back({std::move(key), std::move(value)});
  }
  return make_list(sorted_values(runtime, std::move(values), bound.truth(0, false)));
}

Value dictsort_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const std::string by = bound.text_or(1, "key");
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  if (input.dict() == nullptr) fail(fmt::format("'{}' object has no attribute 'items'", type_name(input)));
  std::vector<KeyedValue> values;
  for (const auto& [key, value] : input.dict()->items())
    values.push_back(
        {sort_key(runtime, by == "key" ? key : value, {nullptr, bound.truth(0, false), false}), make_tuple({key, value})});
  return make_list(sorted_values(runtime, std::move(values), bound.truth(2, false)));
}

Value groupby_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const bool is_sensitive = bound.truth(2, false);
  const auto attribute = [&](const Value& value) {
    Value found = get_path(runtime, value, bound.at(0));
    return found.is<Undefined>() && bound.find_some(1) != nullptr ? bound.at(1) : found;
  };
  std::vector<KeyedValue> values;
  for (Value& value : values_of(runtime, input)) {
    Value key = sort_key(runtime, attribute(value), {nullptr, is_sensitive, false});
    values.push_back({std::move(key), std::move(value)});
  }
  stable_sort_values(runtime, values, false);
  Values groups;
  for (std::size_t i = 0; i < values.size();) {
    Values group;
    std::size_t end = i;
    for (; end < values.size() && equal(values[end].key, values[i].key); ++end) group.push_back(values[end].value);
    const Value shown = is_sensitive ? values[i].key : attribute(group.front());
    groups.push_back(make_tuple({shown, make_list(std::move(group))}, true));
    i = end;
  }
  return make_list(std::move(groups));
}

template <bool IsMax>
Value extreme_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound(IsMax ? "max" : "min", arguments, {"case_sensitive", "attribute"});
  const SortRule rule{bound.find_some(1), bound.truth(0, false), false};
  const auto iterator = iterate(input);
  std::optional<Value> best, best_key;
  while (auto one = iterator->next()) {
    runtime.charge_step();
    Value key = sort_key(runtime, *one, rule);
    if (best && (IsMax ? compare(key, *best_key, ">") <= 0 : compare(key, *best_key, "<") >= 0)) continue;
    best = std::move(one);
    best_key = std::move(key);
  }
  return best ? *best : make_undefined("No aggregated item, sequence was empty.");
}

Value sum_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("sum", arguments, {"attribute", "start"});
  Value total = bound.find(1) != nullptr ? bound.at(1) : Value(0);
  if (total.text() != nullptr) fail("sum() can't sum strings [use ''.join(seq) instead]");
  const auto iterator = iterate(input);
  while (const auto one = iterator->next()) {
    runtime.charge_step();
    const Value* const path = bound.find_some(0);
    total = apply_binary(runtime, BinaryOperator::add, total, path == nullptr ? *one : get_path(runtime, *one, *path));
  }
  return total;
}

}  // namespace

const FilterTable& sequence_filters() {
  static const FilterTable table = {{"first", first_filter},       {"last", last_filter},       {"list", list_filter},
                                    {"join", join_filter},         {"reverse", reverse_filter}, {"sort", sort_filter},
                                    {"dictsort", dictsort_filter}, {"groupby", groupby_filter}, {"min", extreme_filter<false>},
                                    {"max", extreme_filter<true>}, {"sum", sum_filter}};
  return table;
}

}  // namespace pipetrain::templates
