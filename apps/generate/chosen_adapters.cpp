#include "apps/generate/chosen_adapters.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.hpp"

namespace pipetrain {
namespace {

std::string list_names(const std::vector<NamedAdapter>& adapters) {
  std::string names;
  for (const NamedAdapter& adapter : adapters) names += fmt::format("\"{}\", ", adapter.name);
  return names + fmt::format("or \"{}\" for the model without adapters", model_without_adapter);
}

[[noreturn]] void fail_choice(const Prompt& prompt, const std::vector<NamedAdapter>& adapters) {
  if (prompt.place.empty())
    throw Error(
        ErrorKind::input, {"adapter", adapters.front().name},
        "several adapters need prompts that name theirs; give rows {\"prompt\", \"adapter\"} in FILE.jsonl with --prompts");
  const std::string choice = prompt.adapter.empty() ? "names no adapter" : fmt::format("no adapter is \"{}\"", prompt.adapter);
  const bool any_named = !adapters.empty() && !adapters.front().name.empty();
  const std::string rule = any_named ? fmt::format("\"adapter\" is one of {}", list_names(adapters))
                                     : "name adapters with --adapter NAME=DIR, or leave out \"adapter\"";
  throw Error(ErrorKind::input, fmt::format("{}: {}; {}", prompt.place, choice, rule));
}

int chosen_adapter(const Prompt& prompt, const std::vector<NamedAdapter>& adapters) {
  if (prompt.adapter == model_without_adapter) return 0;
  if (prompt.adapter.empty() && adapters.size() < 2) return static_cast<int>(adapters.size());
  const auto found = std::ranges::find(adapters, prompt.adapter, &NamedAdapter::name);
  if (prompt.adapter.empty() || found == adapters.end()) fail_choice(prompt, adapters);
  return static_cast<int>(found - adapters.begin()) + 1;
}

}  // namespace

std::vector<int> chosen_adapters(const std::vector<Prompt>& prompts, const std::vector<NamedAdapter>& adapters) {
  std::vector<int> chosen;
  for (const Prompt& prompt : prompts) chosen.push_back(chosen_adapter(prompt, adapters));
  return chosen;
}

}  // namespace pipetrain
