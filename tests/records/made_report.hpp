// Report pages of made-up runs.
#pragma once

#include <cmath>
#include <cstdint>
#include <sstream>
#include <string>

#include "records/report_page.hpp"

namespace pipetrain::test {

inline StepSeries curve(std::int64_t steps) {
  StepSeries series;
  for (std::int64_t step = 1; step <= steps; ++step)
    series.add(step, 2 + 8 * std::exp(-static_cast<double>(step) / 500) + 0.01 * static_cast<double>(step * 7919 % 101));
  return series;
}

// Rows of forwards and backwards without a pause.
inline schedules::Timeline timeline(int rows, int microbatches) {
  schedules::Timeline drawn;
  drawn.title = "step 2";
  drawn.microbatches = microbatches;
  for (int row = 0; row < rows; ++row) {
    auto& spans = drawn.stages.emplace_back();
    for (int i = 0; i < 2 * microbatches; ++i)
      spans.push_back({{i % 2 == 0 ? schedules::ActionKind::forward : schedules::ActionKind::backward, 0, i / 2},
                       schedules::WaitedFor::nothing,
                       0.001234567 * i,
                       0.001234567 * (i + 1)});
  }
  return drawn;
}

struct Page {
  ReportPage page;
  StepSeries series;

  explicit Page(std::int64_t steps, int rows = 4, int microbatches = 8) : series(curve(steps)) {
    page.title = "a model, 1f1b";
    page.state = RunState::finished;
    for (const char* name : {"loss", "gradient norm", "learning rate", "tokens/s", "TFLOP/s", "MFU", "bubble", "loss scale"})
      page.charts.push_back({name, "", 1, {{0, &series}}});
    page.newest.emplace();
    page.newest->step = steps;
    page.newest->loss = 2.5;
    for (int row = 0; row < rows; ++row) {
      page.newest->memory_bytes.emplace_back(1'000'000'000 + row);
      page.newest->stage_bubble.emplace_back(0.25);
    }
    for (int i = 0; i < 4; ++i) page.timelines.push_back(timeline(rows, microbatches));
    page.settings = {{"model", "tiny"}};
    page.host = {{"host", "here"}};
  }
  std::string text() const {
    std::ostringstream out;
    write_report(out, page);
    return out.str();
  }
};

}  // namespace pipetrain::test
