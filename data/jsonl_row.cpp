#include "data/jsonl_row.hpp"

#include <fmt/format.h>
#include <simdjson.h>

#include <limits>
#include <set>

#include "files/json.hpp"

namespace pipetrain {

namespace {

namespace dom = simdjson::dom;

// Puts a row together from its members.
class RowReader {
 public:
  RowReader(std::span<std::int32_t> ids, std::int64_t vocabulary) : ids_(ids), vocabulary_(vocabulary) {}

  enum class Field { text, ids, other };
  Field field(std::string_view key) {
    if (!keys_.insert(std::string(key)).second)
      throw RowFault{fmt::format("{} appears twice in this row; keep one", nlohmann::json(key).dump(-1, ' ', true))};
    key_bytes_ += key.size();
    if (keys_.size() > most_row_keys || key_bytes_ > most_row_key_bytes)
      throw RowFault{
          fmt::format("this row has more than {} keys, or {} bytes of them; {}", most_row_keys, most_row_key_bytes, wanted)};
    if (key == "label")
      throw RowFault{R"(rows with "label" (classification) are not built yet; give {"text"} or {"input_ids"} rows)"};
    return key == "text" ? Field::text : key == "input_ids" ? Field::ids : Field::other;
  }
  [[noreturn]] static void fail_text() { throw RowFault{R"("text" is not a string; write {"text": "..."})"}; }
  [[noreturn]] static void fail_ids() { throw RowFault{R"("input_ids" is not an array; write {"input_ids": [1, 2, 3]})"}; }

  void text(std::string_view text) { row_.text = text; }
  void begin_ids() { row_.ids = 0; }
  void id(std::int64_t id) {
    const std::int64_t place = (*row_.ids)++;
    if (id < 0 || id >= vocabulary_) return wrong_range(place, std::to_string(id));
    if (place < std::ssize(ids_)) ids_[static_cast<std::size_t>(place)] = static_cast<std::int32_t>(id);
  }
  // What does not fit 64 signed bits but is an integer is still only too large.
  void large_id(std::uint64_t id) { wrong_range((*row_.ids)++, std::to_string(id)); }
  template <class Show>
  void no_integer(const Show& show) {
    const std::int64_t place = (*row_.ids)++;
    if (row_.wrong_id) return;
    std::string shown = show();
    if (shown.size() > 60) shown = "a long value";
    row_.wrong_id = {place, fmt::format("{}, not an integer; token ids are integers from 0 to {}", shown, vocabulary_ - 1)};
  }

  Row finish() {
    if (row_.text && row_.ids) throw RowFault{R"(this row has both "text" and "input_ids"; keep one)"};
    if (!row_.text && !row_.ids) throw RowFault{fmt::format(R"(this row has neither "text" nor "input_ids"; {})", wanted)};
    return std::move(row_);
  }

  static constexpr std::string_view wanted = R"(write one row {"text": "..."} or {"input_ids": [...]} a line)";

 private:
  void wrong_range(std::int64_t place, const std::string& id) {
    if (row_.wrong_id) return;
    row_.wrong_id = {place, fmt::format("{}, outside the model's vocabulary of {}; token ids go from 0 to {}", id, vocabulary_,
                                        vocabulary_ - 1)};
  }

