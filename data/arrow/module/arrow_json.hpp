// Converts values of Arrow's arrays to JSON.
#pragma once

#include <arrow/api.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace pipetrain {

// Returns true for a type whose values are all null.
bool is_all_null(const arrow::DataType& type);
// Returns true for strings, bytes, and dictionaries of them.
bool is_text(const arrow::DataType& type);
// Returns the element type of a list; null for other types.
const arrow::DataType* element_of(const arrow::DataType& type);

// The reason why a value is wrong, without its location.
struct ValueFault {
  std::string why;
};

// Throws ValueFault for an index that is not in the value's dictionary.
bool is_null(const arrow::Array& array, std::int64_t i);

// Appends values to a text: texts, integers, lists of integers or truths, and values of any type.
// arrow::util::InitializeUTF8() must have been called.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& text) : text_(text) {}

  // The value must not be null. Throws ValueFault for bytes that are not UTF-8.
  void value(const arrow::Array& array, std::int64_t i);
  // Writes a value of any type, which must not be null, only as far as a reader needs it to decide whether it may be
  // ignored: numbers and truths as they are, empty texts and lists as "" and [], and everything else as "...".
  void glance(const arrow::Array& array, std::int64_t i);
  // Writes a value of any type: structs as objects without their fields that are null. Throws ValueFault for a type that
  // JSON has not, and for values in each other more than 50 deep.
  void whole(const arrow::Array& array, std::int64_t i, int depth = 0);
  void string(std::string_view value);

 private:
  void integers(const arrow::Array& values, std::int64_t begin, std::int64_t end);
  template <class Integers>
  void integers_of(const arrow::Array& array, std::int64_t begin, std::int64_t end);
  void real(double number);
  void object(const arrow::StructArray& values, std::int64_t i, int depth);

  std::string& text_;
};

}  // namespace pipetrain
