#include "structure/function_reader.hpp"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <optional>
#include <regex>
#include <string_view>

namespace pipetrain::structure {
namespace {

bool is_word(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Returns the end of the string or character literal that begins at `at`, including its closing quote.
std::size_t end_of_literal(const std::string& code, std::size_t at) {
  const char quote = code[at];
  if (quote == '"' && at > 0 && code[at - 1] == 'R') {
    const std::size_t open = code.find('(', at);
    const std::string close = ")" + code.substr(at + 1, open - at - 1) + "\"";
    return std::min(code.find(close, open), code.size() - close.size()) + close.size();
  }
  std::size_t end = at + 1;
  while (end < code.size() && code[end] != quote) end += code[end] == '\\' ? 2 : 1;
  return end + 1;
}

std::size_t end_of_line(const std::string& code, std::size_t at) { return std::min(code.find('\n', at), code.size()); }

// Returns the end of a preprocessor directive, including lines continued after a backslash.
std::size_t end_of_directive(const std::string& code, std::size_t at) {
  std::size_t end = end_of_line(code, at);
  while (end < code.size() && code[end - 1] == '\\') end = end_of_line(code, end + 1);
  return end;
}

// Returns true if the quote at `at` is that of 1'000, unlike that of U' '.
bool in_number(const std::string& code, std::size_t at) {
  std::size_t begin = at;
  while (begin > 0 && is_word(code[begin - 1])) --begin;
  return begin < at && std::isdigit(static_cast<unsigned char>(code[begin])) != 0;
}

// Returns the code with spaces for comments, preprocessor lines and quoted text; lines keep their numbers.
std::string without_text(std::string code) {
  const auto blank = [&code](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < std::min(end, code.size()); ++i)
      if (code[i] != '\n') code[i] = ' ';
    return end;
  };
  bool line_begins = true;
  for (std::size_t at = 0; at < code.size();) {
    const char c = code[at];
    if (line_begins && c == '#') {
      at = blank(at, end_of_directive(code, at));
    } else if (code.compare(at, 2, "//") == 0) {
      at = blank(at, end_of_line(code, at));
    } else if (code.compare(at, 2, "/*") == 0) {
      at = blank(at, std::min(code.find("*/", at), code.size() - 2) + 2);
    } else if (c == '"' || (c == '\'' && !in_number(code, at))) {
      at = blank(at + 1, end_of_literal(code, at) - 1) + 1;
    } else {
      line_begins = c == '\n' || (line_begins && std::isspace(static_cast<unsigned char>(c)) != 0);
      ++at;
    }
  }
  return code;
}

// Returns where the bracket at `open` closes.
std::size_t closing(std::string_view code, std::size_t open) {
  int depth = 0;
  for (std::size_t at = open; at < code.size(); ++at) {
    if (code[at] == '(' || code[at] == '{' || code[at] == '[') ++depth;
    if (code[at] == ')' || code[at] == '}' || code[at] == ']') --depth;
    if (depth == 0) return at;
  }
  return code.size();
}

// Returns where the template's "<" at `open` closes; 0 if it is a comparison.
std::size_t closing_angle(std::string_view head, std::size_t open) {
  int depth = 0;
  for (std::size_t at = open; at < head.size(); ++at) {
    if (head[at] == '(') at = closing(head, at);
    if (at < head.size() && head[at] == '<') ++depth;
    if (at < head.size() && head[at] == '>' && head[at - 1] != '-' && --depth == 0) return at;
  }
  return 0;
}

struct Parentheses {
  std::size_t open = 0, close = 0;
};

// Returns the parentheses after a name in the text before the body or the semicolon.
std::vector<Parentheses> calls_of(std::string_view head) {
  std::vector<Parentheses> found;
  for (std::size_t at = 0; at < head.size(); ++at) {
    const bool after_operator = at >= 8 && head.substr(0, at).ends_with("operator");
    if (head[at] == '<' && !after_operator && head.substr(at, 2) != "<<") {
      if (const std::size_t end = closing_angle(head, at)) at = end;
    } else if (head[at] == '[' || head[at] == '{') {
      at = closing(head, at);
    } else if (head[at] == '(') {
      const std::size_t close = closing(head, at);
      if (!after_operator) found.push_back({at, close});  // operator()
      at = close;
    }
  }
  return found;
}

std::string name_before(std::string_view head, std::size_t open) {
  std::size_t end = open;
  while (end > 0 && head[end - 1] == ' ') --end;
  std::size_t begin = end;
  while (begin > 0 && (is_word(head[begin - 1]) || head[begin - 1] == ':' || head[begin - 1] == '~')) --begin;
  return std::string(head.substr(begin, end - begin));
}

int parameters_in(std::string_view list) {
  int count = list.find_first_not_of(" \n") == std::string_view::npos ? 0 : 1;
  for (std::size_t at = 0; at < list.size(); ++at) {
    if (list[at] == '<') {
      if (const std::size_t end = closing_angle(list, at)) at = end;
    } else if (list[at] == '(' || list[at] == '{' || list[at] == '[') {
      at = closing(list, at);
    } else if (list[at] == ',') {
      ++count;
    }
  }
  return count;
}

// Cuts off "template <...>" in front.
std::string_view without_template(std::string_view head) {
  const auto skip_space = [&head] {
    while (!head.empty() && std::isspace(static_cast<unsigned char>(head.front())) != 0) head.remove_prefix(1);
  };
  for (skip_space(); head.starts_with("template"); skip_space())
    head.remove_prefix(std::min(closing_angle(head, head.find('<')), head.size() - 1) + 1);
  return head;
}

// Returns where a constructor's initialisers begin, after their colon; npos if there are none.
std::size_t initialisers(std::string_view head, std::size_t from) {
  for (std::size_t at = head.find(':', from); at != std::string_view::npos; at = head.find(':', at + 1)) {
    if (head.substr(at, 2) != "::" && head[at - 1] != ':') return at + 1;
  }
  return std::string_view::npos;
}

// Returns the function that this head declares; nothing if it is something else.
std::optional<Function> function_of(std::string_view head) {
  static const std::regex behind_parameters(
      R"(\s*((const|noexcept|override|final|try|mutable|&|&&|= ?0|= ?default|= ?delete)\s*)*(->[\s\S]*|requires[\s\S]*|:[\s\S]*)?)");
  static const std::regex keyword(R"((if|for|while|switch|catch|return|decltype|alignas|static_assert|noexcept|requires)$)");
  head = without_template(head);
  for (const Parentheses& call : calls_of(head)) {
    const std::string name = name_before(head, call.open);
    const std::string before(head.substr(0, call.open)), behind(head.substr(std::min(call.close + 1, head.size())));
    const bool is_operator = before.find("operator") != std::string::npos;
    if (name.empty() && !is_operator) continue;
    if (std::regex_search(name, keyword) || (!is_operator && before.find('=') != std::string::npos)) continue;
    if (!std::regex_match(behind, behind_parameters)) continue;
    Function function;
    function.name = name;
    function.parameters = parameters_in(head.substr(call.open + 1, call.close - call.open - 1));
    function.on_device = before.find("__global__") != std::string::npos || before.find("__device__") != std::string::npos;
    return function;
  }
  return {};
}

bool is_scope(std::string_view head) {
  static const std::regex scope(R"((\[\[.*\]\]\s*)?(inline\s+)?(namespace|struct|class|union|extern)\b[\s\S]*)");
  head = without_template(head);
  return std::regex_match(head.begin(), head.end(), scope);
}

class Reader {
 public:
  explicit Reader(const std::string& code) : code_(without_text(code)) {}

