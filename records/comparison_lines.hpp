// A comparison of runs in words and numbers for people.
#pragma once

#include <string>
#include <vector>

#include "records/compare_runs.hpp"

namespace pipetrain {

// Returns rows of a name and one text a run, in units that suit its size: "12.3 ms". Rows that no run has a value for are left
// out.
std::vector<std::vector<std::string>> figure_rows(const std::vector<RunFigures>& runs);

// Returns a line for each compared value, and the first step that differs.
std::vector<std::string> finding_lines(const RunComparison& found);

}  // namespace pipetrain
