// The operator % of str.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

#include "data/templates/functions/operators.hpp"
#include "data/templates/values/characters.hpp"
#include "data/templates/values/printing.hpp"
#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain::templates {
namespace {

struct Conversion {
  std::string key, flags;
  bool has_key = false;
  int width = 0, precision = -1;
  char type = 's';
};

constexpr int widest_conversion = 1000;

class PercentFormat {
 public:
  PercentFormat(std::string_view format, const Value& values) : format_(format), values_(values) {}

  std::string read() {
    while (at_ < format_.size()) {
      const char c = format_[at_++];
      c == '%' ? put(read_conversion()) : void(out_ += c);
    }
    const bool is_whole = values_.dict() != nullptr || values_.is<Undefined>() || values_.is<List>() || values_.is<Range>() ||
                          (!values_.is<Tuple>() && used_ > 0);
    if (!is_whole && (!values_.is<Tuple>() || used_ < values_.elements()->size()))
      fail("not all arguments converted during string formatting");
    return std::move(out_);
  }

 private:
  char peek() const { return at_ < format_.size() ? format_[at_] : '\0'; }

  int read_size() {
    int size = 0;
    if (peek() == '*') {
      ++at_;
      size = static_cast<int>(std::clamp<std::int64_t>(integer_of(take_value()), -widest_conversion, widest_conversion));
    }
    while (peek() >= '0' && peek() <= '9') size = std::min(size * 10 + (format_[at_++] - '0'), widest_conversion + 1);
    if (size > widest_conversion) fail("a width of % is too large");
    return size;
  }

  Conversion read_conversion() {
    Conversion one;
    if (peek() == '(') {
      const std::size_t end = format_.find(')', at_);
      if (end == std::string_view::npos) fail("incomplete format key");
      one.key = format_.substr(at_ + 1, end - at_ - 1);
      one.has_key = true;
      at_ = end + 1;
    }
    while (peek() != '\0' && std::string_view("-+ #0").find(peek()) != std::string_view::npos) one.flags += format_[at_++];
    one.width = read_size();
    if (peek() == '.') {
      ++at_;
      one.precision = read_size();
    }
    while (peek() == 'l' || peek() == 'h' || peek() == 'L') ++at_;
    if (at_ >= format_.size()) fail("incomplete format");
    one.type = format_[at_++];
    return one;
  }

  Value take_value() {
    if (!values_.is<Tuple>()) {
      if (used_++ > 0) fail("not enough arguments for format string");
      return values_;
    }
    if (used_ >= values_.elements()->size()) fail("not enough arguments for format string");
    return (*values_.elements())[used_++];
  }

  Value value_of(const Conversion& one) {
    if (!one.has_key) return take_value();
    if (values_.dict() == nullptr) fail("format requires a mapping");
    const Value* const found = values_.dict()->find(std::string_view(one.key));
    if (found == nullptr) fail(fmt::format("the format's key {} is not there", text_repr(one.key)));
    return *found;
  }

  static std::int64_t integer_of(const Value& value) {
    if (const auto integer = value.integer()) return *integer;
    const double* const real = value.as<double>();
    if (real == nullptr || !(std::abs(*real) < 9e18))
      fail(fmt::format("%d format: a real number is required, not {}", type_name(value)));
    return static_cast<std::int64_t>(*real);
  }

  void put(const Conversion& one) {
    switch (one.type) {
      case '%':
        out_ += '%';
        return;
      case 's':
      case 'r':
      case 'a': {
        const Value value = value_of(one);
        std::string text = one.type == 's' ? printed(value) : repr(value);
        if (one.precision >= 0) text.resize(offset_of(text, one.precision));
        return pad(text, one);
      }
      case 'c':
        return pad(character_of(value_of(one)), one);
      case 'd':
      case 'i':
      case 'u':
      case 'x':
      case 'X':
      case 'o':
        return put_integer(one, integer_of(value_of(one)));
      default:
        return put_real(one);
    }
  }

  static std::string character_of(const Value& value) {
    if (const auto integer = value.integer(); integer && *integer >= 0 && *integer < 0x110000)
      return to_utf8(static_cast<char32_t>(*integer));
    if (value.text() == nullptr || count_characters(*value.text()) != 1) fail("%c requires int or char");
    return *value.text();
  }

  void pad(const std::string& text, const Conversion& one) {
    const auto size = static_cast<int>(count_characters(text));
    const std::string space(static_cast<std::size_t>(std::max(one.width - size, 0)), ' ');
    out_ += one.flags.find('-') != std::string::npos ? text + space : space + text;
  }

  template <class Number>
  void put_number(const Conversion& one, const std::string& length, Number number) {
    std::string format = "%" + one.flags + std::to_string(one.width);
    if (one.width == 0) format.pop_back();
    if (one.precision >= 0) format += "." + std::to_string(one.precision);
    format += length + (one.type == 'u' ? 'd' : one.type);
    std::array<char, 2 * widest_conversion + 400> buffer{};
    const int size = std::snprintf(buffer.data(), buffer.size(), format.c_str(), number);
    out_.append(buffer.data(), static_cast<std::size_t>(size));
  }

  void put_integer(const Conversion& one, std::int64_t number) {
    const bool is_decimal = one.type == 'd' || one.type == 'i' || one.type == 'u';
    if (!is_decimal && (number < 0 || one.flags.find('#') != std::string::npos))
      fail("% with x or o is supported for plain positive integers only");
    put_number(one, "ll", static_cast<long long>(number));
  }

  void put_real(const Conversion& one) {
    if (std::string_view("eEfFgG").find(one.type) == std::string_view::npos)
      fail(fmt::format("unsupported format character '{}'", one.type));
    const Value value = value_of(one);
    const auto number = value.number();
    if (!number) fail(fmt::format("must be real number, not {}", type_name(value)));
    put_number(one, "", *number);
  }

  std::string_view format_;
  const Value& values_;
  std::size_t at_ = 0, used_ = 0;
  std::string out_;
};

}  // namespace

std::string percent_formatted(Runtime& runtime, std::string_view format, const Value& values) {
  std::string text = PercentFormat(format, values).read();
  runtime.charge_bytes(text.size());
  return text;
}

}  // namespace pipetrain::templates
