// Filters that take values one after the other, and give others one after the other when they are asked for.
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "data/templates/functions/attributes.hpp"
#include "data/templates/functions/call_arguments.hpp"
#include "data/templates/functions/filters.hpp"
#include "data/templates/functions/sort_keys.hpp"
#include "data/templates/values/iteration.hpp"

namespace pipetrain::templates {
namespace {

int depth_of(const Value& input, const Arguments& arguments) {
  int depth = input.depth();
  for (const Value& value : arguments.positional) depth = std::max(depth, value.depth());
  for (const auto& [name, value] : arguments.named) depth = std::max(depth, value.depth());
  return depth + 1;
}

// Turns the values of `input` into others by `change`, which returns nothing for a value to leave out. The generator holds the
// input, which is read when the first value is asked for.
template <class Change>
Value generator(Runtime& runtime, const Value& input, const Arguments& arguments, Change change) {
  struct State {
    Value input;
    std::unique_ptr<Iterator> iterator;
  };
  auto state = std::make_shared<State>(State{input, nullptr});
  const auto next = [&runtime, state, change]() -> std::optional<Value> {
    const Level level(runtime);
    if (!state->iterator) state->iterator = iterate(state->input);
    while (const auto one = state->iterator->next()) {
      runtime.charge_step();
      if (auto changed = change(*one)) return changed;
    }
    return std::nullopt;
  };
  runtime.charge_bytes(sizeof(Generator) + sizeof(State));
  return ObjectPointer(std::make_shared<Generator>(next, depth_of(input, arguments)));
}

// Returns an empty list for any false value, because "map" and "select" treat it as one without values.
Value true_or_empty(const Value& input) { return truth(input) ? input : make_list({}); }

Value generator_over(Runtime& runtime, Values values) {
  const Value list = make_list(std::move(values));
  return generator(runtime, list, {}, [](const Value& value) { return std::optional(value); });
}

struct AttributeRule {
  Value path, otherwise;
  bool has_otherwise = false;
};

Value map_attribute(Runtime& runtime, const Value& input, const Arguments& arguments) {
  AttributeRule rule;
  for (const auto& [name, value] : arguments.named) {
    if (name != "attribute" && name != "default") fail(fmt::format("Unexpected keyword argument '{}'", name));
    (name == "attribute" ? rule.path : rule.otherwise) = value;
    if (name == "default") rule.has_otherwise = !value.is<None>();
  }
  return generator(runtime, true_or_empty(input), arguments, [&runtime, rule](const Value& value) {
    Value found = get_path(runtime, value, rule.path);
    return std::optional(found.is<Undefined>() && rule.has_otherwise ? rule.otherwise : found);
  });
}

Value map_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const auto is_attribute = [](const auto& named) { return named.first == "attribute"; };
  if (arguments.positional.empty() && std::any_of(arguments.named.begin(), arguments.named.end(), is_attribute))
    return map_attribute(runtime, input, arguments);
  if (arguments.positional.empty() || arguments.positional[0].text() == nullptr) fail("map requires a filter argument");
  const std::string name = *arguments.positional[0].text();
  Arguments rest = arguments;
  rest.positional.erase(rest.positional.begin());
  return generator(runtime, true_or_empty(input), arguments, [&runtime, name, rest](const Value& value) {
    return std::optional(call_filter(runtime, name, value, rest));
  });
}

// select, reject, and those by an attribute.
template <bool Wanted, bool ByAttribute>
Value choose_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  constexpr std::size_t skipped = ByAttribute ? 1 : 0;
  Arguments rest = arguments;
  if (ByAttribute && rest.positional.empty()) fail("Missing parameter for attribute name");
  Value path;
  if constexpr (ByAttribute) path = rest.positional[0];
  std::string test;
  if (rest.positional.size() > skipped) {
    if (rest.positional[skipped].text() == nullptr) fail("the name of a test is a str");
    test = *rest.positional[skipped].text();
  }
  rest.positional.erase(rest.positional.begin(),
                        rest.positional.begin() + static_cast<std::ptrdiff_t>(std::min(rest.positional.size(), skipped + 1)));
  return generator(runtime, true_or_empty(input), arguments,
                   [&runtime, path, test, rest](const Value& value) -> std::optional<Value> {
                     const Value tested = get_path(runtime, value, path);
                     const bool holds = test.empty() ? truth(tested) : call_test(runtime, test, tested, rest);
                     return holds == Wanted ? std::optional(value) : std::nullopt;
                   });
}

