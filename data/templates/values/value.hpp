// Value is what an expression of a chat template has: the types of Python that Jinja works with. Internal to data/.
#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

namespace pipetrain::templates {

class Value;
class DictItems;
class Object;
using Values = std::vector<Value>;
using ObjectPointer = std::shared_ptr<Object>;

// A template that cannot be read or rendered: the reason, and the line counted from 1; 0: not known yet.
struct TemplateFault {
  std::string why;
  int line = 0;
};

// The largest depth of nested containers and the largest number of values in them. Shared values count each time. Within
// these limits functions can safely recurse into containers.
inline constexpr int deepest_value = 200;
inline constexpr std::size_t most_nested_values = std::size_t{4} << 20;

struct Undefined {
  std::shared_ptr<const std::string> why;  // the error that most uses of it raise
};
struct None {};
struct Text {
  std::shared_ptr<const std::string> bytes;  // valid UTF-8
  bool is_markup = false;                    // marked as HTML by the filters "safe" and "escape"
  const std::string& string() const { return *bytes; }
};
struct Extent {
  int depth = 1;
  std::size_t weight = 1;  // the values in it, and it
  void add(const Value& value);
};
struct Items {
  Values values;
  Extent extent;
};
struct List {
  std::shared_ptr<const Items> items;
  const Values& values() const { return items->values; }
};
struct Tuple {
  std::shared_ptr<const Items> items;
  bool is_group = false;  // made by the filter "groupby", with the attributes "grouper" and "list"
  const Values& values() const { return items->values; }
};
// An int of Python beyond 64 bits: its decimal digits, after "-" if it is negative. It can be printed and compared, but not
// be computed with.
struct LargeInteger {
  std::shared_ptr<const std::string> digits;
};
struct Dict {
  std::shared_ptr<const DictItems> items;
};
struct Range {
  std::int64_t begin = 0, end = 0, step = 1;
  std::int64_t size() const;
  std::int64_t at(std::int64_t index) const { return begin + index * step; }
};

// Copies share their contents, which never change: only namespaces and iterators, which are objects, have a state.
class Value {
 public:
  using Held =
      std::variant<None, Undefined, bool, std::int64_t, double, Text, List, Tuple, Dict, Range, LargeInteger, ObjectPointer>;

  Value() = default;
  template <std::same_as<bool> Boolean>
  Value(Boolean value) : held_(value) {}
  template <std::integral Number>
  requires(!std::same_as<Number, bool>) Value(Number value) : held_(static_cast<std::int64_t>(value)) {}
  Value(double value) : held_(value) {}
  Value(std::string text, bool is_markup = false)
      : held_(Text{std::make_shared<const std::string>(std::move(text)), is_markup}) {}
  Value(std::string_view text) : Value(std::string(text)) {}
  Value(const char* text) : Value(std::string(text)) {}
  Value(Undefined value) : held_(std::move(value)) {}
  Value(Text value) : held_(std::move(value)) {}
  Value(List value) : held_(std::move(value)) {}
  Value(Tuple value) : held_(std::move(value)) {}
  Value(Dict value) : held_(std::move(value)) {}
  Value(Range value) : held_(value) {}
  Value(LargeInteger value) : held_(std::move(value)) {}
  Value(ObjectPointer value) : held_(std::move(value)) {}

  template <class Type>
  const Type* as() const {
    return std::get_if<Type>(&held_);
  }
  template <class Type>
  bool is() const {
    return std::holds_alternative<Type>(held_);
  }
  const std::string* text() const { return is<Text>() ? as<Text>()->bytes.get() : nullptr; }
  // Returns the elements of a list or tuple; null for other values.
  const Values* elements() const;
  const DictItems* dict() const { return is<Dict>() ? as<Dict>()->items.get() : nullptr; }
  Object* object() const { return is<ObjectPointer>() ? as<ObjectPointer>()->get() : nullptr; }
  // Returns an int of at most 64 bits, or a bool as the integer that Python takes it for; no value for other types.
  std::optional<std::int64_t> integer() const;
  // Returns an int, a bool or a float, if need be the nearest double; no value for other types.
  std::optional<double> number() const;
  std::size_t kind() const { return held_.index(); }
  Extent extent() const;
  int depth() const { return extent().depth; }

 private:
  Held held_;
};

// A dict of Python: keys in the order in which they were added.
class DictItems {
 public:
  using Item = std::pair<Value, Value>;

  const std::vector<Item>& items() const { return items_; }
  std::size_t size() const { return items_.size(); }
  const Extent& extent() const { return extent_; }
  // Returns null if there is none. Throws TemplateFault for a key that has no hash.
  const Value* find(const Value& key) const;
  const Value* find(std::string_view key) const;
  void set(const Value& key, Value value);

 private:
  std::size_t place(const Value& key) const;

  static constexpr std::size_t most_searched = 8;
  std::vector<Item> items_;
  std::unordered_map<std::string, std::size_t> places_;  // by the keys' hashes, of dicts with more than most_searched items
  Extent extent_;
};

// All throw TemplateFault where the values nest too deeply or are too many.
Value make_list(Values values);
Value make_tuple(Values values, bool is_group = false);
Value make_dict(DictItems items);
Value make_undefined(std::string why);
// `digits`: decimal, without leading zeros, after "-" if the integer is negative. Throws TemplateFault beyond the largest
// double.
Value make_integer(std::string digits);
Value undefined_name(std::string_view name);  // "'name' is undefined"

bool truth(const Value& value);
// Compares as == of Python does.
bool equal(const Value& one, const Value& other);
// Returns -1, 0 or 1. Throws TemplateFault if Python has no order of the two; `sign` is for its text.
int compare(const Value& one, const Value& other, const char* sign = "<");
// Returns the name of the type in Python.
std::string type_name(const Value& value);

[[noreturn]] void fail(std::string why);

}  // namespace pipetrain::templates
