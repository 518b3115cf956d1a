#include "data/templates/functions/filters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace pipetrain::templates {
namespace {

constexpr std::array unsupported_filters = {"filesizeformat", "forceescape", "pprint",  "random",
                                            "striptags",      "urlize",      "xmlattr", "wordwrap"};

}  // namespace

Value call_filter(Runtime& runtime, std::string_view name, const Value& input, const Arguments& arguments) {
  for (const FilterTable* table : {&text_filters(), &number_filters(), &sequence_filters(), &generator_filters()})
    if (const auto found = table->find(name); found != table->end()) return found->second(runtime, input, arguments);
  if (std::find(unsupported_filters.begin(), unsupported_filters.end(), name) != unsupported_filters.end())
    fail(fmt::format("the filter '{}' is not supported in a chat template", name));
  fail(fmt::format("there is no filter '{}'", name));
}

}  // namespace pipetrain::templates
