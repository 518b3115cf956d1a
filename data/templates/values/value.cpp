#include "data/templates/values/value.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "data/templates/values/object.hpp"

namespace pipetrain::templates {
namespace {

std::shared_ptr<const Items> items_of(Values values) {
  Extent extent;
  for (const Value& value : values) extent.add(value);
  return std::make_shared<const Items>(Items{std::move(values), extent});
}

// Equal keys have equal texts.
void add_hash(const Value& key, std::string& text) {
  if (const std::string* const string = key.text()) {
    text += fmt::format("s{}:{}", string->size(), *string);
  } else if (const auto integer = key.integer()) {
    text += fmt::format("i{};", *integer);
  } else if (const LargeInteger* const large = key.as<LargeInteger>()) {
    text += fmt::format("i{};", *large->digits);
  } else if (const double* const real = key.as<double>()) {
    const bool is_whole = std::floor(*real) == *real && std::isfinite(*real);
    text += is_whole ? fmt::format("i{:.0f};", *real + 0.0) : fmt::format("f{};", *real);  // 0 is added because of -0.0
  } else if (key.is<Tuple>()) {
    text += '(';
    for (const Value& value : *key.elements()) add_hash(value, text);
    text += ')';
  } else if (const Range* const range = key.as<Range>()) {
    const std::int64_t size = range->size();
    text += fmt::format("r{},{},{};", size, size > 0 ? range->begin : 0, size > 1 ? range->step : 0);
  } else if (key.is<None>() || key.is<Undefined>()) {
    text += key.is<None>() ? 'n' : 'u';
  } else if (Object* const object = key.object()) {
    text += fmt::format("o{};", static_cast<const void*>(object));
  } else {
    fail(fmt::format("unhashable type: '{}'", type_name(key)));
  }
}

std::string hash_of(const Value& key) {
  std::string text;
  add_hash(key, text);
  return text;
}

bool equal_items(const Values& one, const Values& other) {
  if (&one == &other) return true;
  return one.size() == other.size() && std::equal(one.begin(), one.end(), other.begin(), equal);
}

bool equal_dicts(const DictItems& one, const DictItems& other) {
  if (one.size() != other.size()) return false;
  return std::all_of(one.items().begin(), one.items().end(), [&](const DictItems::Item& item) {
    const Value* const found = other.find(item.first);
    return found != nullptr && equal(item.second, *found);
  });
}

bool equal_ranges(const Range& one, const Range& other) {
  if (one.size() != other.size()) return false;
  if (one.size() == 0) return true;
  return one.begin == other.begin && (one.size() == 1 || one.step == other.step);
}

// Returns the digits of an integer, and of the integer at or next to a finite real number; no value for other types.
std::optional<std::string> digits_of(const Value& value) {
  if (const LargeInteger* const large = value.as<LargeInteger>()) return *large->digits;
  if (const auto integer = value.integer()) return std::to_string(*integer);
  if (const double* const real = value.as<double>(); real != nullptr && std::isfinite(*real))
    return fmt::format("{:.0f}", *real);
  return std::nullopt;
}

template <class Number>
int sign_of(Number one, Number other) {
  return one < other ? -1 : one > other ? 1 : 0;
}

// Compares a large integer with a number exactly: a double of that size is an integer, too. Returns no value if neither is a
// large integer, or one is not a finite number.
std::optional<int> compare_large(const Value& one, const Value& other) {
  if (!one.is<LargeInteger>() && !other.is<LargeInteger>()) return std::nullopt;
  const auto left = digits_of(one), right = digits_of(other);
  if (!left || !right) return std::nullopt;
  const bool is_negative = left->front() == '-';
  if (is_negative != (right->front() == '-')) return is_negative ? -1 : 1;
  const int sign = left->size() == right->size() ? sign_of(left->compare(*right), 0) : sign_of(left->size(), right->size());
  return is_negative ? -sign : sign;
}

}  // namespace

void fail(std::string why) { throw TemplateFault{std::move(why)}; }

std::int64_t Range::size() const {
  if (step > 0) return begin < end ? (end - begin - 1) / step + 1 : 0;
  return begin > end ? (begin - end - 1) / -step + 1 : 0;
}

const Values* Value::elements() const {
  if (const List* const list = as<List>()) return &list->values();
  if (const Tuple* const tuple = as<Tuple>()) return &tuple->values();
  return nullptr;
}

std::optional<std::int64_t> Value::integer() const {
  if (const auto* const integer = as<std::int64_t>()) return *integer;
  if (const bool* const truth = as<bool>()) return *truth ? 1 : 0;
  return std::nullopt;
}

std::optional<double> Value::number() const {
  if (const double* const real = as<double>()) return *real;
  if (const auto whole = integer()) return static_cast<double>(*whole);
  if (const LargeInteger* const large = as<LargeInteger>()) return std::strtod(large->digits->c_str(), nullptr);
  return std::nullopt;
}

void Extent::add(const Value& value) {
  const Extent inner = value.extent();
  depth = std::max(depth, inner.depth + 1);
  weight += inner.weight;
  if (depth > deepest_value) fail(fmt::format("values are nested more than {} deep", deepest_value));
  if (weight > most_nested_values) fail(fmt::format("a value holds more than {} others", most_nested_values));
}

Extent Value::extent() const {
  if (const List* const list = as<List>()) return list->items->extent;
  if (const Tuple* const tuple = as<Tuple>()) return tuple->items->extent;
  if (const DictItems* const items = dict()) return items->extent();
  return {object() != nullptr ? object()->depth() : 0, 1};
}

std::size_t DictItems::place(const Value& key) const {
  if (items_.size() > most_searched) {
    const auto found = places_.find(hash_of(key));
    return found == places_.end() ? items_.size() : found->second;
  }
  if (key.text() == nullptr) hash_of(key);  // throws
  const auto same = [&](const Item& item) { return equal(item.first, key); };
  return static_cast<std::size_t>(std::find_if(items_.begin(), items_.end(), same) - items_.begin());
}

const Value* DictItems::find(const Value& key) const {
  const std::size_t found = place(key);
  return found == items_.size() ? nullptr : &items_[found].second;
}

const Value* DictItems::find(std::string_view key) const {
  if (items_.size() > most_searched) return find(Value(key));
  for (const auto& [name, value] : items_)
    if (const std::string* const text = name.text(); text != nullptr && *text == key) return &value;
  return nullptr;
}

void DictItems::set(const Value& key, Value value) {
  extent_.add(key);
  extent_.add(value);
  const std::size_t found = place(key);
  if (found < items_.size()) {
    items_[found].second = std::move(value);
    return;
  }
  items_.emplace_back(key, std::move(value));
  if (items_.size() <= most_searched) return;
  if (places_.empty())
    for (std::size_t i = 0; i + 1 < items_.size(); ++i) places_.emplace(hash_of(items_[i].first), i);
  places_.emplace(hash_of(key), items_.size() - 1);
}

Value make_list(Values values) { return List{items_of(std::move(values))}; }
Value make_tuple(Values values, bool is_group) { return Tuple{items_of(std::move(values)), is_group}; }
Value make_dict(DictItems items) { return Dict{std::make_shared<const DictItems>(std::move(items))}; }
Value make_undefined(std::string why) { return Undefined{std::make_shared<const std::string>(std::move(why))}; }
Value make_integer(std::string digits) {
  std::int64_t integer = 0;
  const char* const end = digits.data() + digits.size();
  if (std::from_chars(digits.data(), end, integer).ec == std::errc()) return integer;
  if (!std::isfinite(std::strtod(digits.c_str(), nullptr))) fail("an integer is too large");
  return LargeInteger{std::make_shared<const std::string>(std::move(digits))};
}
Value undefined_name(std::string_view name) { return make_undefined(fmt::format("'{}' is undefined", name)); }

bool truth(const Value& value) {
  if (const bool* const boolean = value.as<bool>()) return *boolean;
  if (const auto number = value.number()) return *number != 0;
  if (const std::string* const text = value.text()) return !text->empty();
  if (const Values* const elements = value.elements()) return !elements->empty();
  if (const DictItems* const dict = value.dict()) return dict->size() > 0;
  if (const Range* const range = value.as<Range>()) return range->size() > 0;
  if (const Object* const object = value.object()) return object->size().value_or(1) > 0;
  return false;
}

bool equal(const Value& one, const Value& other) {
  if (one.text() != nullptr && other.text() != nullptr) return *one.text() == *other.text();
  if (const auto left = one.integer(), right = other.integer(); left && right) return *left == *right;
  if (const auto order = compare_large(one, other)) return *order == 0;
  if (const auto left = one.number(), right = other.number(); left && right) return *left == *right;
  if (one.kind() != other.kind()) return false;
  if (const Values* const elements = one.elements()) return equal_items(*elements, *other.elements());
  if (const DictItems* const dict = one.dict()) return equal_dicts(*dict, *other.dict());
  if (const Range* const range = one.as<Range>()) return equal_ranges(*range, *other.as<Range>());
  if (one.object() != nullptr) return one.object() == other.object();
  return one.is<None>() || one.is<Undefined>();
}

int compare(const Value& one, const Value& other, const char* sign) {
  if (one.is<Undefined>() || other.is<Undefined>()) fail(*(one.is<Undefined>() ? one : other).as<Undefined>()->why);
  if (one.text() != nullptr && other.text() != nullptr) return sign_of(one.text()->compare(*other.text()), 0);
  if (const auto left = one.integer(), right = other.integer(); left && right) return sign_of(*left, *right);
  if (const auto order = compare_large(one, other)) return *order;
  if (const auto left = one.number(), right = other.number(); left && right) return sign_of(*left, *right);
  const Values *const left = one.elements(), *const right = other.elements();
  if (left == nullptr || right == nullptr || one.kind() != other.kind())
    fail(fmt::format("'{}' not supported between instances of '{}' and '{}'", sign, type_name(one), type_name(other)));
  for (std::size_t i = 0; i < std::min(left->size(), right->size()); ++i)
    if (!equal((*left)[i], (*right)[i])) return compare((*left)[i], (*right)[i], sign);
  return sign_of(left->size(), right->size());
}

std::string type_name(const Value& value) {
  constexpr const char* names[] = {"NoneType", "Undefined", "bool", "int",   "float", "str",
                                   "list",     "tuple",     "dict", "range", "int"};
  if (const Object* const object = value.object()) return object->type_name();
  return value.is<Text>() && value.as<Text>()->is_markup ? "Markup" : names[value.kind()];
}

}  // namespace pipetrain::templates
