// Translates the syntax that Oniguruma and PCRE2 read differently.
#include <fmt/format.h>

#include "core/error.hpp"
#include "data/tokenizers/text/regex.hpp"

namespace pipetrain {
namespace {

constexpr std::string_view white_space =
    R"(\x{9}-\x{d}\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000})";
constexpr std::string_view word = R"(\p{Alphabetic}\p{M}\p{Nd}\p{Pc})";

class Translation {
 public:
  Translation(std::string_view pattern, const std::string& place) : pattern_(pattern), place_(place) {}

  std::string run() {
    while (at_ < pattern_.size()) {
      const char c = pattern_[at_];
      if (c == '\\') {
        escape();
      } else if (in_class_) {
        member(c);
      } else {
        outside(c);
      }
    }
    return std::move(result_);
  }

 private:
  [[noreturn]] void refuse(const std::string& what) const {
    throw Error(ErrorKind::input, fmt::format("{}: {} in the regular expression {} is not supported", place_, what, pattern_));
  }
  bool next_is(std::string_view text) const { return pattern_.substr(at_).starts_with(text); }
  void copy(std::size_t count = 1) {
    result_ += pattern_.substr(at_, count);
    at_ += count;
  }

  void escape() {
    const char c = at_ + 1 < pattern_.size() ? pattern_[at_ + 1] : '\0';
    const auto put = [&](std::string_view members, bool negated) {
      if (!in_class_) {
        result_ += fmt::format("[{}{}]", negated ? "^" : "", members);
      } else if (!negated) {
        result_ += members;
      } else if (c == 'S') {
        result_ += R"(\S\x{180e})";  // PCRE2 counts U+180E as a space
      } else {
        refuse(fmt::format("\\{} between brackets", c));
      }
      at_ += 2;
    };
    switch (c) {
      case 's':
      case 'S':
        return put(white_space, c == 'S');
      case 'w':
      case 'W':
        return put(word, c == 'W');
      case 'h':
      case 'H':
        return put("0-9a-fA-F", c == 'H');
      case 'u':
        return code_point();
      case 'b':
      case 'B':
        if (!in_class_) refuse(fmt::format("\\{}", c));
        return copy(2);
      case 'K':
      case 'G':
      case 'g':
      case 'k':
      case 'y':
      case 'Y':
      case 'M':
      case 'C':
      case 'Q':
      case 'E':
      case 'N':
      case 'O':
        refuse(fmt::format("\\{}", c));
      default:
        return copy(2);
    }
  }

  void code_point() {
    const std::string_view digits = pattern_.substr(at_ + 2, 4);
    if (digits.size() != 4 || digits.find_first_not_of("0123456789abcdefABCDEF") != std::string_view::npos)
      refuse("\\u without four digits");
    result_ += fmt::format("\\x{{{}}}", digits);
    at_ += 6;
  }

  void member(char c) {
    if (next_is("[:")) {
      const std::size_t end = pattern_.find(":]", at_);
      if (end == std::string_view::npos) refuse("[: without :]");
      return copy(end + 2 - at_);
    }
    if (c == '[') refuse("a bracket within brackets");
    if (next_is("&&")) refuse("&& between brackets");
    if (c == ']' && at_ != first_member_) in_class_ = false;
    copy();
  }

  void outside(char c) {
    if (c == '[') {
      in_class_ = true;
      copy(next_is("[^") ? 2 : 1);
      first_member_ = at_;
    } else if (c == '}' && at_ + 1 < pattern_.size() && pattern_[at_ + 1] == '+' && is_interval()) {
      refuse("a + after {}");  // possessive in PCRE2, a further repetition in Oniguruma
    } else if (next_is("(*") || next_is("(?m") || next_is("(?C") || next_is("(?R") || next_is("(?{")) {
      refuse(std::string(pattern_.substr(at_, 3)));
    } else {
      copy();
    }
  }

  // Returns true if the brace that ends here began with a digit, as in {1,3} but not in \p{L}.
  bool is_interval() const {
    const std::size_t begin = pattern_.rfind('{', at_);
    return begin != std::string_view::npos && begin + 1 < at_ &&
           pattern_.substr(begin + 1, at_ - begin - 1).find_first_not_of("0123456789,") == std::string_view::npos;
  }

  std::string_view pattern_;
  const std::string& place_;
  std::string result_;
  std::size_t at_ = 0, first_member_ = 0;
  bool in_class_ = false;
};

}  // namespace

std::string in_pcre2_syntax(std::string_view pattern, const std::string& place) { return Translation(pattern, place).run(); }

}  // namespace pipetrain
