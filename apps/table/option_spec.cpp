#include "apps/table/option_spec.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "apps/table/wrapped_text.hpp"

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
    page += fmt::format("{}{}{:{}}{}\n", left, own_line ? "\n" : "", "", help_column - (own_line ? 0 : left.size()),
                        wrapped_text(help, {.indent = help_column}));
  }
  return page;
}

}  // namespace pipetrain
