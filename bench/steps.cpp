// Compares the simulator with the real stage actors under a virtual clock on random steps of schedules, whose microbatches
// take different times as the routing of experts makes them. Each step is of the next seed.
#include <fmt/format.h>

#include "bench/faults/seeded_bench.hpp"
#include "bench/result.hpp"
#include "bench/steps/random_steps.hpp"

using namespace pipetrain::bench;

int main(int argc, char** argv) {
  const auto options = read_seeded_options(argc, argv, "steps", 100'000);
  if (!options) return 2;
  int equal = 0;
  for (int run = 0; run < options->runs; ++run) {
    const std::string difference = difference_of(random_step(options->seed + static_cast<std::uint64_t>(run)));
    equal += difference.empty() ? 1 : 0;
    if (!difference.empty()) fmt::print(stderr, "{}\n", difference);
    if ((run + 1) % 10'000 == 0) fmt::print(stderr, "steps: {} of {}, {} equal\n", run + 1, options->runs, equal);
  }
  report("random steps", options->runs, "steps");
  return report("random steps that simulator and actors run alike", equal, "steps", Limit::at_least, options->runs) ? 0 : 1;
}
