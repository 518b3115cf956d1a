#include "actors/training/job/setting_row.hpp"

#include "core/counted.hpp"

namespace pipetrain {

std::string SettingRow::default_text() const {
  const std::string of_struct = member.text(RunSettings{});
  const std::size_t place = default_value.find("{}");
  if (default_value.empty()) return of_struct;
  return place == std::string::npos ? default_value : std::string(default_value).replace(place, 2, of_struct);
}

std::string described_settings(const JobSettings& settings) {
  const RunSettings usual;
  RunSettings run;
  static_cast<JobSettings&>(run) = settings;
  std::string told;
  for (const SettingRow& row : setting_table()) {
    const std::string text = row.member.text(run);
    if (row.phrase.begin.empty() || text == row.member.text(usual)) continue;
    told += row.phrase.begin + (row.phrase.noun.empty() ? text : counted(std::stoll(text), row.phrase.noun.c_str()));
  }
  return told;
}

}  // namespace pipetrain
