#include "files/json.hpp"

#include <fmt/format.h>

#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/error.hpp"
#include "files/json_builder.hpp"
#include "files/json_fault.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

// Gives the next character of a text in pieces. Detects two faults that the parser would miss: a NUL byte, which it
// takes for the end, and a string that exceeds its limit while the parser still reads it.
class Cursor {
 public:
  Cursor(const JsonPieces& pieces, std::size_t token_bytes) : pieces_(pieces), token_bytes_(token_bytes) { load(); }

  bool at_end() const { return at_ == piece_.size(); }
  char character() const {
    const char c = piece_[at_];
    if (c == '\0') throw JsonFault(line_, "not valid JSON: it holds a NUL byte; correct the file, or copy it again");
    return c;
  }
  void advance() {
    if (piece_[at_] == '\n') ++line_;
    if (++token_size_ > token_bytes_)
      throw JsonFault(line_, fmt::format("a string, number or space is longer than the {} bytes allowed; shorten or split it",
                                         token_bytes_));
    if (++at_ == piece_.size()) load();
  }
  std::size_t line() const { return line_; }
  void token_ends() { token_size_ = 0; }

 private:
  void load() { piece_ = pieces_(), at_ = 0; }

  const JsonPieces& pieces_;
  std::string_view piece_;
  std::size_t at_ = 0, line_ = 1, token_size_ = 0, token_bytes_;
};

// The iterator through which nlohmann's parser takes characters.
class CursorIterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = char;
  using difference_type = std::ptrdiff_t;
  using pointer = const char*;
  using reference = char;

  explicit CursorIterator(Cursor* cursor = nullptr) : cursor_(cursor) {}
  char operator*() const { return cursor_->character(); }
  CursorIterator& operator++() {
    cursor_->advance();
    return *this;
  }
  // The parser compares iterators only with the end.
  bool operator==(const CursorIterator&) const { return cursor_->at_end(); }
  bool operator!=(const CursorIterator&) const { return !cursor_->at_end(); }

 private:
  Cursor* cursor_;
};

// Strips "[json.exception.parse_error.101] parse error at line 1, column 2: ...; last read: '...'" of its first parts
// and its last.
std::string plain_message(std::string text) {
  if (const std::size_t at = text.find("; last read"); at != std::string::npos) text.resize(at);
  if (const std::size_t at = text.find("] "); at != std::string::npos) text.erase(0, at + 2);
  if (const std::size_t at = text.find(": "); text.starts_with("parse error at line") && at != std::string::npos)
    text.erase(0, at + 2);
  return text;
}

// Passes nlohmann's events on to JsonEvents, within the limits.
class Guard : public nlohmann::json_sax<json> {
 public:
  Guard(Cursor& cursor, const JsonLimits& limits, JsonEvents& events) : cursor_(cursor), limits_(limits), events_(events) {}

  bool null() override { return pass({}); }
  bool boolean(bool value) override { return pass(value); }
  bool number_integer(json::number_integer_t value) override { return pass(value); }
  bool number_unsigned(json::number_unsigned_t value) override { return pass(value); }
  bool number_float(json::number_float_t value, const std::string& text) override {
    const bool is_integer = text.find_first_not_of("-0123456789") == std::string::npos;
    return pass(is_integer ? Json::large_integer(text) : Json(value));
  }
  bool string(std::string& value) override { return pass(std::move(value)); }
  bool binary(json::binary_t&) override { return false; }  // text has no binary values
  bool start_object(std::size_t) override { return open(JsonKind::object); }
  bool start_array(std::size_t) override { return open(JsonKind::array); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool key(std::string& name) override {
    cursor_.token_ends();
    last_key_ = name.substr(0, 100);
    events_.key(std::move(name), cursor_.line());
    return true;
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception& error) override {
    constexpr int number_overflow = 406;
    if (error.id == number_overflow)
      throw JsonFault(cursor_.line(), fmt::format("{}: is too large a number; give a smaller one", shown_json_key(last_key_)));
    throw JsonFault(cursor_.line(), "not valid JSON: " + plain_message(error.what()) + "; correct the file, or copy it again");
  }

 private:
  void count() {
    cursor_.token_ends();
    if (++values_ > limits_.values && limits_.values != 0)
      throw JsonFault(cursor_.line(), fmt::format("JSON has more than {} values; give the right file", limits_.values));
  }
  bool pass(Json value) {
    count();
    events_.value(std::move(value));
    return true;
  }
  bool open(JsonKind kind) {
    count();
    if (++depth_ > limits_.depth)
      throw JsonFault(cursor_.line(), fmt::format("JSON is nested deeper than {} levels; give the right file", limits_.depth));
    events_.open(kind);
    return true;
  }
  bool close() {
    cursor_.token_ends();
    --depth_;
    events_.close();
    return true;
  }

  Cursor& cursor_;
  const JsonLimits& limits_;
  JsonEvents& events_;
  int depth_ = 0;
  std::size_t values_ = 0;
  std::string last_key_;
};

class WholeText : public JsonEvents {
 public:
  void open(JsonKind kind) override { builder_.open(kind); }
  void close() override { builder_.close(); }
  void key(std::string&& name, std::size_t line) override { builder_.key(std::move(name), line); }
  void value(Json&& value) override { builder_.value(std::move(value)); }
  Json take() { return builder_.take(); }