  std::vector<Function> read() {
    for (std::size_t at = 0; at < code_.size(); ++at) {
      switch (code_[at]) {
        case '(':
        case '[':
          at = closing(code_, at);
          break;
        case '{':
          at = open_brace(at);
          break;
        case ';':
          if (auto function = function_of(head(at))) add(*function, 0);
          begin_ = at + 1;
          break;
        case '}':
          begin_ = at + 1;
          break;
        case ':':
          if (const std::string label = name_before(head(at), at - begin_);
              label == "public" || label == "private" || label == "protected")
            begin_ = at + 1;
          break;
        default:
          break;
      }
    }
    return std::move(found_);
  }

 private:
  std::string_view head(std::size_t end) const { return std::string_view(code_).substr(begin_, end - begin_); }

  // Returns where to continue.
  std::size_t open_brace(std::size_t at) {
    const std::string_view before = head(at);
    const auto function = function_of(before);
    if (!function && is_scope(before)) {
      begin_ = at + 1;
      return at;
    }
    const std::size_t close = closing(code_, at);
    if (!function || initialises_member(before)) return close;  // the head continues after it
    add(*function, close);
    begin_ = close + 1;
    return close;
  }

  // "A() : b" precedes the brace of b{1}; a body's brace follows a bracket.
  static bool initialises_member(std::string_view before) {
    while (before.ends_with(' ') || before.ends_with('\n')) before.remove_suffix(1);
    const auto calls = calls_of(before);
    return !calls.empty() && initialisers(before, calls.front().close) != std::string_view::npos && is_word(before.back());
  }

  // close: the end of its body; 0 for a declaration.
  void add(Function function, std::size_t close) {
    const std::size_t first = code_.find_first_not_of(" \n", begin_);
    const auto line_of = [this](std::size_t at) {
      return 1 + static_cast<int>(std::count(code_.begin(), code_.begin() + static_cast<std::ptrdiff_t>(at), '\n'));
    };
    function.line = line_of(first);
    if (close > 0) function.lines = line_of(close) - function.line + 1;
    found_.push_back(std::move(function));
  }

  std::string code_;
  std::size_t begin_ = 0;  // of the text before the next brace or semicolon
  std::vector<Function> found_;
};

}  // namespace

std::vector<Function> functions_of(const std::string& code) { return Reader(code).read(); }

}  // namespace pipetrain::structure
