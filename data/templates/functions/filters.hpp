// The filters and tests of Jinja, and "tojson" of transformers. Internal to data/.
#pragma once

#include <map>
#include <string_view>

#include "data/templates/values/object.hpp"
#include "data/templates/values/runtime.hpp"

namespace pipetrain::templates {

using FilterFunction = Value (*)(Runtime&, const Value& input, const Arguments& arguments);
using TestFunction = bool (*)(Runtime&, const Value& input, const Arguments& arguments);
using FilterTable = std::map<std::string_view, FilterFunction>;

// These throw TemplateFault for a name that is unknown or not supported, and everything that the filter or test throws.
Value call_filter(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments);
bool call_test(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments);

// These tables group the filters by the values that they take.
const FilterTable& text_filters();
const FilterTable& number_filters();
const FilterTable& sequence_filters();   // those that give a value
const FilterTable& generator_filters();  // those that give values one after the other

}  // namespace pipetrain::templates
