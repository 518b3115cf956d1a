// Writes a run as one HTML page that needs neither the network nor another file.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "records/metrics_line.hpp"
#include "records/report_chart.hpp"
#include "schedules/simulate/timeline.hpp"

namespace pipetrain {

// Names and values, for people.
using Facts = std::vector<std::pair<std::string, std::string>>;

enum class RunState { running, finished, stopped, failed };

struct ReportPage {
  std::string title;
  RunState state = RunState::running;
  std::string state_text;        // why the run was stopped or failed; may be empty
  bool live = false;             // the page gets new data from the program that serves it (comm/served/page_server.hpp)
  std::int64_t written = 0;      // in seconds since 1970 (UTC): shows the age of the page of a run that was killed
  std::int64_t steps_total = 0;  // 0: unknown
  std::optional<double> seconds_left;
  Facts settings, host;

  std::vector<ReportChart> charts;  // of run 0
  // An event after a step, which all charts mark.
  struct Mark {
    enum class Kind { takeover, resume };
    Kind kind = Kind::takeover;
    std::int64_t step = 0;
    std::string text;
  };
  std::vector<Mark> marks;
  // Everything that another person needs to run it again.
  struct Rerun {
    std::string command;               // for a shell
    Facts facts;                       // data, folders, versions
    Facts options;                     // those that differ from their defaults
    std::vector<std::string> history;  // of starts, resumes and takeovers
    std::vector<std::string> notes;    // and warnings
  };
  std::optional<Rerun> rerun;
  std::optional<StepMetrics> newest;
  std::vector<std::string> device_names;  // for newest->memory_bytes; empty: numbers
  // The loads of experts in one step, drawn as a heat map: for each routed layer those of its experts, divided by their mean.
  struct ExpertLoads {
    std::int64_t step = 0;
    std::vector<std::int64_t> layers;
    std::vector<std::vector<double>> loads;  // by layer
  };
  std::optional<ExpertLoads> expert_loads;
  std::vector<schedules::Timeline> timelines;  // one step each, in seconds; titles say which
};

// Returns the data of the page alone, which stand between the texts of records/page_texts.hpp.
std::string report_data(const ReportPage& page);

// Writes a page of under 2 MB for any run: series are bounded, and actions that are too narrow to see are drawn as one.
void write_report(std::ostream& out, const ReportPage& page);

// Returns the text of a page that says its run is still going on, with the end that the run itself could not write.
// Nothing if `page` is not a page of this version, has another state, or was written before `since` (seconds since
// 1970), and so by another run.
std::optional<std::string> with_end(const std::string& page, std::int64_t since, RunState state, const std::string& text);

}  // namespace pipetrain
