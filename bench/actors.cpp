// Measures the cost of an action when the compute only enqueues: 8 stages, 64 microbatches, wall time of a step over
// all its actions.
#include <algorithm>
#include <chrono>
#include <vector>

#include "actors/engine/noop_compute.hpp"
#include "actors/engine/pipeline.hpp"
#include "bench/result.hpp"
#include "schedules/builders/builders.hpp"

using namespace pipetrain;

namespace {

double microseconds_per_action(const char* schedule, schedules::Order order) {
  PipelineOptions options;
  options.plan = with_end_of_step(schedules::build_schedule(schedule, {8, 1, 64}), {});
  options.order = order;
  std::size_t actions = 0;
  for (const auto& stage : options.plan.stages) actions += stage.size();
  Pipeline pipeline(
      options, [](StageId, const schedules::StageNeeds&) { return make_noop_compute(); },
      [](int) { return make_empty_source(); });
  std::vector<double> times;
  for (int step = 1; step <= 60; ++step) {
    const auto start = std::chrono::steady_clock::now();
    pipeline.step({step, 64, 1, 0}, [](const auto&) { return Verdict{}; });
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (step > 10) times.push_back(seconds * 1e6 / static_cast<double>(actions));
  }
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  return times[times.size() / 2];
}

}  // namespace

int main() {
  constexpr double limit = 5;
  bool all = true;
  for (const char* schedule : {"1f1b", "gpipe"}) {
    for (const auto order : {schedules::Order::planned, schedules::Order::ready}) {
      const std::string name = std::string("actors ") + schedule + (order == schedules::Order::ready ? " ready" : " planned");
      all &= bench::report(name, microseconds_per_action(schedule, order), "us/action", bench::Limit::at_most, limit);
    }
  }
  return all ? 0 : 1;
}
