#include "data/tokenizers/template_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>
#include <vector>

namespace pipetrain {
namespace {

constexpr std::string_view template_space = " \t\n\v\f\r";

bool is_name_character(char c) {
  return c == '_' || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Lines end with \n, and the last end of a line is left out, as Jinja reads a template.
std::string unix_lines(std::string_view text) {
  std::string lines;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\r' && i + 1 < text.size() && text[i + 1] == '\n') continue;
    lines += text[i] == '\r' ? '\n' : text[i];
  }
  if (lines.ends_with('\n')) lines.pop_back();
  return lines;
}

struct TemplateToken {
  std::string text;  // of a string its content
  bool is_string = false;
};
using TemplateTokens = std::vector<TemplateToken>;

// The tokens of one tag.
class TagReader {
 public:
  // `at` is behind the beginning of the tag.
  TagReader(std::string_view text, std::size_t at, std::string_view end) : text_(text), end_(end), at_(at) {}

  // False where the tag does not end, or holds what is no token. Afterwards `at` is behind it, and `sign` is the - or + of its
  // end, or 0.
  bool read() {
    for (int braces = 0; at_ < text_.size();) {
      const char c = text_[at_];
      if (braces == 0 && ends()) return true;
      if (template_space.find(c) != std::string_view::npos) {
        ++at_;
      } else if (c == '\'' || c == '"') {
        if (!read_string(c)) return false;
      } else if (is_name_character(c)) {
        read_name();
      } else {
        braces += c == '{' ? 1 : c == '}' ? -1 : 0;
        read_operator();
      }
    }
    return false;
  }

  std::size_t at() const { return at_; }
  char sign() const { return sign_; }
  TemplateTokens take() { return std::move(tokens_); }

 private:
  bool ends() {
    const bool has_sign = text_[at_] == '-' || (text_[at_] == '+' && end_ != "}}");
    if (!text_.substr(at_ + (has_sign ? 1 : 0)).starts_with(end_)) return false;
    sign_ = has_sign ? text_[at_] : '\0';
    at_ += end_.size() + (has_sign ? 1 : 0);
    return true;
  }

  bool read_string(char quote) {
    std::string content;
    for (++at_; at_ < text_.size() && text_[at_] != quote; ++at_) {
      if (text_[at_] != '\\') {
        content += text_[at_];
        continue;
      }
      constexpr std::string_view escapes = "nrt\\'\"", meant = "\n\r\t\\'\"";
      const std::size_t escape = ++at_ < text_.size() ? escapes.find(text_[at_]) : std::string_view::npos;
      if (escape == std::string_view::npos) return false;
      content += meant[escape];
    }
    if (at_ == text_.size()) return false;
    ++at_;
    tokens_.push_back({std::move(content), true});
    return true;
  }

  void read_name() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name_character(text_[at_])) ++at_;
    tokens_.push_back({std::string(text_.substr(begin, at_ - begin)), false});
  }

  void read_operator() {
    std::size_t size = 1;
    for (const std::string_view two : {"==", "!=", ">=", "<=", "//", "**"})
      if (text_.substr(at_).starts_with(two)) size = 2;
    tokens_.push_back({std::string(text_.substr(at_, size)), false});
    at_ += size;
  }

  std::string_view text_, end_;
  std::size_t at_;
  char sign_ = '\0';
  TemplateTokens tokens_;
};

bool is_operator(const TemplateToken* token, std::string_view text) {
  return token != nullptr && !token->is_string && token->text == text;
}

// message . role for message [ "role" ]
TemplateTokens with_dots(TemplateTokens tokens) {
  TemplateTokens result;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const bool is_key = i > 0 && i + 2 < tokens.size() && is_operator(&tokens[i], "[") && tokens[i + 1].is_string &&
                        is_operator(&tokens[i + 2], "]");
    const bool is_of_value =
        is_key && !tokens[i - 1].is_string && (is_name_character(tokens[i - 1].text[0]) || is_operator(&tokens[i - 1], "]"));
    if (!is_of_value || !std::all_of(tokens[i + 1].text.begin(), tokens[i + 1].text.end(), is_name_character)) {
      result.push_back(tokens[i]);
      continue;
    }
    result.push_back({".", false});
    result.push_back({tokens[i + 1].text, false});
    i += 2;
  }
  return result;
}

