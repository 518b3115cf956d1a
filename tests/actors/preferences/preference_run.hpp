// Runs of llama3_tiny with losses of preferences, and their trajectories in float64 (tests/golden/make_preferences.py).
#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "actors/golden_run.hpp"

namespace pipetrain::test {

// The folder of llama3_tiny.
std::filesystem::path preference_folder();
// The preferences.json of llama3_tiny, or of one of its adapters.
const nlohmann::json& preference_golden(const std::string& adapter = "");

// Sets the loss and the data of a run of the trajectories: "dpo", "dpo_per_token", "orpo", "kto", or of an adapter "dpo base"
// and the like. layout.microbatch counts rows. sequence: of the samples; 0: as long as the longest row.
void set_preferences(const nlohmann::json& golden, const std::string& name, const Layout& layout, TrainJob& job,
                     std::int64_t sequence = 0);

struct PreferenceRecord {
  std::vector<StepReport> steps;
  RunRecord run;
};
PreferenceRecord run_preferences(TrainJob job, std::int64_t steps);

bool is_near(double value, double expected, double tolerance);
// Checks losses within 2e-5, and norms and rewards within 1e-4.
void check_steps(const PreferenceRecord& record, const nlohmann::json& golden, const std::string& name);

}  // namespace pipetrain::test
