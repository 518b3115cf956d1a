#include "data/templates/values/printing.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>

#include "data/templates/values/characters.hpp"
#include "data/templates/values/object.hpp"
#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain::templates {
namespace {

// The shortest digits that read back as the same number, and the power of ten of the first one.
struct Decimal {
  std::string digits;
  int exponent = 0;
};

Decimal shortest_decimal(double number) {
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, number, std::chars_format::scientific);
  const std::string_view text(buffer, static_cast<std::size_t>(result.ptr - buffer));
  const std::size_t e = text.find('e');
  Decimal decimal;
  for (const char c : text.substr(0, e))
    if (c != '.') decimal.digits += c;
  const std::size_t first = text[e + 1] == '+' ? e + 2 : e + 1;
  std::from_chars(text.data() + first, text.data() + text.size(), decimal.exponent);
  return decimal;
}

// Values that share others print more than they hold.
void check_printed(const std::string& text) {
  if (text.size() > most_printed_bytes) fail(fmt::format("a value prints as more than {} MiB", most_printed_bytes >> 20));
}

std::string items_repr(const Values& values) {
  std::string text;
  for (const Value& value : values) {
    text += (text.empty() ? "" : ", ") + repr(value);
    check_printed(text);
  }
  return text;
}

std::string dict_repr(const DictItems& dict) {
  std::string text;
  for (const auto& [key, value] : dict.items()) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", repr(key), repr(value));
    check_printed(text);
  }
  return fmt::format("{{{}}}", text);
}

std::string range_repr(const Range& range) {
  return range.step == 1 ? fmt::format("range({}, {})", range.begin, range.end)
                         : fmt::format("range({}, {}, {})", range.begin, range.end, range.step);
}

void append_escape(char32_t code, std::string& out) {
  if (code < 0x100) {
    out += fmt::format("\\x{:02x}", static_cast<unsigned>(code));
  } else if (code < 0x10000) {
    out += fmt::format("\\u{:04x}", static_cast<unsigned>(code));
  } else {
    out += fmt::format("\\U{:08x}", static_cast<unsigned>(code));
  }
}

}  // namespace

std::string float_repr(double number) {
  if (std::isnan(number)) return "nan";
  if (std::isinf(number)) return number < 0 ? "-inf" : "inf";
  const auto [digits, exponent] = shortest_decimal(std::abs(number));
  std::string text = std::signbit(number) ? "-" : "";
  const int size = static_cast<int>(digits.size());
  if (exponent < -4 || exponent >= 16) {
    text += digits.substr(0, 1);
    if (size > 1) text += "." + digits.substr(1);
    return text + fmt::format("e{}{:02}", exponent < 0 ? '-' : '+', std::abs(exponent));
  }
  if (exponent < 0) return text + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  if (size <= exponent + 1) return text + digits + std::string(static_cast<std::size_t>(exponent + 1 - size), '0') + ".0";
  const auto whole = static_cast<std::size_t>(exponent + 1);
  return text + digits.substr(0, whole) + "." + digits.substr(whole);
}

std::string text_repr(std::string_view text) {
  const char quote = text.find('\'') != std::string_view::npos && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t code = next_code_point(text, at);
    if (code == static_cast<unsigned char>(quote) || code == '\\') {
      out += '\\';
      out += static_cast<char>(code);
    } else if (code == '\n' || code == '\r' || code == '\t') {
      out += code == '\n' ? "\\n" : code == '\r' ? "\\r" : "\\t";
    } else if (is_python_printable(code)) {
      out += text.substr(begin, at - begin);
    } else {
      append_escape(code, out);
    }
  }
  return out + quote;
}

std::string repr(const Value& value) {
  if (const std::string* const text = value.text())
    return value.as<Text>()->is_markup ? fmt::format("Markup({})", text_repr(*text)) : text_repr(*text);
  if (value.is<List>()) return fmt::format("[{}]", items_repr(*value.elements()));
  if (value.is<Tuple>()) return fmt::format("({}{})", items_repr(*value.elements()), value.elements()->size() == 1 ? "," : "");
  if (const DictItems* const dict = value.dict()) return dict_repr(*dict);
  if (const Range* const range = value.as<Range>()) return range_repr(*range);
  if (value.is<Undefined>()) return "Undefined";
  if (value.is<None>()) return "None";
  if (const bool* const truth = value.as<bool>()) return *truth ? "True" : "False";
  if (const auto integer = value.integer()) return std::to_string(*integer);
  if (const LargeInteger* const large = value.as<LargeInteger>()) return *large->digits;
  return value.object() != nullptr ? value.object()->repr() : float_repr(*value.number());
}

std::string printed(const Value& value) {
  if (const std::string* const text = value.text()) return *text;
  return value.is<Undefined>() ? "" : repr(value);
}

}  // namespace pipetrain::templates
