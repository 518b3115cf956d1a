#include "apps/options/shared_options.hpp"

#include "apps/options/option_table.hpp"

namespace pipetrain {

OptionSpec shared_option(const char* group, const char* name, const Reworded& texts) {
  OptionSpec option = *find_option(train_option_table(), name);
  option.group = group;
  if (!texts.default_value.empty()) option.default_value = texts.default_value;
  if (!texts.help.empty()) option.help = texts.help;
  return option;
}

OptionRows timeline_options(const std::string& svg, const std::string& trace) {
  return {{"Output", "svg", "FILE", "the timeline as a picture" + svg},
          {"Output", "html", "FILE", "the timeline as a page with zoom, that needs no network"},
          {"Output", "trace", "FILE", "the timeline for chrome://tracing and ui.perfetto.dev" + trace},
          {"Output", "csv", "FILE", "the timeline, one row per action"}};
}

OptionRows page_options() {
  return {{"General", "help", "", "print this page", OnOff{}}, {"General", "version", "", "print the version", OnOff{}}};
}

OptionRows general_options() {
  return joined_rows(
      {{{"General", "config", "FILE", "options from a TOML or JSON file, by their names here"}}, page_options()});
}

}  // namespace pipetrain