// One string for strings that are added, where nothing binds them more tightly.
TemplateTokens with_sums(TemplateTokens tokens) {
  TemplateTokens result;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    const TemplateToken* const after = i + 1 < tokens.size() ? &tokens[i + 1] : nullptr;
    const auto back = [&](std::size_t count) { return result.size() < count ? nullptr : &result[result.size() - count]; };
    const TemplateToken* const before = back(3);
    const bool is_sum = tokens[i].is_string && is_operator(back(1), "+") && back(2) != nullptr && back(2)->is_string;
    const bool is_free = (!before || is_operator(before, "+") || is_operator(before, "=") || is_operator(before, "(")) &&
                         (!after || is_operator(after, "+") || is_operator(after, ")"));
    if (is_sum && is_free) {
      result.pop_back();
      result.back().text += tokens[i].text;
    } else {
      result.push_back(std::move(tokens[i]));
    }
  }
  return result;
}

class TemplateReader {
 public:
  explicit TemplateReader(std::string text) : text_(std::move(text)) {}

  std::optional<std::string> read() {
    while (at_ < text_.size()) {
      const std::size_t tag = next_tag();
      if (tag == std::string::npos) break;
      const char kind = text_[tag + 1];
      const bool has_sign = tag + 2 < text_.size() && (text_[tag + 2] == '-' || text_[tag + 2] == '+');
      put_text(before_tag(tag, kind, has_sign ? text_[tag + 2] : '\0'));
      if (!read_tag(tag + (has_sign ? 3 : 2), kind)) return std::nullopt;
    }
    put_text(std::string_view(text_).substr(at_));
    finish_text();
    if (in_generation_) return std::nullopt;
    return std::move(result_);
  }

 private:
  std::size_t next_tag() const {
    std::size_t tag = text_.find('{', at_);
    while (tag != std::string::npos && std::string_view("{%#").find(text_[tag + 1]) == std::string_view::npos)
      tag = text_.find('{', tag + 1);
    return tag;
  }

  std::string_view before_tag(std::size_t tag, char kind, char sign) const {
    std::string_view text = std::string_view(text_).substr(at_, tag - at_);
    if (sign == '-') return text.substr(0, text.find_last_not_of(template_space) + 1);
    if (kind == '{' || sign == '+') return text;
    // White space between the beginning of the line and the tag.
    const std::size_t line = text.rfind('\n') + 1;
    const bool is_whole_line = line > 0 || begins_line_;
    return is_whole_line && text.find_first_not_of(template_space, line) == std::string_view::npos ? text.substr(0, line)
                                                                                                   : text;
  }

  bool read_tag(std::size_t at, char kind) {
    char sign = '\0';
    if (kind == '#') {
      const std::size_t end = text_.find("#}", at);
      if (end == std::string::npos) return false;
      if (end > at) sign = text_[end - 1];
      at = end + 2;
    } else {
      TagReader tag(text_, at, kind == '{' ? "}}" : "%}");
      if (!tag.read()) return false;
      at = tag.at();
      sign = tag.sign();
      if (!put_tag(kind, tag.take())) return false;
    }
    if (sign == '-') {
      at = std::min(text_.find_first_not_of(template_space, at), text_.size());
    } else if (kind != '{' && sign != '+' && at < text_.size() && text_[at] == '\n') {
      ++at;
    }
    at_ = at;
    begins_line_ = text_[at - 1] == '\n';
    return true;
  }

  bool put_tag(char kind, TemplateTokens tokens) {
    if (tokens.empty()) return false;
    const std::string& first = tokens.front().text;
    if (kind == '%' && first == "raw") return false;
    if (kind == '%' && tokens.size() == 1 && (first == "generation" || first == "endgeneration")) {
      const bool was_in_generation = std::exchange(in_generation_, first == "generation");
      return was_in_generation != in_generation_;
    }
    if (kind == '%' && in_generation_) return false;  // which may end outside of it
    finish_text();
    result_ += kind;
    for (const TemplateToken& token : with_sums(with_dots(std::move(tokens))))
      result_ += token.is_string ? fmt::format(" \"{}:{}\"", token.text.size(), token.text) : " " + token.text;
    result_ += '\n';
    return true;
  }

  void put_text(std::string_view text) { plain_ += text; }
  void finish_text() {
    if (!plain_.empty()) result_ += fmt::format("text {}:{}\n", plain_.size(), plain_);
    plain_.clear();
  }

  std::string text_, plain_, result_;
  std::size_t at_ = 0;
  bool begins_line_ = true, in_generation_ = false;
};

}  // namespace

std::optional<std::string> normal_template(std::string_view text) { return TemplateReader(unix_lines(text)).read(); }

}  // namespace pipetrain
