// The first steps of an elastic run's further memberships, as its metrics show them while it runs.
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>

#include "bench/faults/program_run.hpp"

namespace pipetrain::bench {

struct BegunStep {
  std::int64_t membership = 0;
  double seconds = 0;  // from `since` until it began
};

// Waits for the first step that a membership after this one reports; no value where the run ends without one, or two minutes
// pass.
std::optional<BegunStep> wait_for_step_after(std::int64_t membership, const std::filesystem::path& metrics, ProgramRun& run,
                                             std::chrono::steady_clock::time_point since);

}  // namespace pipetrain::bench
