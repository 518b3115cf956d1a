#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "data/templates/syntax/string_literal.hpp"
#include "data/templates/syntax/token.hpp"
#include "data/templates/values/characters.hpp"
#include "data/templates/values/value.hpp"
#include "data/tokenizers/text/unicode.hpp"
#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain::templates {
namespace {

using Kind = Token::Kind;

// Ends all lines with \n and removes the last \n, as Jinja does.
std::string normalized_source(std::string_view source) {
  std::string text;
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r' && i + 1 < source.size() && source[i + 1] == '\n') continue;
    text += source[i] == '\r' ? '\n' : source[i];
  }
  if (text.ends_with('\n')) text.pop_back();
  return text;
}

class Lexer {
 public:
  explicit Lexer(std::string source) : text_(std::move(source)) {}

  std::vector<Token> read() {
    while (at_ < text_.size()) read_data();
    add(Kind::end, "");
    return std::move(tokens_);
  }

 private:
  [[noreturn]] void fail_here(std::string why) const { throw TemplateFault{std::move(why), line_}; }

  void add(Kind kind, std::string text) { tokens_.push_back({kind, std::move(text), line_}); }

  // Moves to an offset, and counts the lines on the way.
  void advance(std::size_t to) {
    line_ += static_cast<int>(
        std::count(text_.begin() + static_cast<std::ptrdiff_t>(at_), text_.begin() + static_cast<std::ptrdiff_t>(to), '\n'));
    at_ = to;
  }

  bool starts(std::size_t at, std::string_view word) const { return std::string_view(text_).substr(at).starts_with(word); }
  std::size_t after_space(std::size_t at) const {
    while (at < text_.size()) {
      std::size_t next = at;
      if (!is_python_space(next_code_point(text_, next))) break;
      at = next;
    }
    return at;
  }

  // Reads text up to the next tag, and the tag.
  void read_data() {
    std::size_t tag = text_.find('{', at_);
    while (tag < text_.size() &&
           !(tag + 1 < text_.size() && std::string_view("{%#").find(text_[tag + 1]) != std::string_view::npos))
      tag = text_.find('{', tag + 1);
    if (tag >= text_.size()) {
      add(Kind::data, text_.substr(at_));
      return advance(text_.size());
    }
    const char kind = text_[tag + 1];
    std::size_t inside = tag + 2;
    const char sign = inside < text_.size() && (text_[inside] == '-' || text_[inside] == '+') ? text_[inside] : '\0';
    if (sign != '\0') ++inside;
    put_data(before_tag(tag, kind, sign));
    advance(inside);
    if (kind == '#') return read_comment();
    if (kind == '%' && read_raw()) return;
    read_tag(kind == '{' ? Kind::variable_begin : Kind::block_begin);
  }

  void put_data(std::string_view text) {
    if (!text.empty()) add(Kind::data, std::string(text));
  }

  std::string_view before_tag(std::size_t tag, char kind, char sign) const {
    const std::string_view text = std::string_view(text_).substr(at_, tag - at_);
    if (sign == '-') return stripped(text, {}, Ends::right);
    if (kind == '{' || sign == '+') return text;
    // White space between the beginning of the line and the tag is removed.
    const std::size_t line = text.rfind('\n') + 1;
    return (line > 0 || begins_line_) && stripped(text.substr(line)).empty() ? text.substr(0, line) : text;
  }

  // Moves past a tag that ends at `end`; `sign` stands in front of its end.
  void leave_tag(std::size_t end, char sign, bool is_variable) {
    std::size_t to = end;
    if (sign == '-') to = after_space(end);
    if (sign == '\0' && !is_variable && starts(end, "\n")) to = end + 1;
    begins_line_ = text_[to - 1] == '\n';
    advance(to);
  }

  void read_comment() {
    const std::size_t end = text_.find("#}", at_);
    if (end == std::string::npos) fail_here("a comment does not end");
    const char sign = end > at_ && (text_[end - 1] == '-' || text_[end - 1] == '+') ? text_[end - 1] : '\0';
    leave_tag(end + 2, sign, false);
  }

