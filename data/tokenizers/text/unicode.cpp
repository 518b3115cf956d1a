#include "data/tokenizers/text/unicode.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <bitset>
#include <vector>

#include "data/tokenizers/text/utf8.hpp"

namespace pipetrain {
namespace {

utf8proc_category_t category_of(char32_t code) { return utf8proc_category(static_cast<utf8proc_int32_t>(code)); }

using CodePoints = std::vector<utf8proc_int32_t>;

int combining_class(utf8proc_int32_t code) { return utf8proc_get_property(code)->combining_class; }

// One of the normal forms: decomposes, sorts the marks, and possibly composes.
class Normalizer {
 public:
  Normalizer(bool compatible, bool composes) : compatible_(compatible), composes_(composes) { find_inert(); }

  // `units` is scratch.
  void append(std::string_view text, std::string& out, CodePoints& units) const {
    std::size_t done = 0, last = 0;  // text before `done` is written; the last inert character begins at `last`
    bool any = false;
    for (std::size_t at = 0; at < text.size();) {
      std::size_t next = at;
      const char32_t code = next_code_point(text, next);
      if (is_inert(code)) {
        last = at, at = next, any = true;
        continue;
      }
      const std::size_t begin = any ? last : at;  // the following characters may combine with it
      out.append(text, done, begin - done);
      done = at = end_of_change(text, next);
      append_changed(text.substr(begin, done - begin), out, units);
      any = false;
    }
    out.append(text, done, std::string_view::npos);
  }

 private:
  // An inert character stays unchanged unless the next one combines with it; it never combines with the one before.
  bool is_inert(char32_t code) const { return code < inert_.size() && inert_[code]; }

  std::size_t end_of_change(std::string_view text, std::size_t at) const {
    while (at < text.size()) {
      std::size_t next = at;
      if (is_inert(next_code_point(text, next))) break;
      at = next;
    }
    return at;
  }

  void decompose(utf8proc_int32_t code, CodePoints& units) const {
    std::array<utf8proc_int32_t, 32> parts{};  // Unicode's longest decomposition has 18
    const auto options = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | (compatible_ ? UTF8PROC_COMPAT : 0));
    const auto count = utf8proc_decompose_char(code, parts.data(), parts.size(), options, nullptr);
    units.insert(units.end(), parts.begin(), parts.begin() + count);
  }

  void compose(CodePoints& units) const {
    if (!composes_) return;
    const auto count = utf8proc_normalize_utf32(units.data(), static_cast<utf8proc_ssize_t>(units.size()),
                                                static_cast<utf8proc_option_t>(UTF8PROC_COMPOSE | UTF8PROC_STABLE));
    units.resize(static_cast<std::size_t>(count));
  }

  void append_changed(std::string_view text, std::string& out, CodePoints& units) const {
    units.clear();
    for (std::size_t at = 0; at < text.size();) decompose(static_cast<utf8proc_int32_t>(next_code_point(text, at)), units);
    const auto is_starter = [](utf8proc_int32_t code) { return combining_class(code) == 0; };
    for (auto begin = units.begin(); begin != units.end();) {
      begin = std::find_if_not(begin, units.end(), is_starter);
      const auto end = std::find_if(begin, units.end(), is_starter);
      std::stable_sort(begin, end, [](auto a, auto b) { return combining_class(a) < combining_class(b); });
      begin = end;
    }
    compose(units);
    for (const auto code : units) append_utf8(static_cast<char32_t>(code), out);
  }

