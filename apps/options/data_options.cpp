#include "apps/options/data_options.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>

#include "apps/options/option_files.hpp"
#include "core/parsing.hpp"
#include "data/tokenizers/chat_template.hpp"

namespace pipetrain {

TextKeys read_text_keys(const OptionValues& values) {
  const auto text = values.text("text-keys");
  if (!text) return {};
  std::vector<std::string> keys;
  for (const std::string_view key : split(*text, ',')) {
    if (key.empty())
      values.fail("text-keys", "has an empty name; write names with one comma between, such as sentence1,sentence2");
    for (const char* taken : {"input_ids", "labels", "label", "messages"})
      if (key == taken) values.fail("text-keys", fmt::format("{} is no key of a text; name keys whose values are texts", key));
    if (std::find(keys.begin(), keys.end(), key) != keys.end())
      values.fail("text-keys", fmt::format("names {} twice; keep one", key));
    keys.emplace_back(key);
  }
  return {std::move(keys), true};
}

std::optional<std::string> read_chat_template(const OptionValues& values, const std::string& option) {
  const auto given = values.text(option);
  const auto& names = chat_template_names();
  if (!given || std::find(names.begin(), names.end(), *given) != names.end()) return given;
  refuse_unreadable(values, option);
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(*given, ignored))
    values.fail(option, fmt::format("is neither one of {} nor a file; give a name, or the file of a chat template in Jinja",
                                    fmt::join(names, ", ")));
  return given;
}

void read_data(const OptionValues& values, RunSettings& run) {
  for (const std::string& input : values.list("data")) run.data.inputs.push_back(parse_data_input(input));
  run.data.text_keys = read_text_keys(values);
  run.data.chat_template = read_chat_template(values, "chat-template").value_or("");
}

void read_evaluation(const OptionValues& values, RunSettings& run) {
  EvaluationSettings& evaluation = run.evaluation;
  for (const std::string& input : values.list("eval-data")) evaluation.inputs.push_back(parse_data_input(input, "eval-data"));
  if (evaluation.split == 0.0) evaluation.split.reset();
  if (evaluation.split && !evaluation.inputs.empty()) values.fail("split", "--eval-data is given too; keep one of them");
  const bool weighted = [&](const auto& inputs) {
    return std::any_of(inputs.begin(), inputs.end(), [](const DataInput& input) { return input.weight.has_value(); });
  }(run.data.inputs);
  if (evaluation.split && weighted)
    values.fail("split", "a weighted mixture draws anew in every epoch; give --eval-data, or leave the weights out");
  if (evaluation.interval && !evaluation.wanted())
    values.fail("eval-interval", "needs data to evaluate on; give --eval-data or --split");
}

}  // namespace pipetrain
