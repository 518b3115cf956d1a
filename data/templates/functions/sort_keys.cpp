#include "data/templates/functions/sort_keys.hpp"

#include <algorithm>

#include "data/templates/functions/attributes.hpp"
#include "data/templates/values/characters.hpp"

namespace pipetrain::templates {
namespace {

Value without_case(Value value, const SortRule& rule) {
  if (rule.is_case_sensitive || value.text() == nullptr) return value;
  return Value(lower_case(*value.text()));
}

}  // namespace

Value sort_key(Runtime& runtime, const Value& value, const SortRule& rule) {
  if (rule.attribute == nullptr) return without_case(value, rule);
  if (!rule.has_several || rule.attribute->text() == nullptr)
    return without_case(get_path(runtime, value, *rule.attribute), rule);
  Values keys;
  for (const auto path : split_at(*rule.attribute->text(), ",", -1, false))
    keys.push_back(without_case(get_path(runtime, value, Value(path)), rule));
  return make_list(std::move(keys));
}

void stable_sort_values(Runtime& runtime, std::vector<KeyedValue>& values, bool reverse) {
  std::stable_sort(values.begin(), values.end(), [&](const KeyedValue& one, const KeyedValue& other) {
    runtime.charge_steps(1 + one.key.extent().weight / 8);
    return reverse ? compare(other.key, one.key) < 0 : compare(one.key, other.key) < 0;
  });
}

Values sorted_values(Runtime& runtime, std::vector<KeyedValue> values, bool reverse) {
  stable_sort_values(runtime, values, reverse);
  Values sorted;
  for (KeyedValue& one : values) sorted.push_back(std::move(one.value));
  return sorted;
}

}  // namespace pipetrain::templates
