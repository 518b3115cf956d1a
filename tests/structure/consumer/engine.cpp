#include <iostream>

#include "actors/engine/noop_compute.hpp"
#include "actors/engine/pipeline.hpp"
#include "schedules/builders/builders.hpp"

int main() {
  using namespace pipetrain;
  PipelineOptions options;
  options.plan = schedules::with_end_of_step(schedules::build_1f1b({.stages = 2, .chunks = 1, .microbatches = 4}), {});
  Pipeline pipeline(
      options, [](StageId, const schedules::StageNeeds&) { return make_noop_compute(); },
      [](int) { return make_empty_source(); });
  const auto outcome = pipeline.step({.step = 1, .microbatches = 4}, [](const auto&) { return Verdict{}; });
  std::cout << outcome.stages.size();
}
