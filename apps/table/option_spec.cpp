#include "apps/table/option_spec.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace pipetrain {

OptionRows joined_rows(std::initializer_list<OptionRows> parts) {
  OptionRows all;
  for (const OptionRows& part : parts) all.insert(all.end(), part.begin(), part.end());
  for (OptionSpec& row : all)
    if (const auto* choices = std::get_if<Choices>(&row.reader); choices && row.value.empty())
      row.value = fmt::format("{}", fmt::join(*choices, "|"));
  return all;
}

const OptionSpec* find_option(const OptionRows& table, std::string_view name) {
  const auto found = std::find_if(table.begin(), table.end(), [&](const OptionSpec& spec) { return spec.name == name; });
  return found == table.end() ? nullptr : &*found;
}

std::vector<std::string> option_names(const OptionRows& table) {
  std::vector<std::string> names;
  for (const OptionSpec& spec : table) names.push_back(spec.name);
  return names;
}

namespace {

constexpr std::size_t help_column = 34;
constexpr std::size_t help_width = 100;

// `text` broken at spaces to fit from help_column to page_width; the first line goes where the cursor is.
std::string wrapped(const std::string& text) {
  std::string result, line;
  const auto flush = [&] {
    if (!result.empty()) result.append("\n").append(help_column, ' ');
    result += line;
    line.clear();
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find(' ', at), text.size());
    if (!line.empty() && help_column + line.size() + 1 + (end - at) > help_width) flush();
    if (!line.empty()) line += ' ';
    line.append(text, at, end - at);
    at = end + 1;
  }
  flush();
  return result;
}

}  // namespace

std::string format_options(const OptionRows& table) {
  std::string page;
  std::string_view group;
  for (const OptionSpec& spec : table) {
    if (spec.group != group) page += fmt::format("{}{}\n", group.empty() ? "" : "\n", spec.group);
    group = spec.group;
    const std::string left = fmt::format("  --{}{}{}", spec.name, spec.value.empty() ? "" : " ", spec.value);
    std::string help = spec.help;
    if (!spec.default_value.empty()) help += fmt::format(" [{}]", spec.default_value);
    const bool own_line = left.size() + 2 > help_column;
    page +=
        fmt::format("{}{}{:{}}{}\n", left, own_line ? "\n" : "", "", help_column - (own_line ? 0 : left.size()), wrapped(help));
  }
  return page;
}

}  // namespace pipetrain
