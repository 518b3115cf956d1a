#include <utf8proc.h>

#include <algorithm>
#include <iterator>

#include "data/templates/values/characters.hpp"
#include "data/templates/values/special_casing.hpp"
#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain::templates {
namespace {

utf8proc_int32_t signed_code(char32_t code) { return static_cast<utf8proc_int32_t>(code); }

const SpecialCase* find_special_case(char32_t code) {
  if (code < 0xDF) return nullptr;
  const auto* const found = std::lower_bound(std::begin(special_cases), std::end(special_cases), code,
                                             [](const SpecialCase& one, char32_t wanted) { return one.code < wanted; });
  return found != std::end(special_cases) && found->code == code ? found : nullptr;
}

void append_upper(char32_t code, std::string& out) {
  if (const SpecialCase* const special = find_special_case(code)) {
    out += special->upper;
  } else {
    append_utf8(static_cast<char32_t>(utf8proc_toupper(signed_code(code))), out);
  }
}

void append_title(char32_t code, std::string& out) {
  if (const SpecialCase* const special = find_special_case(code)) {
    out += special->title;
  } else {
    append_utf8(static_cast<char32_t>(utf8proc_totitle(signed_code(code))), out);
  }
}

bool is_cased(char32_t code) {
  const auto category = utf8proc_category(signed_code(code));
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL || category == UTF8PROC_CATEGORY_LT;
}

// Returns true for characters that do not end a word under the rule of the final sigma.
bool is_case_ignorable(char32_t code) {
  switch (utf8proc_category(signed_code(code))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return code == '\'' || code == '.' || code == ':' || code == 0xB7 || code == 0x2019 || code == 0x2018;
  }
}

bool is_cased_after(std::string_view text, std::size_t at) {
  while (at < text.size()) {
    const char32_t code = next_code_point(text, at);
    if (!is_case_ignorable(code)) return is_cased(code);
  }
  return false;
}

bool is_cased_before(std::string_view text, std::size_t at) {
  while (at > 0) {
    do --at;
    while ((static_cast<unsigned char>(text[at]) & 0xC0) == 0x80);
    std::size_t next = at;
    const char32_t code = next_code_point(text, next);
    if (!is_case_ignorable(code)) return is_cased(code);
  }
  return false;
}

// Appends the character that ends at `end` in lower case. A capital sigma at the end of a word becomes the final sigma.
void append_lower(std::string_view text, std::size_t begin, std::size_t end, std::string& out) {
  std::size_t at = begin;
  const char32_t code = next_code_point(text, at);
  if (code == 0x3A3) {
    append_utf8(is_cased_before(text, begin) && !is_cased_after(text, end) ? 0x3C2 : 0x3C3, out);
  } else if (code == 0x130) {
    out += "i\xCC\x87";
  } else {
    append_utf8(static_cast<char32_t>(utf8proc_tolower(signed_code(code))), out);
  }
}

}  // namespace

std::string upper_case(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) append_upper(next_code_point(text, at), out);
  return out;
}

std::string lower_case(std::string_view text) {
  std::string out;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    next_code_point(text, end);
    append_lower(text, at, end, out);
  }
  return out;
}

std::string title_case(std::string_view text) {
  std::string out;
  bool in_word = false;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    const char32_t code = next_code_point(text, end);
    in_word ? append_lower(text, at, end, out) : append_title(code, out);
    in_word = is_cased(code);
  }
  return out;
}

std::string capitalized(std::string_view text) {
  std::string out;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    const char32_t code = next_code_point(text, end);
    at == 0 ? append_title(code, out) : append_lower(text, at, end, out);
  }
  return out;
}

std::string swapped_case(std::string_view text) {
  std::string out;
  for (std::size_t at = 0, end = 0; at < text.size(); at = end) {
    const char32_t code = next_code_point(text, end);
    const auto category = utf8proc_category(signed_code(code));
    if (category == UTF8PROC_CATEGORY_LU) {
      append_lower(text, at, end, out);
    } else {
      category == UTF8PROC_CATEGORY_LL ? append_upper(code, out) : append_utf8(code, out);
    }
  }
  return out;
}

std::string folded_case(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    utf8proc_int32_t folded[8];
    int boundary = 0;
    const auto size = utf8proc_decompose_char(signed_code(next_code_point(text, at)), folded, std::size(folded),
                                              UTF8PROC_CASEFOLD, &boundary);
    for (utf8proc_ssize_t i = 0; i < size; ++i) append_utf8(static_cast<char32_t>(folded[i]), out);
  }
  return out;
}

}  // namespace pipetrain::templates
