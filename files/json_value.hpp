// A JSON value: what files/json.hpp reads, and what programs that write JSON put together.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.hpp"

namespace pipetrain {

// A value is not of the kind that it was asked for as, or has no such key or element: a bug, unless a reader that asks without
// looking first catches this.
class JsonMisuse : public Error {
 public:
  explicit JsonMisuse(const std::string& what) : Error(ErrorKind::internal, what) {}
};

// Text gives a number without sign, fraction or exponent as an unsigned integer, one with a sign as an integer.
enum class JsonKind : unsigned char { null, boolean, integer, unsigned_integer, real, string, array, object };

// How the members of an object follow each other: by the bytes of their keys, or as they were added.
enum class JsonOrder { by_key, as_added };

struct JsonStyle {
  int indent = -1;  // of each level in spaces, with a line for each value; -1: all in one line without spaces
  JsonOrder order = JsonOrder::by_key;
  bool ascii = false;    // writes other characters as \uXXXX
  bool replace = false;  // writes U+FFFD for what is not UTF-8, which is refused else
};

// Takes 16 bytes beside what it holds; a member of an object takes 96 with its value, if its key is short. It is to be nested
// no deeper than a reader's JsonLimits allow: copies, comparisons and the end of one recurse. Thread-safe as a std::vector is.
class Json {
 public:
  struct Member;  // a key and a value to make an object of
  struct Item;    // those of an object, to look at

  Json() noexcept = default;
  Json(std::nullptr_t) noexcept {}
  template <std::same_as<bool> Boolean>
  Json(Boolean value) noexcept : kind_(JsonKind::boolean), held_{.boolean = value} {}
  template <std::signed_integral Number>
  Json(Number value) noexcept : kind_(JsonKind::integer), held_{.integer = value} {}
  template <std::unsigned_integral Number>
  requires(!std::same_as<Number, bool>) Json(Number value)
  noexcept : kind_(JsonKind::unsigned_integer), held_{.unsigned_integer = value} {}
  Json(double value) noexcept : kind_(JsonKind::real), held_{.real = value} {}
  Json(std::string value);
  Json(std::string_view value) : Json(std::string(value)) {}
  Json(const char* value) : Json(std::string(value)) {}
  template <class Value>
  Json(const std::vector<Value>& values) : Json(array()) {
    for (const auto& value : values) push_back(value);
  }
  // Empty, or with what is given. Of members with the same key the first counts.
  static Json array(std::initializer_list<Json> elements = {});
  static Json object();
  static Json object(std::initializer_list<Member> members);

  Json(const Json& other);
  Json(Json&& other) noexcept : kind_(other.kind_), held_(other.held_) { other.kind_ = JsonKind::null; }
  Json& operator=(Json other) noexcept;
  ~Json() {
    if (kind_ >= JsonKind::string) release();
  }

  JsonKind kind() const noexcept { return kind_; }
  bool is_null() const noexcept { return kind_ == JsonKind::null; }
  bool is_boolean() const noexcept { return kind_ == JsonKind::boolean; }
  bool is_number() const noexcept { return kind_ >= JsonKind::integer && kind_ <= JsonKind::real; }
  bool is_integer() const noexcept { return kind_ == JsonKind::integer || kind_ == JsonKind::unsigned_integer; }
  bool is_unsigned() const noexcept { return kind_ == JsonKind::unsigned_integer; }
  bool is_real() const noexcept { return kind_ == JsonKind::real; }
  bool is_string() const noexcept { return kind_ == JsonKind::string; }
  bool is_array() const noexcept { return kind_ == JsonKind::array; }
  bool is_object() const noexcept { return kind_ == JsonKind::object; }

  // The value as that of C++. Throws JsonMisuse for another kind, and for an integer that does not fit. A real number is no
  // integer, and every number is a double.
  bool as_bool() const;
  std::int64_t as_int64() const;
  std::uint64_t as_uint64() const;
  double as_double() const;
  const std::string& as_string() const;
  std::string& as_string();
  // The integer; nothing where the value is none, or one that 63 bits do not hold.
  std::optional<std::int64_t> whole() const noexcept;

  // Of an array's elements or an object's members; 0 for other kinds.
  std::size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }

  // An array's elements; none for other kinds.
  const Json* begin() const noexcept;
  const Json* end() const noexcept { return begin() + (is_array() ? size() : 0); }
  // Throws JsonMisuse where there is no such element.
  const Json& operator[](std::size_t index) const;
  Json& operator[](std::size_t index) { return const_cast<Json&>(std::as_const(*this)[index]); }
  // To an array, or to a null, which becomes one. Throws JsonMisuse for other kinds. Returns where it is until the next one.
  Json& push_back(Json value);

  // An object's member; null where it has none of the key, or is no object.
  const Json* find(std::string_view key) const noexcept;
  bool contains(std::string_view key) const noexcept { return find(key) != nullptr; }
  // Throws JsonMisuse where there is no such member.
  const Json& at(std::string_view key) const;
  // The member of an object, or of a null, which becomes one; a null is added where there is none. Throws JsonMisuse for other
  // kinds. It stays where it is as long as the object does.
  Json& operator[](std::string_view key);
  // A new member of an object, null; nullptr, and a key that is left as it was, where there is one of this key.
  Json* add(std::string&& key);
  // An object's members; none for other kinds. As long as none is added.
  std::vector<Item> items(JsonOrder order = JsonOrder::by_key) const;

  // Integers and real numbers are equal by their values; objects whatever the order of their members.
  friend bool operator==(const Json& one, const Json& other);

  // As text. Numbers get as few digits as read back as the same; infinities and NaN become null. Throws JsonMisuse for a string
  // that is not UTF-8, unless the style replaces.
  std::string dump(const JsonStyle& style = {}) const;

 private:
  struct Object;
  union Held {
    bool boolean;
    std::int64_t integer;
    std::uint64_t unsigned_integer;
    double real;
    std::string* string;
    std::vector<Json>* array;
    Object* object;
  };

  void release() noexcept;

  JsonKind kind_ = JsonKind::null;
  Held held_{.integer = 0};
};

struct Json::Member {
  std::string_view key;
  Json value;
};

struct Json::Item {
  const std::string& key;
  const Json& value;
};

}  // namespace pipetrain