Value unique_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("unique", arguments, {"case_sensitive", "attribute"});
  const bool is_sensitive = bound.truth(0, false);
  const Value path = bound.find_some(1) != nullptr ? bound.at(1) : Value();
  auto seen = std::make_shared<DictItems>();
  return generator(runtime, input, arguments, [&runtime, is_sensitive, path, seen](const Value& value) -> std::optional<Value> {
    const Value key = sort_key(runtime, value, {path.is<None>() ? nullptr : &path, is_sensitive, false});
    if (seen->find(key) != nullptr) return std::nullopt;
    seen->set(key, Value());
    return value;
  });
}

Value items_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("items", arguments, {});
  if (input.is<Undefined>()) return generator_over(runtime, {});
  if (input.dict() == nullptr) fail("Can only get item pairs from a mapping.");
  return generator_over(runtime, DictView(*input.as<Dict>(), DictView::Kind::items).values());
}

Value batch_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("batch", arguments, {"linecount", "fill_with"}, 1);
  const std::int64_t count = bound.integer(0, 0);
  Values rows, row;
  for (Value& value : values_of(runtime, input)) {
    if (std::ssize(row) == count) rows.push_back(make_list(std::exchange(row, {})));
    row.push_back(std::move(value));
  }
  if (!row.empty()) {
    if (bound.find_some(1) != nullptr && std::ssize(row) < count) {
      runtime.charge_bytes(static_cast<std::size_t>(std::min<std::int64_t>(count, std::int64_t{1} << 40)) * sizeof(Value));
      row.resize(static_cast<std::size_t>(count), bound.at(1));
    }
    rows.push_back(make_list(std::move(row)));
  }
  return generator_over(runtime, std::move(rows));
}

Value slice_filter(Runtime& runtime, const Value& input, const Arguments& arguments) {
  const BoundArguments bound("slice", arguments, {"slices", "fill_with"}, 1);
  const std::int64_t slices = bound.integer(0, 0);
  const Values values = values_of(runtime, input);
  if (slices == 0) fail("integer division or modulo by zero");
  runtime.charge_values(static_cast<std::size_t>(std::clamp<std::int64_t>(slices, 0, INT32_MAX)));
  Values all;
  std::size_t at = 0;
  for (std::int64_t i = 0; i < slices; ++i) {
    const bool has_extra = i < std::ssize(values) % slices;
    const auto size = static_cast<std::size_t>(std::ssize(values) / slices + (has_extra ? 1 : 0));
    Values one(values.begin() + static_cast<std::ptrdiff_t>(at), values.begin() + static_cast<std::ptrdiff_t>(at + size));
    if (bound.find_some(1) != nullptr && !has_extra) one.push_back(bound.at(1));
    all.push_back(make_list(std::move(one)));
    at += size;
  }
  return generator_over(runtime, std::move(all));
}

}  // namespace

const FilterTable& generator_filters() {
  static const FilterTable table = {{"map", map_filter},
                                    {"select", choose_filter<true, false>},
                                    {"reject", choose_filter<false, false>},
                                    {"selectattr", choose_filter<true, true>},
                                    {"rejectattr", choose_filter<false, true>},
                                    {"unique", unique_filter},
                                    {"items", items_filter},
                                    {"batch", batch_filter},
                                    {"slice", slice_filter}};
  return table;
}

}  // namespace pipetrain::templates
