#include "bench/fuzz/mutate.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace pipetrain::fuzz {
namespace {

constexpr std::array<std::string_view, 44> odd_numbers = {"0",
                                                          "-0",
                                                          "1",
                                                          "-1",
                                                          "2",
                                                          "3",
                                                          "7",
                                                          "8",
                                                          "16",
                                                          "255",
                                                          "256",
                                                          "1024",
                                                          "32767",
                                                          "32768",
                                                          "65535",
                                                          "65536",
                                                          "16777215",
                                                          "16777216",
                                                          "16777217",
                                                          "2147483647",
                                                          "2147483648",
                                                          "-2147483648",
                                                          "4294967295",
                                                          "4294967296",
                                                          "9007199254740993",
                                                          "9223372036854775807",
                                                          "9223372036854775808",
                                                          "-9223372036854775808",
                                                          "-9223372036854775809",
                                                          "18446744073709551615",
                                                          "18446744073709551616",
                                                          "0.5",
                                                          "1.0",
                                                          "1e308",
                                                          "-1e308",
                                                          "1e309",
                                                          "5e-324",
                                                          "1e-400",
                                                          "1e-320",
                                                          "1E+2",
                                                          "nan",
                                                          "inf",
                                                          "0x10",
                                                          "99999999999999999999999999999999"};

constexpr std::array<std::string_view, 30> pieces = {
    "{}",      "[]",       "[[]]", "{\"a\":1}", "null",         "true", "false", "\"\"", "\"a\"", "\"\\u0000\"", "\"\\ud800\"",
    "\"\\n\"", "\"\xff\"", "\n",   "\r\n",      "\t",           ",",    ":",     "=",    ".",     "\"",          "'",
    "\"\"\"",  "#",        "/*",   "//",        "\xef\xbb\xbf", ";",    "(",     ")"};

struct Span {
  std::size_t begin = 0, end = 0;
  std::size_t size() const { return end - begin; }
};

bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' || c == '-' || c == '+';
}

// Returns the end of the token that begins at `at`: a quoted string, a word or number, else one character.
std::size_t token_end(std::string_view text, std::size_t at) {
  if (text[at] == '"') {
    for (std::size_t i = at + 1; i < text.size(); ++i) {
      if (text[i] == '\\') {
        ++i;
      } else if (text[i] == '"') {
        return i + 1;
      }
    }
    return at + 1;
  }
  std::size_t end = at;
  while (end < text.size() && in_word(text[end])) ++end;
  return std::max(end, at + 1);
}

// Returns the token at a random position; a position inside a word finds the word.
Span random_token(Random& random, std::string_view text) {
  std::size_t at = random.below(text.size());
  const std::size_t line = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;  // npos + 1 is 0
  std::size_t from = std::max(line, at > 200 ? at - 200 : 0);
  while (from < at) {
    const std::size_t end = token_end(text, from);
    if (end > at) break;
    from = end;
  }
  at = from;
  return {at, token_end(text, at)};
}

// Returns the token, and the text between its bracket and the closing one.
Span random_value(Random& random, std::string_view text) {
  Span span = random_token(random, text);
  if (text[span.begin] != '{' && text[span.begin] != '[' && text[span.begin] != '(') return span;
  int depth = 0;
  for (std::size_t at = span.begin; at < text.size(); at = token_end(text, at)) {
    if (text[at] == '{' || text[at] == '[' || text[at] == '(') ++depth;
    if ((text[at] == '}' || text[at] == ']' || text[at] == ')') && --depth == 0) return {span.begin, at + 1};
  }
  return span;
}

// Returns a member of an object or an element with the comma after it: from a token to the next comma outside of its brackets.
Span random_member(Random& random, std::string_view text) {
  const Span first = random_token(random, text);
  int depth = 0;
  for (std::size_t at = first.begin; at < text.size(); at = token_end(text, at)) {
    if (text[at] == '{' || text[at] == '[') ++depth;
    if (text[at] == '}' || text[at] == ']') --depth;
    if (depth < 0) return {first.begin, at};
    if (depth == 0 && text[at] == ',') return {first.begin, at + 1};
  }
  return first;
}

Span random_line(Random& random, std::string_view text) {
  const std::size_t at = random.below(text.size());
  const std::size_t begin = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
  const std::size_t end = text.find('\n', at);
  return {begin, end == std::string_view::npos ? text.size() : end + 1};
}

Span random_span(Random& random, std::string_view text) {
  switch (random.below(3)) {
    case 0:
      return random_value(random, text);
    case 1:
      return random_member(random, text);
    default:
      return random_line(random, text);
  }
}

