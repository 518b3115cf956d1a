// The methods of dict, list, tuple and range, and which methods a value has.
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>

#include "data/templates/functions/attributes.hpp"
#include "data/templates/functions/call_arguments.hpp"
#include "data/templates/functions/methods.hpp"
#include "data/templates/values/iteration.hpp"

namespace pipetrain::templates {
namespace {

template <DictView::Kind Kind>
Value view_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("dict", arguments, {});
  runtime.charge_bytes(sizeof(DictView));
  return ObjectPointer(std::make_shared<DictView>(*self.as<Dict>(), Kind));
}

Value dict_get_method(Runtime&, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("get", arguments, {"key", "default"}, 1);
  if (const Value* const found = self.dict()->find(bound.at(0))) return *found;
  return bound.find(1) != nullptr ? bound.at(1) : Value();
}

Value copy_method(Runtime&, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("copy", arguments, {});
  return self;  // nobody can change either
}

Value sequence_index_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("index", arguments, {"value", "start", "stop"}, 1);
  const auto size = length_of(self).value_or(0);
  const auto place = [&](std::int64_t index) { return index < 0 ? std::max<std::int64_t>(index + size, 0) : index; };
  const std::int64_t begin = place(bound.integer(1, 0)), end = std::min(place(bound.integer(2, size)), size);
  runtime.charge_steps(static_cast<std::uint64_t>(size));
  for (std::int64_t i = begin; i < end; ++i)
    if (equal(get_item(runtime, self, Value(i)), bound.at(0))) return i;
  fail("the value is not in the list");
}

Value sequence_count_method(Runtime& runtime, const Value& self, const Arguments& arguments) {
  const BoundArguments bound("count", arguments, {"value"}, 1);
  const auto iterator = iterate(self);
  std::int64_t number = 0;
  while (const auto one = iterator->next()) {
    runtime.charge_step();
    number += equal(*one, bound.at(0)) ? 1 : 0;
  }
  return number;
}

template <class Table>
Method find_in(const Table& table, std::string_view name) {
  const auto found = table.find(name);
  return found == table.end() ? nullptr : found->second;
}

bool is_one_of(std::string_view name, std::initializer_list<std::string_view> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Returns true for methods of Python that the sandbox allows but that no template has needed yet.
bool is_unsupported(const Value& value, std::string_view name) {
  if (value.text() != nullptr)
    return is_one_of(name, {"format", "format_map", "encode", "expandtabs", "translate", "maketrans", "isidentifier"});
  if (value.number())
    return is_one_of(name, {"real", "imag", "conjugate", "bit_length", "bit_count", "numerator", "denominator", "is_integer",
                            "as_integer_ratio", "to_bytes", "from_bytes", "hex", "fromhex"});
  return value.dict() != nullptr ? name == "fromkeys" : value.is<Range>() && is_one_of(name, {"start", "stop", "step"});
}

bool changes_object(const Value& value, std::string_view name) {
  if (value.is<List>()) return is_one_of(name, {"append", "clear", "pop", "reverse", "insert", "sort", "extend", "remove"});
  return value.dict() != nullptr && is_one_of(name, {"clear", "pop", "popitem", "setdefault", "update"});
}

}  // namespace

Method find_dict_method(std::string_view name) {
  static const std::map<std::string_view, Method> methods = {{"items", view_method<DictView::Kind::items>},
                                                             {"keys", view_method<DictView::Kind::keys>},
                                                             {"values", view_method<DictView::Kind::values>},
                                                             {"get", dict_get_method},
                                                             {"copy", copy_method}};
  return find_in(methods, name);
}

Method find_sequence_method(std::string_view name) {
  static const std::map<std::string_view, Method> methods = {
      {"index", sequence_index_method}, {"count", sequence_count_method}, {"copy", copy_method}};
  return find_in(methods, name);
}

std::optional<Value> find_method(const Value& value, std::string_view name) {
  if (changes_object(value, name))
    return make_undefined(fmt::format("access to attribute '{}' of '{}' object is unsafe.", name, type_name(value)));
  if (is_unsupported(value, name))
    fail(fmt::format("'{}' of '{}' is not supported in a chat template", name, type_name(value)));
  const bool is_sequence = value.is<List>() || value.is<Tuple>() || value.is<Range>();
  const Method method = value.text() != nullptr                                 ? find_text_method(name)
                        : value.dict() != nullptr                               ? find_dict_method(name)
                        : is_sequence && !(name == "copy" && !value.is<List>()) ? find_sequence_method(name)
                                                                                : nullptr;
  if (method == nullptr) return std::nullopt;
  const auto call = [value, method](Runtime& runtime, const Arguments& arguments) { return method(runtime, value, arguments); };
  return ObjectPointer(std::make_shared<Function>(std::string(name), call, value.depth() + 1));
}

}  // namespace pipetrain::templates
