// The parts of report pages as JSON. Internal to records/.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "files/json_value.hpp"
#include "records/report_chart.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain {

// Returns the value rounded to six digits, all that a picture or a label can show.
double rounded(double value);
// Returns the text of a JSON value that can stand in a script: names may hold anything, so that a "</script>" in one must not
// end the script, and bytes that are not UTF-8 become U+FFFD.
std::string script_text(const Json& data);

template <class Value>
Json page_json(const std::optional<Value>& value) {
  return value ? Json(*value) : Json();
}
Json page_json(const std::vector<std::pair<std::string, std::string>>& facts);
Json page_json(const std::vector<ReportChart>& charts);  // without the empty lines
// Actions that are too narrow to see are one, and only the first rows are in it.
Json page_json(const schedules::Timeline& timeline);

inline constexpr std::size_t most_page_rows = 64;  // for devices

}  // namespace pipetrain
