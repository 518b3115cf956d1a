#include "data/templates/values/characters.hpp"

#include <utf8proc.h>

#include <algorithm>

#include "data/tokenizers/text/unicode.hpp"
#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain::templates {
namespace {

utf8proc_category_t category_of(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

bool is_letter(utf8proc_category_t category) { return category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO; }
bool is_decimal(char32_t code) { return category_of(code) == UTF8PROC_CATEGORY_ND; }
// Returns true also for superscripts, subscripts and numbers in circles, which are digits by value but not decimal.
bool is_digit(char32_t code) {
  return is_decimal(code) || code == 0xB2 || code == 0xB3 || code == 0xB9 || code == 0x2070 ||
         (code >= 0x2074 && code <= 0x2079) || (code >= 0x2080 && code <= 0x2089) || (code >= 0x2460 && code <= 0x2468);
}

bool is_of_class(char32_t code, TextClass text_class) {
  const auto category = category_of(code);
  switch (text_class) {
    case TextClass::alpha:
      return is_letter(category);
    case TextClass::alphanumeric:
      return is_letter(category) || is_numeric(code);
    case TextClass::decimal:
      return is_decimal(code);
    case TextClass::digit:
      return is_digit(code);
    case TextClass::numeric:
      return is_numeric(code);
    case TextClass::space:
      return is_python_space(code);
    case TextClass::ascii:
      return code < 0x80;
    default:
      return is_python_printable(code);
  }
}

bool is_upper(char32_t code) { return category_of(code) == UTF8PROC_CATEGORY_LU; }
bool is_lower(char32_t code) { return category_of(code) == UTF8PROC_CATEGORY_LL; }
bool is_title(char32_t code) { return category_of(code) == UTF8PROC_CATEGORY_LT; }

// Computes str.islower() or str.isupper(): true if the text has a character of this case and none of another case.
bool has_one_case(std::string_view text, bool upper) {
  bool any = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    if (is_title(code) || (upper ? is_lower(code) : is_upper(code))) return false;
    any = any || (upper ? is_upper(code) : is_lower(code));
  }
  return any;
}

bool is_title_text(std::string_view text) {
  bool any = false, in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    const bool begins = is_upper(code) || is_title(code), goes_on = is_lower(code);
    if ((begins && in_word) || (goes_on && !in_word)) return false;
    in_word = begins || goes_on;
    any = any || in_word;
  }
  return any;
}

std::vector<char32_t> code_points(std::string_view characters) {
  std::vector<char32_t> codes;
  for (std::size_t at = 0; at < characters.size();) codes.push_back(next_code_point(characters, at));
  return codes;
}

}  // namespace

std::size_t character_size(std::string_view text, std::size_t at) { return utf8_length(text[at]); }

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; }));
}

std::size_t offset_of(std::string_view text, std::int64_t character) {
  std::size_t at = 0;
  for (; character > 0 && at < text.size(); --character) at += character_size(text, at);
  return at;
}

std::vector<std::string_view> characters_in(std::string_view text) {
  std::vector<std::string_view> characters;
  for (std::size_t at = 0; at < text.size(); at += characters.back().size())
    characters.push_back(text.substr(at, character_size(text, at)));
  return characters;
}

bool is_python_space(char32_t code) { return is_white_space(code) || (code >= 0x1C && code <= 0x1F); }

bool is_python_printable(char32_t code) {
  if (code == ' ') return true;
  switch (category_of(code)) {
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return false;
    default:
      return true;
  }
}

std::string_view stripped(std::string_view text, std::optional<std::string_view> characters, Ends ends) {
  const std::vector<char32_t> codes = code_points(characters.value_or(""));
  const auto goes = [&](char32_t code) {
    return characters ? std::find(codes.begin(), codes.end(), code) != codes.end() : is_python_space(code);
  };
  std::size_t begin = 0;
  while (ends != Ends::right && begin < text.size()) {
    std::size_t next = begin;
    if (!goes(next_code_point(text, next))) break;
    begin = next;
  }
  std::size_t end = text.size();
  while (ends != Ends::left && end > begin) {
    std::size_t last = end - 1;
    while ((static_cast<unsigned char>(text[last]) & 0xC0) == 0x80) --last;
    std::size_t next = last;
    if (!goes(next_code_point(text, next))) break;
    end = last;
  }
  return text.substr(begin, end - begin);
}

bool is_all(std::string_view text, TextClass text_class) {
  if (text_class == TextClass::lower || text_class == TextClass::upper)
    return has_one_case(text, text_class == TextClass::upper);
  if (text_class == TextClass::title) return is_title_text(text);
  for (std::size_t at = 0; at < text.size();)
    if (!is_of_class(next_code_point(text, at), text_class)) return false;
  return !text.empty() || text_class == TextClass::printable || text_class == TextClass::ascii;
}

}  // namespace pipetrain::templates
