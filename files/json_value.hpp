// A JSON value: the result of files/json.hpp, and the input for programs that write JSON.
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

namespace pipetrain {

// A parsed number without sign, fraction or exponent is an unsigned integer; one with a sign is an integer. A large integer
// fits neither of the two, and keeps its digits.
enum class JsonKind : unsigned char { null, boolean, integer, unsigned_integer, real, large_integer, string, array, object };

// The order of an object's members: by the bytes of their keys, or by insertion.
enum class JsonOrder { by_key, as_added };

struct JsonStyle {
  int indent = -1;  // spaces for each level, with a line for each value; -1: all in one line without spaces
  JsonOrder order = JsonOrder::by_key;
  bool ascii = false;    // writes other characters as \uXXXX
  bool replace = false;  // writes U+FFFD for bytes that are not UTF-8, which are refused otherwise
};

// Takes 16 bytes besides its contents; a member of an object takes 96 with its value, if its key is short. It must not
// be nested deeper than a reader's JsonLimits allow, because copies, comparisons and the destructor recurse.
// Thread-safe as a std::vector is.
class Json {
 public:
  struct Member;  // a key and a value, to build an object
  struct Item;    // a key and a value of an object, to read

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
  // Builds an empty value, or one with these contents. The first of members with the same key counts.
  static Json array(std::initializer_list<Json> elements = {});
  static Json object();
  static Json object(std::initializer_list<Member> members);
  // digits: decimal, after "-" for a negative integer; a double must be able to hold the size of their value.
  static Json large_integer(std::string digits);

  Json(const Json& other);
  Json(Json&& other) noexcept : kind_(other.kind_), held_(other.held_) { other.kind_ = JsonKind::null; }
  Json& operator=(Json other) noexcept;
  ~Json() {
    if (kind_ >= JsonKind::large_integer) release();
  }

  JsonKind kind() const noexcept { return kind_; }
  bool is_null() const noexcept { return kind_ == JsonKind::null; }
  bool is_boolean() const noexcept { return kind_ == JsonKind::boolean; }
  bool is_number() const noexcept { return kind_ >= JsonKind::integer && kind_ <= JsonKind::large_integer; }
  bool is_integer() const noexcept { return kind_ == JsonKind::integer || kind_ == JsonKind::unsigned_integer; }
  bool is_unsigned() const noexcept { return kind_ == JsonKind::unsigned_integer; }
  bool is_real() const noexcept { return kind_ == JsonKind::real; }
  bool is_large_integer() const noexcept { return kind_ == JsonKind::large_integer; }
  bool is_string() const noexcept { return kind_ == JsonKind::string; }
  bool is_array() const noexcept { return kind_ == JsonKind::array; }
  bool is_object() const noexcept { return kind_ == JsonKind::object; }

  // Return the value as a C++ value. Throw JsonMisuse for another kind, and for an integer that does not fit. A real
  // number is not an integer, but every number is a double, if need be the nearest one.
  bool as_bool() const;
  std::int64_t as_int64() const;
  std::uint64_t as_uint64() const;
  double as_double() const;
  const std::string& digits() const;  // of a large integer
  const std::string& as_string() const;
  std::string& as_string();
  // Returns the integer; nothing if the value is not one, or does not fit 63 bits.
  std::optional<std::int64_t> whole() const noexcept;

  // Returns the number of an array's elements or an object's members; 0 for other kinds.
  std::size_t size() const noexcept;
  bool empty() const noexcept { return size() == 0; }

  // Returns an array's elements; none for other kinds.
  const Json* begin() const noexcept;
  const Json* end() const noexcept { return begin() + (is_array() ? size() : 0); }
  // Throws JsonMisuse if there is no such element.
  const Json& operator[](std::size_t index) const;
  Json& operator[](std::size_t index) { return const_cast<Json&>(std::as_const(*this)[index]); }
  // Appends to an array, or to a null, which becomes an array. Throws JsonMisuse for other kinds. The reference is
  // valid until the next append.
  Json& push_back(Json value);

  // Returns an object's member; null if it has none of this key, or is not an object.
  const Json* find(std::string_view key) const noexcept;
  bool contains(std::string_view key) const noexcept { return find(key) != nullptr; }
  // Throws JsonMisuse if there is no such member.
  const Json& at(std::string_view key) const;
  // Returns the member of an object, or of a null, which becomes an object; adds a null member if there is none. Throws
  // JsonMisuse for other kinds. The reference is valid as long as the object.
  Json& operator[](std::string_view key);
  // Adds a null member and returns it; if the key exists, returns nullptr and leaves `key` unchanged.
  Json* add(std::string&& key);
  // Returns an object's members; none for other kinds. Valid until a member is added.
  std::vector<Item> items(JsonOrder order = JsonOrder::by_key) const;

  // Integers and real numbers are equal if their values are; objects are equal whatever the order of their members.
  friend bool operator==(const Json& one, const Json& other);

  // Returns the value as text. Numbers get the fewest digits that read back as the same number; large integers are
  // rounded to doubles; infinities and NaN become null. Throws JsonMisuse for a string that is not UTF-8, unless the style
  // replaces.
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