  // Reads the rest of {% raw %}...{% endraw %} after the first {%. Returns false if the tag is another one.
  bool read_raw() {
    std::size_t at = after_space(at_);
    if (!starts(at, "raw")) return false;
    at = after_space(at + 3);
    const bool strips = starts(at, "-%}");
    if (!strips && !starts(at, "%}")) return false;
    advance(strips ? after_space(at + 3) : at + 2);
    begins_line_ = text_[at_ - 1] == '\n';
    for (std::size_t tag = text_.find("{%", at_); tag != std::string::npos; tag = text_.find("{%", tag + 2)) {
      const char sign = tag + 2 < text_.size() && (text_[tag + 2] == '-' || text_[tag + 2] == '+') ? text_[tag + 2] : '\0';
      std::size_t name = after_space(tag + (sign == '\0' ? 2 : 3));
      if (!starts(name, "endraw")) continue;
      std::size_t end = after_space(name + 6);
      const char last = starts(end, "-%}") || starts(end, "+%}") ? text_[end] : '\0';
      if (last != '\0') ++end;
      if (!starts(end, "%}")) continue;
      put_data(before_tag(tag, '%', sign));
      leave_tag(end + 2, last, false);
      return true;
    }
    fail_here("a raw block does not end; close it with {% endraw %}");
  }

  // Reads the tokens between the signs of a tag.
  void read_tag(Kind begin) {
    const bool is_variable = begin == Kind::variable_begin;
    add(begin, "");
    std::string open;  // brackets that are open, in which the tag does not end
    while (true) {
      advance(after_space(at_));
      if (at_ >= text_.size()) fail_here("a tag does not end");
      if (open.empty() && end_tag(is_variable)) return;
      read_token(open);
    }
  }

  bool end_tag(bool is_variable) {
    const std::string_view end = is_variable ? "}}" : "%}";
    const char first = text_[at_];
    const bool has_sign = (first == '-' || (first == '+' && !is_variable)) && starts(at_ + 1, end);
    if (!has_sign && !starts(at_, end)) return false;
    add(is_variable ? Kind::variable_end : Kind::block_end, "");
    leave_tag(at_ + (has_sign ? 3 : 2), has_sign ? first : '\0', is_variable);
    return true;
  }

  void read_token(std::string& open) {
    const char first = text_[at_];
    if (first == '"' || first == '\'') return read_string(first);
    if (first >= '0' && first <= '9') return read_number();
    std::size_t end = at_;
    while (end < text_.size()) {
      std::size_t next = end;
      if (!is_word(next_code_point(text_, next))) break;
      end = next;
    }
    if (end > at_) {
      add(Kind::name, text_.substr(at_, end - at_));
      return advance(end);
    }
    read_sign(open);
  }

  void read_sign(std::string& open) {
    constexpr std::string_view two[] = {"//", "**", "==", "!=", ">=", "<="};
    constexpr std::string_view one = "+-/*%~[](){}<>=.:|,;";
    const auto* const found = std::find_if(std::begin(two), std::end(two), [&](auto sign) { return starts(at_, sign); });
    const char first = text_[at_];
    if (found == std::end(two) && one.find(first) == std::string_view::npos)
      fail_here(fmt::format("unexpected character '{}'", text_.substr(at_, character_size(text_, at_))));
    if (std::string_view("([{").find(first) != std::string_view::npos) open += first == '(' ? ')' : first == '[' ? ']' : '}';
    if (std::string_view(")]}").find(first) != std::string_view::npos) {
      if (open.empty() || open.back() != first) fail_here(fmt::format("'{}' closes nothing that is open", first));
      open.pop_back();
    }
    const std::size_t size = found == std::end(two) ? 1 : found->size();
    add(Kind::sign, text_.substr(at_, size));
    advance(at_ + size);
  }

  void read_string(char quote) {
    std::size_t end = at_ + 1;
    while (end < text_.size() && text_[end] != quote) end += text_[end] == '\\' ? 2 : 1;
    if (end >= text_.size()) fail_here("a string does not end");
    add(Kind::string, string_of_literal(std::string_view(text_).substr(at_ + 1, end - at_ - 1), line_));
    advance(end + 1);
  }

  void read_number() {
    const NumberLiteral number = read_number_literal(std::string_view(text_).substr(at_), at_ > 0 && text_[at_ - 1] == '.');
    add(number.is_real ? Kind::real : Kind::integer, number.digits);
    advance(at_ + number.size);
  }

  std::string text_;
  std::size_t at_ = 0;
  int line_ = 1;
  bool begins_line_ = true;
  std::vector<Token> tokens_;
};

}  // namespace

std::vector<Token> read_tokens(std::string_view source) { return Lexer(normalized_source(source)).read(); }

}  // namespace pipetrain::templates
