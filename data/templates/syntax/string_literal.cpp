#include "data/templates/syntax/string_literal.hpp"

#include <cctype>

#include "core/parsing.hpp"
#include "data/templates/values/value.hpp"
#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain::templates {
namespace {

// Reads the escapes of a literal of Python.
class StringLiteral {
 public:
  StringLiteral(std::string_view literal, int line) : literal_(literal), line_(line) {}

  std::string read() {
    while (at_ < literal_.size()) {
      const char c = literal_[at_++];
      c == '\\' && at_ < literal_.size() ? read_escape() : void(out_ += c);
    }
    return std::move(out_);
  }

 private:
  void read_escape() {
    constexpr std::string_view letters = "\\'\"abfnrtv", values = "\\'\"\a\b\f\n\r\t\v";
    const char letter = literal_[at_++];
    if (const std::size_t found = letters.find(letter); found != std::string_view::npos) {
      out_ += values[found];
    } else if (letter == 'x' || letter == 'u' || letter == 'U') {
      read_hexadecimal(letter == 'x' ? 2 : letter == 'u' ? 4 : 8);
    } else if (letter >= '0' && letter <= '7') {
      read_octal();
    } else if (letter == 'N') {
      throw TemplateFault{"a character by its name, \\N{...}, is not supported; write the character", line_};
    } else if (letter != '\n') {
      out_ += '\\';
      out_ += letter;
    }
  }

  void read_hexadecimal(std::size_t digits) {
    const std::string_view text = literal_.substr(at_, digits);
    const auto code = number_from<unsigned>(text, 16);
    if (text.size() < digits || !code) fail_escape();
    at_ += digits;
    put(*code);
  }

  void read_octal() {
    unsigned code = 0;
    --at_;
    for (int i = 0; i < 3 && at_ < literal_.size() && literal_[at_] >= '0' && literal_[at_] <= '7'; ++i)
      code = code * 8 + static_cast<unsigned>(literal_[at_++] - '0');
    put(code);
  }

  void put(unsigned code) {
    if (code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) fail_escape();
    append_utf8(code, out_);
  }

  [[noreturn]] void fail_escape() const { throw TemplateFault{"a string has an escape that is no character", line_}; }

  std::string_view literal_;
  int line_;
  std::size_t at_ = 0;
  std::string out_;
};

bool is_digit_of(char c, int base) {
  if (base == 16) return std::isxdigit(static_cast<unsigned char>(c)) != 0;
  return c >= '0' && c < '0' + base;
}

// Returns the offset after the digits that begin at `at`. One "_" may stand between any two digits.
std::size_t after_digits(std::string_view text, std::size_t at, int base) {
  while (at < text.size()) {
    const bool joins = text[at] == '_' && at + 1 < text.size() && is_digit_of(text[at + 1], base);
    if (!is_digit_of(text[at], base) && !joins) break;
    ++at;
  }
  return at;
}

}  // namespace

std::string string_of_literal(std::string_view literal, int line) { return StringLiteral(literal, line).read(); }

NumberLiteral read_number_literal(std::string_view text, bool is_after_dot) {
  NumberLiteral number;
  const char kind =
      text.size() > 2 && text[0] == '0' ? static_cast<char>(std::tolower(static_cast<unsigned char>(text[1]))) : ' ';
  const int base = kind == 'x' ? 16 : kind == 'o' ? 8 : kind == 'b' ? 2 : 10;
  const std::size_t first = base != 10 && text[2] == '_' ? 3 : 2;
  if (base != 10 && first < text.size() && is_digit_of(text[first], base)) {
    number.size = after_digits(text, first, base);
  } else {
    std::size_t end = after_digits(text, 0, 10);
    const auto digit_at = [&](std::size_t at) { return at < text.size() && is_digit_of(text[at], 10); };
    if (!is_after_dot && end < text.size() && text[end] == '.' && digit_at(end + 1)) {
      end = after_digits(text, end + 1, 10);
      number.is_real = true;
    }
    std::size_t power = end + 1;
    if (power < text.size() && (text[power] == '+' || text[power] == '-')) ++power;
    if (!is_after_dot && end < text.size() && (text[end] == 'e' || text[end] == 'E') && digit_at(power)) {
      end = after_digits(text, power, 10);
      number.is_real = true;
    }
    // Jinja's integers have no zeros in front.
    if (!number.is_real && text[0] == '0') {
      end = 1;
      while (end < text.size() && (text[end] == '0' || (text[end] == '_' && end + 1 < text.size() && text[end + 1] == '0')))
        ++end;
    }
    number.size = end;
  }
  number.digits = text.substr(0, number.size);
  std::erase(number.digits, '_');
  return number;
}

}  // namespace pipetrain::templates
