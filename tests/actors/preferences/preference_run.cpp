#include "actors/preferences/preference_run.hpp"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>

#include "catch.hpp"
#include "paths.hpp"

namespace pipetrain::test {
namespace {

namespace fs = std::filesystem;

bool is_of(const std::string& name, const char* loss) { return name.starts_with(loss); }

}  // namespace

fs::path preference_folder() { return fs::path(test_data()) / "golden" / "llama3_tiny"; }

const nlohmann::json& preference_golden(const std::string& adapter) {
  static std::map<std::string, nlohmann::json> read;
  const auto [golden, is_new] = read.try_emplace(adapter);
  const fs::path folder = adapter.empty() ? preference_folder() : fs::path(test_data()) / "golden" / "adapters" / adapter;
  if (is_new) golden->second = nlohmann::json::parse(std::ifstream(folder / "preferences.json"));
  return golden->second;
}

void set_preferences(const nlohmann::json& golden, const std::string& name, const Layout& layout, TrainJob& job,
                     std::int64_t sequence) {
  PreferenceSettings& settings = job.preference;
  settings.loss = is_of(name, "orpo") ? TrainingLoss::orpo : is_of(name, "kto") ? TrainingLoss::kto : TrainingLoss::dpo;
  settings.beta = golden.at("runs").at(name).at("beta");
  settings.normalize = name == "dpo_per_token";
  job.config.preference = settings.formula();
  const PreferenceFormula& formula = *job.config.preference;
  DatasetOptions data;
  data.inputs = {{preference_folder() / (formula.has_pairs() ? "pairs.jsonl" : "completions.jsonl"), {}}};
  data.vocabulary = job.config.vocabulary;
  data.max_positions = job.config.max_positions;
  if (sequence > 0) data.sequence_length = sequence;
  data.preferences = PreferenceReading{formula.has_pairs() ? PreferenceForm::pairs : PreferenceForm::labelled,
                                       formula.loss == PreferenceLoss::orpo};
  job.dataset = open_dataset(data);
  const std::int64_t rows = golden.at("global_batch");
  job.batch = {layout.dp, rows / layout.dp / layout.microbatch, layout.microbatch * job.dataset->samples_per_row()};
}

PreferenceRecord run_preferences(TrainJob job, std::int64_t steps) {
  PreferenceRecord record;
  Trainer trainer(std::move(job));
  for (std::int64_t step = 0; step < steps; ++step) {
    const StepReport& report = record.steps.emplace_back(trainer.step());
    record.run.loss.push_back(report.loss);
    record.run.grad_norm.push_back(report.grad_norm);
  }
  return record;
}

bool is_near(double value, double expected, double tolerance) {
  return std::abs(value - expected) <= tolerance * std::max(std::abs(expected), 0.1);
}

void check_steps(const PreferenceRecord& record, const nlohmann::json& golden, const std::string& name) {
  const auto& steps = golden.at("runs").at(name).at("steps");
  REQUIRE(record.steps.size() == steps.size());
  for (std::size_t step = 0; step < steps.size(); ++step) {
    INFO(name << " step " << step + 1);
    const StepReport& report = record.steps[step];
    CHECK(is_near(report.loss, steps[step].at("loss"), 2e-5));
    CHECK(is_near(report.grad_norm, steps[step].at("grad_norm"), 1e-4));
    REQUIRE(report.preference);
    CHECK(is_near(report.preference->chosen_reward.value(), steps[step].at("reward_chosen"), 1e-4));
    CHECK(is_near(report.preference->rejected_reward.value(), steps[step].at("reward_rejected"), 1e-4));
    if (is_of(name, "kto")) {
      CHECK(is_near(report.preference->kl.value(), steps[step].at("kl"), 1e-4));
    } else {
      CHECK(report.preference->accuracy.value() == steps[step].at("reward_accuracy"));
    }
  }
}

}  // namespace pipetrain::test