  void find_inert() {
    std::bitset<size> combines_back;  // includes Hangul's vowels and final consonants
    CodePoints units;
    const auto plain = static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE);
    for (utf8proc_int32_t code = 0; code < static_cast<utf8proc_int32_t>(size); ++code) {
      std::array<utf8proc_int32_t, 32> parts{};
      const auto count = utf8proc_decompose_char(code, parts.data(), parts.size(), plain, nullptr);
      for (auto i = decltype(count){1}; i < count; ++i)
        if (parts[static_cast<std::size_t>(i)] < static_cast<utf8proc_int32_t>(size))
          combines_back[static_cast<std::size_t>(parts[static_cast<std::size_t>(i)])] = true;
    }
    for (utf8proc_int32_t code = 0; code < static_cast<utf8proc_int32_t>(size); ++code) {
      if (code >= 0xD800 && code < 0xE000) continue;
      units.clear();
      decompose(code, units);
      const utf8proc_int32_t first = units.front();
      if (combining_class(first) != 0 || first >= static_cast<utf8proc_int32_t>(size)) continue;
      if (composes_ && combines_back[static_cast<std::size_t>(first)]) continue;
      compose(units);
      inert_[static_cast<std::size_t>(code)] = units.size() == 1 && units.front() == code;
    }
  }

  static constexpr std::size_t size = 0x10000;
  bool compatible_, composes_;
  std::bitset<size> inert_;
};

const Normalizer& normalizer_for(NormalForm form) {
  static const Normalizer nfc(false, true);
  if (form == NormalForm::nfc) return nfc;
  static const Normalizer nfd(false, false);
  if (form == NormalForm::nfd) return nfd;
  static const Normalizer nfkc(true, true);
  if (form == NormalForm::nfkc) return nfkc;
  static const Normalizer nfkd(true, false);
  return nfkd;
}

}  // namespace

bool is_white_space(char32_t code) {
  return (code >= 9 && code <= 13) || code == 32 || code == 0x85 || code == 0xA0 || code == 0x1680 ||
         (code >= 0x2000 && code <= 0x200A) || code == 0x2028 || code == 0x2029 || code == 0x202F || code == 0x205F ||
         code == 0x3000;
}

bool is_numeric(char32_t code) {
  const auto category = category_of(code);
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

bool is_punctuation(char32_t code) {
  if (code < 0x80)
    return code > 32 && code < 127 && !(code >= '0' && code <= '9') && !((code | 32) >= 'a' && (code | 32) <= 'z');
  const auto category = category_of(code);
  return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

bool is_mark(char32_t code) {
  const auto category = category_of(code);
  return category >= UTF8PROC_CATEGORY_MN && category <= UTF8PROC_CATEGORY_ME;
}

bool is_nonspacing_mark(char32_t code) { return category_of(code) == UTF8PROC_CATEGORY_MN; }

bool is_other(char32_t code) {
  const auto category = category_of(code);
  return category == UTF8PROC_CATEGORY_CC || category == UTF8PROC_CATEGORY_CF || category == UTF8PROC_CATEGORY_CO;
}

bool is_word(char32_t code) {
  const auto category = category_of(code);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) || is_mark(code) ||
         category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_PC ||
         (code >= 0x24B6 && code <= 0x24E9) || code == 0x200C || code == 0x200D;  // circled letters; joiners
}

void append_lowercase(char32_t code, std::string& text) {
  if (code == 0x130) {  // the only one that becomes two characters: i and a dot above
    text += "i\xCC\x87";
  } else {
    append_utf8(static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(code))), text);
  }
}

std::size_t end_of_grapheme(std::string_view text, std::size_t at) {
  const auto is_ascii = [&](std::size_t i) { return static_cast<unsigned char>(text[i]) < 0x80; };
  // The most common case.
  if (is_ascii(at) && (at + 1 == text.size() || (is_ascii(at + 1) && text[at + 1] != '\n'))) return at + 1;
  utf8proc_int32_t state = 0;
  auto code = static_cast<utf8proc_int32_t>(next_code_point(text, at));
  while (at < text.size()) {
    std::size_t next = at;
    const auto following = static_cast<utf8proc_int32_t>(next_code_point(text, next));
    if (utf8proc_grapheme_break_stateful(code, following, &state) != 0) break;
    code = following;
    at = next;
  }
  return at;
}

void append_normalized(std::string_view text, NormalForm form, std::string& out) {
  thread_local CodePoints units;
  normalizer_for(form).append(text, out, units);
}

}  // namespace pipetrain
