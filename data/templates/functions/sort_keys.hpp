// The order of values in the filters "sort", "dictsort", "groupby", "min" and "max". Internal to data/.
#pragma once

#include <vector>

#include "data/templates/values/runtime.hpp"

namespace pipetrain::templates {

struct SortRule {
  const Value* attribute = nullptr;  // a path, or null for the values themselves
  bool is_case_sensitive = false;
  bool has_several = false;  // the attribute may be several paths with commas between
};
// Returns the value's sort key: text without regard to its case, unless the rule is sensitive to it.
Value sort_key(Runtime& runtime, const Value& value, const SortRule& rule);

struct KeyedValue {
  Value key, value;
};
// By their keys; equal ones keep their order, also where the order is reversed. Throws TemplateFault for keys without an order.
void stable_sort_values(Runtime& runtime, std::vector<KeyedValue>& values, bool reverse);
Values sorted_values(Runtime& runtime, std::vector<KeyedValue> values, bool reverse);

}  // namespace pipetrain::templates
