#include "apps/options/save_config.hpp"

#include <fmt/format.h>

#include <set>

#include "apps/options/option_values.hpp"
#include "core/error.hpp"
#include "schedules/draw/utf8.hpp"

namespace pipetrain {

namespace {

std::string quoted_value(const RawOption& option, const std::string& word) {
  if (schedules::valid_utf8(word) != word)
    throw Error(ErrorKind::input,
                fmt::format("{}: is not UTF-8, which a file of options must be; leave --save-config out", option.where));
  std::string text = "\"";
  for (const char c : word) {
    if (c == '"' || c == '\\') {
      text += std::string("\\") + c;
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      text += fmt::format("\\u{:04X}", static_cast<unsigned char>(c));
    } else {
      text += c;
    }
  }
  return text + "\"";
}

// Integers stay numbers in the file; other words are strings, which are read the same.
std::string config_value(const OptionSpec& spec, const RawOption& option) {
  if (spec.takes_several()) {
    std::string list;
    for (const auto& word : option.words) list += (list.empty() ? "" : ", ") + quoted_value(option, word);
    return "[" + list + "]";
  }
  const std::string& word = option.words.back();
  if (spec.value.empty()) return word_of_switch(word).value_or(true) ? "true" : "false";
  const bool digits = !word.empty() && word.size() < 18 && word.find_first_not_of("0123456789") == word.npos;
  if (digits && (word == "0" || word[0] != '0')) return word;
  return quoted_value(option, word);
}

}  // namespace

std::string to_toml(const OptionRows& table, const RawOptions& options) {
  static const std::set<std::string> of_one_call = {"config", "save-config", "dry-run", "help", "version"};
  std::string text;
  for (const OptionSpec& spec : table) {
    const auto option = options.find(spec.name);
    if (option == options.end() || option->second.words.empty() || of_one_call.count(spec.name) != 0) continue;
    text += fmt::format("{} = {}\n", spec.name, config_value(spec, option->second));
  }
  return text;
}

}  // namespace pipetrain
