#include "data/rows/jsonl_row.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <deque>
#include <limits>

#include "data/rows/row_reader.hpp"
#include "files/json.hpp"
#include "files/json_fault.hpp"

namespace pipetrain {

namespace {

namespace dom = simdjson::dom;
using Field = RowReader::Field;

ValueKind value_kind_of(const dom::element& value) {
  switch (value.type()) {
    case dom::element_type::NULL_VALUE:
      return ValueKind::null;
    case dom::element_type::STRING:
      return value.get_string().value().empty() ? ValueKind::empty : ValueKind::other;
    case dom::element_type::ARRAY:
      return value.get_array().value().begin() == value.get_array().value().end() ? ValueKind::empty : ValueKind::other;
    case dom::element_type::OBJECT:
      return value.get_object().value().begin() == value.get_object().value().end() ? ValueKind::empty : ValueKind::other;
    case dom::element_type::BOOL:
      return value.get_bool().value() ? ValueKind::one : ValueKind::other;
    default:
      return value.get_double().value() == 1 ? ValueKind::one : ValueKind::other;
  }
}

void read_list(const dom::array& list, RowReader& reader) {
  reader.begin_list();
  for (const dom::element value : list) {  // never list.size(), which counts to 16,777,215 only
    if (std::int64_t number = 0; !value.get(number)) {
      reader.list_number(number);
    } else if (std::uint64_t large = 0; !value.get(large)) {
      reader.list_large_number(large);
    } else if (bool truth = false; !value.get(truth)) {
      reader.list_truth(truth);
    } else {
      reader.list_other(std::string(simdjson::minify(value)));
    }
  }
}

void read_messages(const dom::array& messages, RowReader& reader) {
  MessageReader& reading = reader.begin_messages();
  for (const dom::element element : messages) {
    dom::object message;
    if (element.get(message)) reader.wrong_kind();
    reading.begin();
    for (const auto& [key, value] : message) {
      const auto field = reading.key(key);
      if (field == MessageReader::Field::other) {
        reading.other(value_kind_of(value));
        continue;
      }
      if (value.is_null()) continue;
      std::string_view text;
      value.get(text) ? reading.not_text(field) : reading.text(field, text);
    }
    reading.end();
  }
}

void read_value(Field field, const dom::element& value, RowReader& reader) {
  std::string_view text;
  dom::array list;
  std::int64_t label = 0;
  if (value.is_null()) return;
  switch (field) {
    case Field::text:
      return value.get(text) ? reader.wrong_kind() : reader.text(text);
    case Field::label:
      return value.get(label) ? reader.wrong_kind() : reader.label(label);
    case Field::messages:
      return value.get(list) ? reader.wrong_kind() : read_messages(list, reader);
    case Field::ids:
    case Field::labels:
    case Field::mask:
      return value.get(list) ? reader.wrong_kind() : read_list(list, reader);
    default:
      return reader.other(value_kind_of(value));
  }
}

[[noreturn]] void fail_object() { throw RowFault{fmt::format("this row is not a JSON object; {}", RowReader::wanted_rows())}; }

void parse_whole(std::string_view row, RowReader& reader) {
  thread_local dom::parser parser;
  dom::element element;
  if (const simdjson::error_code error = parser.parse(row.data(), row.size()).get(element)) {
    const std::string text = simdjson::error_message(error);  // "TAPE_ERROR: The JSON document has an improper structure: ..."
    const std::size_t colon = text.find(": ");
    throw RowFault{fmt::format("this row is not JSON ({}); {}", colon == std::string::npos ? text : text.substr(colon + 2),
                               RowReader::wanted_rows())};
  }
  dom::object object;
  if (element.get(object)) fail_object();
  for (const auto& [key, value] : object) read_value(reader.key(key), value, reader);
}

ValueKind value_kind_of(const Json& value) {
  if (value.is_null()) return ValueKind::null;
  if (value.is_string()) return value.as_string().empty() ? ValueKind::empty : ValueKind::other;
  const bool is_one = value.is_number() ? value.as_double() == 1 : value == true;
  return is_one ? ValueKind::one : ValueKind::other;
}

// Parses a row from a stream, and keeps no more of it than its texts. Depth 0 is the row, 1 its members, 2 those of a
// list, 3 those of a message.
class RowEvents : public JsonEvents {
 public:
  RowEvents(RowReader& reader, std::deque<std::string>& kept) : reader_(reader), kept_(kept) {}

