#include "apps/options/given_options.hpp"

#include <cstdlib>
#include <set>

#include "apps/options/option_values.hpp"

namespace pipetrain {

namespace {

std::string shell_word(const std::string& word) {
  constexpr const char* plain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./:,=+-@%";
  if (!word.empty() && word.find_first_not_of(plain) == word.npos) return word;
  std::string quoted = "'";
  for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

// True for the same text, and for two spellings of one number.
bool means_default(const std::string& word, const std::string& default_value) {
  if (word == default_value) return true;
  char *end = nullptr, *default_end = nullptr;
  const double value = std::strtod(word.c_str(), &end), other = std::strtod(default_value.c_str(), &default_end);
  return end != word.c_str() && *end == '\0' && default_end != default_value.c_str() && *default_end == '\0' && value == other;
}

}  // namespace

std::vector<GivenOption> given_options(const OptionRows& table, const RawOptions& options) {
  static const std::set<std::string> not_of_run = {"config", "save-config", "dry-run",   "help",       "version",
                                                   "master", "nnodes",      "node-rank", "token-file", "nproc"};
  std::vector<GivenOption> given;
  for (const OptionSpec& spec : table) {
    const auto option = options.find(spec.name);
    if (option == options.end() || option->second.words.empty() || not_of_run.count(spec.name) != 0) continue;
    GivenOption one{spec.name, option->second.words, option->second.place, spec.value.empty()};
    if (!spec.takes_several()) one.words = {one.words.back()};
    if (one.is_switch) {
      const bool on = word_of_switch(one.words.back()).value_or(true);
      one.words = {on ? "true" : "false"};
      if (!on && spec.default_value != "on") continue;
    }
    if (one.words.size() == 1 && means_default(one.words.front(), spec.default_value)) continue;
    given.push_back(std::move(one));
  }
  return given;
}

std::string shell_words(const std::vector<GivenOption>& options) {
  std::string text;
  for (const GivenOption& option : options) {
    text += (text.empty() ? "--" : " --") + option.name;
    if (option.is_switch) {
      if (option.words.front() == "false") text += "=false";
      continue;
    }
    for (const auto& word : option.words) text += " " + shell_word(word);
  }
  return text;
}

}  // namespace pipetrain
