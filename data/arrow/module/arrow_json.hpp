// Values of Arrow's arrays as JSON.
#pragma once

#include <arrow/api.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace pipetrain {

// All of whose values are null.
bool is_all_null(const arrow::DataType& type);
// Strings, bytes, and dictionaries of them.
bool is_text(const arrow::DataType& type);
// Of a list, what it is of; null for other types.
const arrow::DataType* element_of(const arrow::DataType& type);

// What is wrong with a value, which does not know where it is.
struct ValueFault {
  std::string why;
};

// Throws ValueFault for what is not in its dictionary.
bool is_null(const arrow::Array& array, std::int64_t i);

// Appends values to a text: texts, integers, lists of integers or truths, lists of structs with texts.
// arrow::util::InitializeUTF8() was called.
class JsonWriter {
 public:
  explicit JsonWriter(std::string& text) : text_(text) {}

  // Of values that are not null. Throws ValueFault for bytes that are no UTF-8.
  void value(const arrow::Array& array, std::int64_t i);
  // Of a value of any type, which is not null, only as much as decides whether it may be passed over: numbers and truths are
  // written as they are, empty texts and lists as "" and [], and all else as "...".
  void glance(const arrow::Array& array, std::int64_t i);
  void string(std::string_view value);

 private:
  void integers(const arrow::Array& values, std::int64_t begin, std::int64_t end);
  template <class Integers>
  void integers_of(const arrow::Array& array, std::int64_t begin, std::int64_t end);
  void messages(const arrow::StructArray& values, std::int64_t begin, std::int64_t end);

  std::string& text_;
};

}  // namespace pipetrain
