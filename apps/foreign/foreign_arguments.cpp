#include <fmt/format.h>

#include <cctype>

#include "apps/foreign/foreign_config.hpp"
#include "core/error.hpp"
#include "files/json.hpp"

namespace pipetrain {

namespace {

struct Word {
  std::string text;
  std::size_t line;
};

[[noreturn]] void fail_arguments(const std::string& path, std::size_t line, const std::string& why) {
  throw Error(ErrorKind::input, fmt::format("{}:{}: {}", path, line, why));
}

// Splits as a shell does, but without variables: a word with a $ outside single quotes would have another meaning here.
class Words {
 public:
  Words(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  std::vector<Word> all() {
    std::vector<Word> words;
    while (skip_space()) words.push_back(next());
    return words;
  }

 private:
  bool skip_space() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else if (c == '\\' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') {
        at_ += 2;
        ++line_;
      } else if (std::isspace(static_cast<unsigned char>(c))) {
        line_ += c == '\n';
        ++at_;
      } else {
        return true;
      }
    }
    return false;
  }
  Word next() {
    Word word{"", line_};
    while (at_ < text_.size() && !std::isspace(static_cast<unsigned char>(text_[at_]))) {
      const char c = text_[at_];
      if (c == '\'' || c == '"') {
        word.text += quoted(c);
      } else if (c == '$' || c == '`') {
        fail_arguments(path_, line_, "contains a shell variable; write its value");
      } else if (c == '\\' && at_ + 1 < text_.size()) {
        if (text_[at_ + 1] == '\n') break;
        word.text += text_[at_ + 1];
        at_ += 2;
      } else {
        word.text += c;
        ++at_;
      }
    }
    return word;
  }
  std::string quoted(char quote) {
    const std::size_t begin = at_ + 1, end = text_.find(quote, begin);
    if (end == text_.npos) fail_arguments(path_, line_, "a quote is not closed");
    const std::string_view inside = text_.substr(begin, end - begin);
    if (quote == '"' && inside.find('$') != inside.npos)
      fail_arguments(path_, line_, "contains a shell variable; write its value");
    for (const char c : inside) line_ += c == '\n';
    at_ = end + 1;
    return std::string(inside);
  }

  std::string_view text_;
  const std::string& path_;
  std::size_t at_ = 0, line_ = 1;
};

Json argument_value(const std::string& word) {
  try {
    Json number = parse_json(word, {"a word"});
    if (number.is_number()) return number;
  } catch (const Error&) {  // the value is a text
  }
  return word;
}

}  // namespace

std::vector<ForeignSetting> parse_argument_text(std::string_view text, const std::string& path) {
  std::vector<ForeignSetting> settings;
  for (const Word& word : Words(text, path).all()) {
    if (word.text.starts_with("--") && word.text.size() > 2) {
      const std::size_t equals = std::min(word.text.find('='), word.text.size());
      settings.push_back({word.text.substr(2, equals - 2), true, fmt::format("{}:{}", path, word.line)});
      if (equals < word.text.size()) settings.back().value = argument_value(word.text.substr(equals + 1));
    } else if (settings.empty()) {
      fail_arguments(
          path, word.line,
          fmt::format("{}: arguments begin with --; give the part of the line from the first of them on", word.text));
    } else if (Json& value = settings.back().value; value == true) {
      value = argument_value(word.text);
    } else {
      if (!value.is_array()) value = Json::array({value});
      value.push_back(argument_value(word.text));
    }
  }
  return settings;
}

}  // namespace pipetrain
