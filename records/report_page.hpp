// A run as one HTML page that needs nothing else: no network, no other file.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "records/metrics_line.hpp"
#include "records/step_series.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain {

// Name and value, for people.
using Facts = std::vector<std::pair<std::string, std::string>>;

enum class RunState { running, finished, stopped, failed };

struct ReportPage {
  std::string title;
  RunState state = RunState::running;
  std::string state_text;        // why it was stopped or failed; may be empty
  std::int64_t written = 0;      // when, in seconds since 1970 (UTC): by this a page of a run that was killed tells its age
  std::int64_t steps_total = 0;  // 0: not known
  std::optional<double> seconds_left;
  Facts settings, host;

  struct Chart {
    std::string title, unit;
    double scale = 1;  // of the values: 100 for shares shown in %
    const StepSeries* series = nullptr;
  };
  std::vector<Chart> charts;
  std::optional<StepMetrics> newest;
  std::vector<std::string> device_names;       // of newest->memory_bytes; empty: numbers
  std::vector<schedules::Timeline> timelines;  // each one step, in seconds; titles say which
};

// Under 2 MB for any run: series are bounded, and what of a timeline is too narrow to see is drawn as one.
void write_report(std::ostream& out, const ReportPage& page);

// The text of a page that says that its run goes on, with the end that the run itself could not write. Nothing where `page` is
// no page of this version, says another state, or was written before `since` (seconds since 1970), and so by another run.
std::optional<std::string> with_end(const std::string& page, std::int64_t since, RunState state, const std::string& text);

}  // namespace pipetrain