  std::span<std::int32_t> ids_;
  std::int64_t vocabulary_;
  Row row_;
  std::set<std::string> keys_;
  std::size_t key_bytes_ = 0;
};

void parse_whole(std::string_view row, RowReader& reader) {
  thread_local dom::parser parser;
  dom::element element;
  if (const simdjson::error_code error = parser.parse(row.data(), row.size()).get(element)) {
    const std::string text = simdjson::error_message(error);  // "TAPE_ERROR: The JSON document has an improper structure: ..."
    const std::size_t colon = text.find(": ");
    throw RowFault{fmt::format("this row is not JSON ({}); {}", colon == std::string::npos ? text : text.substr(colon + 2),
                               RowReader::wanted)};
  }
  dom::object object;
  if (element.get(object)) throw RowFault{fmt::format("this row is not a JSON object; {}", RowReader::wanted)};
  for (const auto& [key, value] : object) {
    const RowReader::Field field = reader.field(key);
    if (field == RowReader::Field::text) {
      std::string_view text;
      if (value.get(text)) RowReader::fail_text();
      reader.text(text);
    } else if (field == RowReader::Field::ids) {
      dom::array ids;
      if (value.get(ids)) RowReader::fail_ids();
      reader.begin_ids();
      for (const dom::element id : ids) {  // never ids.size(), which counts to 16,777,215 only
        if (std::int64_t number = 0; !id.get(number)) {
          reader.id(number);
        } else if (std::uint64_t large = 0; !id.get(large)) {
          reader.large_id(large);
        } else {
          reader.no_integer([&id] { return std::string(simdjson::minify(id)); });
        }
      }
    }
  }
}

// The same from a stream, of which no more is kept than the row's text.
class RowEvents : public JsonEvents {
 public:
  RowEvents(RowReader& reader, std::string& text) : reader_(reader), text_(text) {}

  void open(nlohmann::json::value_t kind) override {
    const bool is_array = kind == nlohmann::json::value_t::array;
    if (depth_ == 0 && is_array) fail_object();
    if (depth_ == 1 && field_ == Field::text) RowReader::fail_text();
    if (depth_ == 1 && field_ == Field::ids) is_array ? reader_.begin_ids() : RowReader::fail_ids();
    if (depth_ == 2 && field_ == Field::ids) reader_.no_integer([&] { return is_array ? "[...]" : "{...}"; });
    ++depth_;
  }
  void close() override { --depth_; }
  void key(std::string&& name, std::size_t) override {
    if (depth_ == 1) field_ = reader_.field(name);
  }
  void value(nlohmann::json&& value) override {
    if (depth_ == 0) fail_object();
    if (depth_ == 1 && field_ == Field::ids) RowReader::fail_ids();
    if (depth_ == 2 && field_ == Field::ids) take_id(value);
    if (depth_ != 1 || field_ != Field::text) return;
    if (!value.is_string()) RowReader::fail_text();
    text_ = std::move(value.get_ref<std::string&>());
    reader_.text(text_);
  }

 private:
  using Field = RowReader::Field;
  [[noreturn]] static void fail_object() {
    throw RowFault{fmt::format("this row is not a JSON object; {}", RowReader::wanted)};
  }
  void take_id(const nlohmann::json& value) {
    constexpr std::uint64_t largest = std::numeric_limits<std::int64_t>::max();
    if (value.is_number_unsigned() && value.get<std::uint64_t>() > largest) return reader_.large_id(value.get<std::uint64_t>());
    if (value.is_number_integer()) return reader_.id(value.get<std::int64_t>());
    reader_.no_integer([&value] { return value.dump(-1, ' ', true); });
  }

  RowReader& reader_;
  std::string& text_;
  Field field_ = Field::other;
  int depth_ = 0;
};

void parse_stream(std::string_view row, RowReader& reader) {
  thread_local std::string text;
  constexpr std::size_t longest_text = std::size_t{16} << 20;
  RowEvents events(reader, text);
  try {
    scan_json(whole_text(row), {.depth = 1024, .values = 0, .token_bytes = longest_text}, events);
  } catch (const JsonFault& fault) {
    throw RowFault{fault.what()};
  }
}

}  // namespace

Row parse_row(std::string_view row, std::span<std::int32_t> ids, std::int64_t vocabulary, std::size_t longest_parsed) {
  RowReader reader(ids, vocabulary);
  row.size() <= longest_parsed ? parse_whole(row, reader) : parse_stream(row, reader);
  return reader.finish();
}

}  // namespace pipetrain
