#include "apps/doctor/combinations_page.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "actors/training/job/combinations.hpp"

namespace pipetrain {
namespace {

// Features that no option asks for yet.
constexpr const char* unbuilt_features[] = {"Pipelines of C stages over several processes"};

std::string feature_text(Feature feature) {
  std::string text;
  for (const char letter : std::string(name_of(feature)))
    text += letter == '{' ? "`--" : letter == '}' ? "`" : std::string(1, letter);
  return text;
}

std::string devices_text(const std::optional<DeviceKind>& device) {
  return !device ? "" : *device == DeviceKind::cpu ? "CPUs" : "GPUs";
}

// Returns a line for each feature, with those that it does not work with yet.
std::string unbuilt_list() {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Combination& row : refused_combinations()) {
    if (!row.unbuilt) continue;
    const std::string feature = feature_text(row.feature) + (row.device ? " on " + devices_text(row.device) : "");
    auto line = std::find_if(lines.begin(), lines.end(), [&](const auto& one) { return one.first == feature; });
    if (line == lines.end()) line = lines.insert(line, {feature, ""});
    if (row.other) line->second += (line->second.empty() ? " with " : ", ") + feature_text(*row.other);
  }
  std::string list = fmt::format("- {}.\n", fmt::join(unbuilt_features, "; "));
  for (const auto& [feature, others] : lines) list += fmt::format("- {}{}.\n", feature, others);
  return list;
}

}  // namespace

std::string combinations_page() {
  std::string page = unbuilt_list() + "\n| this | does not work with | on | because, and what to do |\n|---|---|---|---|\n";
  for (const Combination& row : refused_combinations())
    page += fmt::format("| {} | {} | {} | {} |\n", feature_text(row.feature), row.other ? feature_text(*row.other) : "",
                        devices_text(row.device), row.why);
  return page;
}

}  // namespace pipetrain
