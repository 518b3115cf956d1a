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
// Returns the key by which the value is sorted. The case of text is ignored unless the rule is case-sensitive.
Value sort_key(Runtime& runtime, const Value& value, const SortRule& rule);

struct KeyedValue {
  Value key, value;
};
// Sorts by the keys. Values with equal keys keep their order, also if `reverse` is set. Throws TemplateFault for keys that
// cannot be ordered.
void stable_sort_values(Runtime& runtime, std::vector<KeyedValue>& values, bool reverse);
Values sorted_values(Runtime& runtime, std::vector<KeyedValue> values, bool reverse);

}  // namespace pipetrain::templates
