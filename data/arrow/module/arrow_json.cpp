#include "data/arrow/module/arrow_json.hpp"

#include <arrow/util/utf8.h>
#include <fmt/format.h>

#include <cmath>
#include <utility>

namespace pipetrain {

using Kind = arrow::Type;

bool is_all_null(const arrow::DataType& type) { return type.id() == Kind::NA; }

bool is_text(const arrow::DataType& type) {
  if (type.id() == Kind::DICTIONARY) return is_text(*static_cast<const arrow::DictionaryType&>(type).value_type());
  return type.id() == Kind::STRING || type.id() == Kind::LARGE_STRING || type.id() == Kind::BINARY ||
         type.id() == Kind::LARGE_BINARY;
}

const arrow::DataType* element_of(const arrow::DataType& type) {
  const bool is_list = type.id() == Kind::LIST || type.id() == Kind::LARGE_LIST || type.id() == Kind::FIXED_SIZE_LIST;
  return is_list ? static_cast<const arrow::BaseListType&>(type).value_type().get() : nullptr;
}

bool is_null(const arrow::Array& array, std::int64_t i) {
  if (array.IsNull(i) || array.type_id() != Kind::DICTIONARY) return array.IsNull(i);
  const auto& words = static_cast<const arrow::DictionaryArray&>(array);
  const std::int64_t word = words.GetValueIndex(i);
  if (word < 0 || word >= words.dictionary()->length())
    throw ValueFault{"is not in the column's dictionary; the file is damaged"};
  return words.dictionary()->IsNull(word);
}

namespace {

// The value must not be null.
std::string_view string_at(const arrow::Array& array, std::int64_t i) {
  switch (array.type_id()) {
    case Kind::DICTIONARY: {
      const auto& words = static_cast<const arrow::DictionaryArray&>(array);
      return string_at(*words.dictionary(), words.GetValueIndex(i));
    }
    case Kind::LARGE_STRING:
    case Kind::LARGE_BINARY:
      return static_cast<const arrow::LargeBinaryArray&>(array).GetView(i);
    default:
      return static_cast<const arrow::BinaryArray&>(array).GetView(i);
  }
}

// The elements of list i.
struct Elements {
  const arrow::Array& values;
  std::int64_t begin, end;
};
Elements elements_at(const arrow::Array& array, std::int64_t i) {
  const auto of = [i](const auto& list) {
    return Elements{*list.values(), list.value_offset(i), list.value_offset(i) + list.value_length(i)};
  };
  if (array.type_id() == Kind::LARGE_LIST) return of(static_cast<const arrow::LargeListArray&>(array));
  if (array.type_id() == Kind::FIXED_SIZE_LIST) return of(static_cast<const arrow::FixedSizeListArray&>(array));
  return of(static_cast<const arrow::ListArray&>(array));
}

constexpr char hex[] = "0123456789abcdef";

}  // namespace

void JsonWriter::value(const arrow::Array& array, std::int64_t i) {
  if (is_text(*array.type())) return string(string_at(array, i));
  if (element_of(*array.type()) == nullptr) return integers(array, i, i + 1);
  const auto [values, begin, end] = elements_at(array, i);
  text_ += '[';
  integers(values, begin, end);
  text_ += ']';
}

void JsonWriter::glance(const arrow::Array& array, std::int64_t i) {
  const arrow::DataType& type = *array.type();
  if (is_text(type)) return void(text_ += string_at(array, i).empty() ? R"("")" : R"("...")");
  if (type.id() == Kind::BOOL) return integers(array, i, i + 1);
  if (arrow::is_integer(type.id())) return integers(array, i, i + 1);
  if (type.id() == Kind::FLOAT || type.id() == Kind::DOUBLE) {
    const double number = type.id() == Kind::FLOAT ? double{static_cast<const arrow::FloatArray&>(array).Value(i)}
                                                   : static_cast<const arrow::DoubleArray&>(array).Value(i);
    return void(text_ += std::isfinite(number) ? fmt::format("{}", number) : R"("...")");
  }
  if (element_of(type) == nullptr) return void(text_ += R"("...")");
  const Elements elements = elements_at(array, i);
  text_ += elements.begin == elements.end ? "[]" : R"("...")";
}

void JsonWriter::string(std::string_view value) {
  if (!arrow::util::ValidateUTF8(value)) throw ValueFault{"holds bytes that are not UTF-8; texts are UTF-8"};
  text_ += '"';
  std::size_t written = 0;
  for (std::size_t at = 0; at < value.size(); ++at) {
    const auto byte = static_cast<unsigned char>(value[at]);
    if (byte != '"' && byte != '\\' && byte >= 0x20) continue;
    text_.append(value, written, at - written);
    text_.append("\\u00").append(1, hex[byte >> 4]).append(1, hex[byte & 15]);
    written = at + 1;
  }
  text_.append(value, written).append(1, '"');
}

// Writes truths too, as the numbers 1 and 0.
template <class Integers>
void JsonWriter::integers_of(const arrow::Array& array, std::int64_t begin, std::int64_t end) {
  const auto& values = static_cast<const Integers&>(array);
  for (std::int64_t i = begin; i < end; ++i) {
    if (i > begin) text_ += ',';
    values.IsNull(i) ? text_ += "null" : text_ += fmt::format_int(+values.Value(i)).c_str();
  }
}

void JsonWriter::integers(const arrow::Array& values, std::int64_t begin, std::int64_t end) {
  switch (values.type_id()) {
    case Kind::BOOL:
      return integers_of<arrow::BooleanArray>(values, begin, end);
    case Kind::INT8:
      return integers_of<arrow::Int8Array>(values, begin, end);
    case Kind::UINT8:
      return integers_of<arrow::UInt8Array>(values, begin, end);
    case Kind::INT16:
      return integers_of<arrow::Int16Array>(values, begin, end);
    case Kind::UINT16:
      return integers_of<arrow::UInt16Array>(values, begin, end);
    case Kind::INT32:
      return integers_of<arrow::Int32Array>(values, begin, end);
    case Kind::UINT32:
      return integers_of<arrow::UInt32Array>(values, begin, end);
    case Kind::UINT64:
      return integers_of<arrow::UInt64Array>(values, begin, end);
    default:
      return integers_of<arrow::Int64Array>(values, begin, end);
  }
}

void JsonWriter::real(double number) {
  // A number that is whole keeps its type: templates print 1.0 and 1 differently.
  text_ += std::isfinite(number) ? fmt::format("{:#}", number) : "null";
}

void JsonWriter::whole(const arrow::Array& array, std::int64_t i, int depth) {
  constexpr int deepest = 50;
  if (depth > deepest) throw ValueFault{"has values that are nested too deep"};
  if (is_null(array, i)) return void(text_ += "null");
  const arrow::DataType& type = *array.type();
  if (is_text(type)) return string(string_at(array, i));
  if (arrow::is_integer(type.id())) return integers(array, i, i + 1);
  if (type.id() == Kind::BOOL) return void(text_ += static_cast<const arrow::BooleanArray&>(array).Value(i) ? "true" : "false");
  if (type.id() == Kind::FLOAT) return real(double{static_cast<const arrow::FloatArray&>(array).Value(i)});
  if (type.id() == Kind::DOUBLE) return real(static_cast<const arrow::DoubleArray&>(array).Value(i));
  if (type.id() == Kind::STRUCT) return object(static_cast<const arrow::StructArray&>(array), i, depth);
  if (element_of(type) == nullptr) throw ValueFault{"is of the type " + type.ToString().substr(0, 60) + ", which JSON has not"};
  const auto [values, begin, end] = elements_at(array, i);
  text_ += '[';
  for (std::int64_t element = begin; element < end; ++element) {
    if (element > begin) text_ += ',';
    whole(values, element, depth + 1);
  }
  text_ += ']';
}

// A field that is null is written as if the object did not have it.
void JsonWriter::object(const arrow::StructArray& values, std::int64_t i, int depth) {
  text_ += '{';
  bool is_first = true;
  for (int f = 0; f < values.num_fields(); ++f) {
    const arrow::Array& field = *values.field(f);
    if (is_null(field, i)) continue;
    if (!std::exchange(is_first, false)) text_ += ',';
    string(values.struct_type()->field(f)->name());
    text_ += ':';
    whole(field, i, depth + 1);
  }
  text_ += '}';
}

}  // namespace pipetrain