  void open(JsonKind kind) override {
    const bool is_array = kind == JsonKind::array;
    if (depth_ == 0 && is_array) fail_object();
    is_empty_ = depth_ == 1 || (depth_ == 3 && field_ == Field::messages);
    if (depth_ == 1) open_member(is_array);
    if (depth_ == 2 && is_list()) reader_.list_other(is_array ? "[...]" : "{...}");
    if (depth_ == 2 && field_ == Field::messages) is_array ? reader_.wrong_kind() : messages_->begin();
    if (depth_ == 3 && field_ == Field::messages && message_field_ != MessageReader::Field::other)
      messages_->not_text(message_field_);
    ++depth_;
  }
  void close() override {
    --depth_;
    if (depth_ == 3 && field_ == Field::messages && message_field_ == MessageReader::Field::other)
      messages_->other(is_empty_ ? ValueKind::empty : ValueKind::other);
    if (depth_ == 2 && field_ == Field::messages) messages_->end();
    if (depth_ == 1 && field_ == Field::other) reader_.other(is_empty_ ? ValueKind::empty : ValueKind::other);
    if (depth_ == 1) field_ = Field::other;
  }
  void key(std::string&& name, std::size_t) override {
    is_empty_ = false;
    if (depth_ == 1) field_ = reader_.key(name);
    if (depth_ == 3 && field_ == Field::messages) message_field_ = messages_->key(name);
  }
  void value(Json&& value) override {
    is_empty_ = false;
    if (depth_ == 0) fail_object();
    if (depth_ == 1) take_member(value);
    if (depth_ == 2 && is_list()) take_number(value);
    if (depth_ == 2 && field_ == Field::messages) reader_.wrong_kind();
    if (depth_ == 3 && field_ == Field::messages) take_message_field(value);
  }

 private:
  bool is_list() const { return field_ == Field::ids || field_ == Field::labels || field_ == Field::mask; }
  std::string_view keep(Json& value) { return kept_.emplace_back(std::move(value.as_string())); }
  void open_member(bool is_array) {
    if (field_ == Field::other) return;
    if (!is_array || field_ == Field::text || field_ == Field::label) reader_.wrong_kind();
    if (is_list()) return reader_.begin_list();
    messages_ = &reader_.begin_messages();
  }
  void take_message_field(Json& value) {
    if (message_field_ == MessageReader::Field::other) return messages_->other(value_kind_of(value));
    if (value.is_null()) return;
    value.is_string() ? messages_->text(message_field_, keep(value)) : messages_->not_text(message_field_);
  }
  void take_member(Json& value) {
    if (field_ == Field::other) return reader_.other(value_kind_of(value));
    if (value.is_null()) return;
    if (field_ == Field::text && value.is_string()) return reader_.text(keep(value));
    if (field_ == Field::label && value.is_integer() && !is_large(value)) return reader_.label(value.as_int64());
    reader_.wrong_kind();
  }
  static bool is_large(const Json& value) {
    constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();
    return value.is_unsigned() && value.as_uint64() > largest;
  }
  void take_number(const Json& value) {
    if (is_large(value)) return reader_.list_large_number(value.as_uint64());
    if (value.is_integer()) return reader_.list_number(value.as_int64());
    if (value.is_boolean()) return reader_.list_truth(value == true);
    reader_.list_other(value.dump({.ascii = true}));
  }

  RowReader& reader_;
  std::deque<std::string>& kept_;
  Field field_ = Field::other;
  MessageReader* messages_ = nullptr;  // set once messages have begun
  MessageReader::Field message_field_ = MessageReader::Field::role;
  int depth_ = 0;
  bool is_empty_ = false;  // true while the list or object opened last is empty
};

void parse_stream(std::string_view row, RowReader& reader) {
  thread_local std::deque<std::string> kept;
  kept.clear();
  constexpr std::size_t longest_text = std::size_t{16} << 20;
  RowEvents events(reader, kept);
  try {
    scan_json(whole_text(row), {.depth = 1024, .values = 0, .token_bytes = longest_text}, events);
  } catch (const JsonFault& fault) {
    throw RowFault{fault.what()};
  }
}

}  // namespace

Row parse_row(std::string_view row, const RowWanted& wanted, std::size_t longest_parsed) {
  const auto read = [&](RowReader& reader) {
    row.size() <= longest_parsed ? parse_whole(row, reader) : parse_stream(row, reader);
  };
  if (wanted.text_keys.chosen) {
    RowReader texts(wanted, true);
    read(texts);
    if (texts.has_text()) return texts.finish();
  }
  RowReader reader(wanted);
  read(reader);
  Row result = reader.finish();
  if (result.form == RowForm::messages) result.source = row;
  return result;
}

}  // namespace pipetrain
