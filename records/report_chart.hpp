// A chart of a report page: a value over the steps of one run or of several.
#pragma once

#include <string>
#include <vector>

#include "records/step_series.hpp"

namespace pipetrain {

struct ReportChart {
  struct Line {
    std::size_t run = 0;  // the number of the run on the page
    const StepSeries* series = nullptr;
  };
  std::string title, unit;
  double scale = 1;  // factor for the values: 100 for shares shown in %
  std::vector<Line> lines;
};

}  // namespace pipetrain