 private:
  JsonBuilder builder_;
};

class Members : public JsonEvents {
 public:
  Members(const JsonLimits& limits, const std::function<bool(JsonMember&&)>& take) : limits_(limits), take_(take) {}

  void open(JsonKind kind) override {
    if (depth_++ == 0 && kind != JsonKind::object) throw JsonFault(1, not_an_object);
    if (depth_ == 1) return;
    count();
    builder_.open(kind);
  }
  void close() override {
    if (--depth_ == 0) return;
    builder_.close();
    finish();
  }
  void key(std::string&& name, std::size_t line) override {
    line_ = line;
    if (depth_ > 1) return builder_.key(std::move(name), line);
    member_ = {std::move(name), {}, line};
    values_ = 0;
  }
  void value(Json&& value) override {
    if (depth_ == 0) throw JsonFault(1, not_an_object);
    count();
    builder_.value(std::move(value));
    finish();
  }

 private:
  static constexpr const char* not_an_object = "not a JSON object; correct the file, or copy it again";

  void count() {
    if (++values_ > limits_.values && limits_.values != 0)
      throw JsonFault(line_, fmt::format("{} has more than {} values; shorten it", shown_json_key(member_.key.substr(0, 100)),
                                         limits_.values));
  }
  void finish() {
    if (!builder_.is_complete()) return;
    member_.value = builder_.take();
    const std::string name = member_.key.substr(0, 100);
    if (!take_(std::move(member_))) throw JsonFault(line_, fmt::format("key {} appears twice; keep one", shown_json_key(name)));
  }

  const JsonLimits& limits_;
  const std::function<bool(JsonMember&&)>& take_;
  JsonBuilder builder_;
  JsonMember member_;
  int depth_ = 0;
  std::size_t values_ = 0, line_ = 1;
};

}  // namespace

JsonPieces whole_text(std::string_view text) {
  return [text]() mutable { return std::exchange(text, {}); };
}

void scan_json(const JsonPieces& pieces, const JsonLimits& limits, JsonEvents& events) {
  Cursor cursor(pieces, limits.token_bytes);
  Guard guard(cursor, limits, events);
  json::sax_parse(CursorIterator(&cursor), CursorIterator(), &guard, json::input_format_t::json, true, limits.comments);
}

void read_json(const JsonPieces& pieces, const JsonLocation& place, const JsonLimits& limits, JsonEvents& events) {
  try {
    scan_json(pieces, limits, events);
  } catch (const JsonFault& fault) {
    const std::string line = place.has_lines ? fmt::format(":{}", fault.line()) : "";
    throw Error(ErrorKind::input, fmt::format("{}{}: {}", place.file, line, fault.what()));
  }
}

Json parse_json(std::string_view text, const JsonLocation& place, const JsonLimits& limits) {
  WholeText events;
  read_json(whole_text(text), place, limits, events);
  return events.take();
}

void read_json_members(const JsonPieces& pieces, const JsonLocation& place, const JsonLimits& limits,
                       const std::function<bool(JsonMember&&)>& take) {
  JsonLimits each = limits;
  each.values = 0;
  Members events(limits, take);
  read_json(pieces, place, each, events);
}

}  // namespace pipetrain