std::string repeated(std::string_view text, std::size_t times) {
  std::string result;
  for (std::size_t i = 0; i < times && result.size() < most_input_bytes; ++i) result += text;
  return result;
}

std::size_t random_times(Random& random) {
  constexpr std::array<std::size_t, 8> times = {2, 3, 8, 17, 64, 257, 1025, 20000};
  // Long repeats take long to parse, so few of them are made.
  return times[random.one_in(64) ? random.below(times.size()) : random.below(3)];
}

std::string random_piece(Random& random, const std::vector<std::string>& texts, const std::vector<std::string>& dictionary) {
  switch (random.below(4)) {
    case 0:
      return std::string(odd_numbers[random.below(odd_numbers.size())]);
    case 1:
      return std::string(pieces[random.below(pieces.size())]);
    case 2:
      if (!dictionary.empty()) return dictionary[random.below(dictionary.size())];
      [[fallthrough]];
    default: {
      const std::string& other = texts[random.below(texts.size())];
      if (other.empty()) return "0";
      const Span span = random_span(random, other);
      return other.substr(span.begin, span.size());
    }
  }
}

// A number is mostly replaced by another number.
void replace_token(Random& random, std::string& text, const std::vector<std::string>& texts,
                   const std::vector<std::string>& dictionary) {
  const Span token = random_token(random, text);
  const bool is_number = std::isdigit(static_cast<unsigned char>(text[token.begin])) != 0;
  const std::string with = is_number && !random.one_in(4) ? std::string(odd_numbers[random.below(odd_numbers.size())])
                                                          : random_piece(random, texts, dictionary);
  text.replace(token.begin, token.size(), with);
}

void nest(Random& random, std::string& text) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 5> brackets = {
      {{"[", "]"}, {"{\"a\":", "}"}, {"(", ")"}, {"{a=", "}"}, {"a.", ""}}};
  const auto& [open, close] = brackets[random.below(brackets.size())];
  const Span span = random_value(random, text);
  const std::size_t times = random_times(random);
  text = text.substr(0, span.begin) + repeated(open, times) + text.substr(span.begin, span.size()) + repeated(close, times) +
         text.substr(span.end);
}

void swap_spans(Random& random, std::string& text) {
  Span a = random_span(random, text), b = random_span(random, text);
  if (a.begin > b.begin) std::swap(a, b);
  if (a.end > b.begin) return;
  text = text.substr(0, a.begin) + text.substr(b.begin, b.size()) + text.substr(a.end, b.begin - a.end) +
         text.substr(a.begin, a.size()) + text.substr(b.end);
}

void mutate_structure(Random& random, std::string& text, const std::vector<std::string>& texts,
                      const std::vector<std::string>& dictionary) {
  const Span span = random_span(random, text);
  switch (random.below(8)) {
    case 0:
    case 1:
    case 2:
      return replace_token(random, text, texts, dictionary);
    case 3:
      text.insert(span.begin, repeated(text.substr(span.begin, span.size()), random_times(random)));
      return;
    case 4:
      text.erase(span.begin, span.size());
      return;
    case 5:
      return nest(random, text);
    case 6:
      return swap_spans(random, text);
    default:
      text.insert(span.begin, random_piece(random, texts, dictionary));
  }
}

}  // namespace

std::uint64_t Random::bits() {
  std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}

void mutate_bytes(Random& random, std::string& text) {
  for (std::size_t changes = 1 + random.below(4); changes > 0; --changes) {
    if (text.empty()) text = "0";
    const std::size_t at = random.below(text.size());
    switch (random.below(6)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << random.below(8)));
        break;
      case 1:
        text[at] = static_cast<char>(random.below(256));
        break;
      case 2:
        text.insert(at, 1, static_cast<char>(random.one_in(3) ? 0 : random.below(256)));
        break;
      case 3:
        text.erase(at, 1 + random.below(4));
        break;
      case 4:
        text.insert(at, text.substr(random.below(text.size()), 1 + random.below(16)));
        break;
      default:
        if (random.one_in(4)) text.resize(at);
    }
  }
}

std::string mutated(Random& random, const std::vector<std::string>& texts, const std::vector<std::string>& dictionary) {
  std::string text = texts[random.below(texts.size())];
  for (std::size_t changes = 1 + random.below(random.one_in(4) ? 8 : 3); changes > 0; --changes) {
    if (text.empty()) text = "0";
    if (random.one_in(4)) {
      mutate_bytes(random, text);
    } else {
      mutate_structure(random, text, texts, dictionary);
    }
    if (text.size() > most_input_bytes) text.resize(most_input_bytes);
  }
  return text;
}

}  // namespace pipetrain::fuzz
