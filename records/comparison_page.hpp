// Writes several runs over each other as one HTML page that needs neither the network nor another file.
#pragma once

#include <iosfwd>
#include <string>
#include <vector>

#include "records/report_chart.hpp"

namespace pipetrain {

inline constexpr std::size_t most_compared_runs = 8;  // as many colours as a page has

struct ComparisonPage {
  std::vector<std::string> runs;                  // their names, at most most_compared_runs
  std::vector<std::vector<std::string>> figures;  // rows: a name, then the text of each run
  std::vector<std::string> findings;              // sentences about their differences
  std::vector<ReportChart> charts;
};

// Writes a page of under 2 MB for runs of any length.
void write_comparison(std::ostream& out, const ComparisonPage& page);

}  // namespace pipetrain
