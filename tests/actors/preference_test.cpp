// Losses of preferences, compared with trajectories in float64 (tests/golden/make_preferences.py).
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "golden_run.hpp"
#include "model/weights/weights.hpp"
#include "paths.hpp"
#include "temp_folder.hpp"
#include "thread_processes.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

namespace fs = std::filesystem;

fs::path preference_folder() { return fs::path(test_data()) / "golden" / "llama3_tiny"; }

const nlohmann::json& preference_golden() {
  static const nlohmann::json golden = nlohmann::json::parse(std::ifstream(preference_folder() / "preferences.json"));
  return golden;
}

// The weights of the model after its own trajectory.
std::shared_ptr<const WeightSource> trained_weights(const ModelConfig& config) {
  static const TempFolder folder;
  if (!fs::exists(folder.path() / "config.json")) {
    fs::copy_file(preference_folder() / "final.safetensors", folder.path() / "model.safetensors");
    fs::copy_file(preference_folder() / "config.json", folder.path() / "config.json");
  }
  return hf_weights(config, folder.path());
}

PreferenceSettings settings_of(const std::string& name) {
  PreferenceSettings settings;
  settings.loss = name == "orpo" ? TrainingLoss::orpo : name == "kto" ? TrainingLoss::kto : TrainingLoss::dpo;
  settings.beta = preference_golden().at("runs").at(name).at("beta");
  settings.normalize = name == "dpo_per_token";
  return settings;
}

std::shared_ptr<const Dataset> preference_data(const ModelConfig& config) {
  const PreferenceFormula& formula = *config.preference;
  DatasetOptions data;
  data.inputs = {{preference_folder() / (formula.has_pairs() ? "pairs.jsonl" : "completions.jsonl"), {}}};
  data.vocabulary = config.vocabulary;
  data.max_positions = config.max_positions;
  data.preferences = PreferenceReading{formula.has_pairs() ? PreferenceForm::pairs : PreferenceForm::labelled,
                                       formula.loss == PreferenceLoss::orpo};
  return open_dataset(data);
}

// layout.microbatch counts rows.
TrainJob preference_job(const std::string& name, const Layout& layout) {
  TrainJob job = golden_job("llama3_tiny", layout);
  job.preference = settings_of(name);
  job.config.preference = job.preference.formula();
  job.dataset = preference_data(job.config);
  const std::int64_t rows = preference_golden().at("global_batch");
  job.batch = {layout.dp, rows / layout.dp / layout.microbatch, layout.microbatch * job.dataset->samples_per_row()};
  if (job.config.preference->has_reference()) job.initial.reference = trained_weights(job.config);
  return job;
}

struct PreferenceRecord {
  std::vector<StepReport> steps;
  RunRecord run;
};

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

void check_steps(const PreferenceRecord& record, const std::string& name) {
  const auto& steps = preference_golden().at("runs").at(name).at("steps");
  REQUIRE(record.steps.size() == steps.size());
  for (std::size_t step = 0; step < steps.size(); ++step) {
    INFO(name << " step " << step + 1);
    const StepReport& report = record.steps[step];
    CHECK(is_near(report.loss, steps[step].at("loss"), 2e-5));
    CHECK(is_near(report.grad_norm, steps[step].at("grad_norm"), 1e-4));
    REQUIRE(report.preference);
    CHECK(is_near(report.preference->chosen_reward.value(), steps[step].at("reward_chosen"), 1e-4));
    CHECK(is_near(report.preference->rejected_reward.value(), steps[step].at("reward_rejected"), 1e-4));
    if (name == "kto") {
      CHECK(is_near(report.preference->kl.value(), steps[step].at("kl"), 1e-4));
    } else {
      CHECK(report.preference->accuracy.value() == steps[step].at("reward_accuracy"));
    }
  }
}

const std::vector<std::string> preference_runs = {"dpo", "dpo_per_token", "orpo", "kto"};

}  // namespace

TEST_CASE("losses of preferences follow their trajectories", "[golden]") {
  for (const std::string& name : preference_runs) check_steps(run_preferences(preference_job(name, {}), 4), name);
}

TEST_CASE("losses of preferences have the same bits on every number of stages, schedule and order", "[golden]") {
  for (const std::string& name : preference_runs) {
    const RunRecord alone = run_preferences(preference_job(name, {}), 4).run;
    for (const Layout& layout : {Layout{.pp = 4}, Layout{.pp = 2, .schedule = "zb-v", .chunks = 2},
                                 Layout{.pp = 2, .schedule = "interleaved", .chunks = 2},
                                 Layout{.pp = 3, .order = schedules::Order::ready, .recompute = Recompute::full}}) {
      INFO(name << " " << to_string(layout));
      CHECK(run_preferences(preference_job(name, layout), 4).run == alone);
    }
  }
}

TEST_CASE("losses of preferences follow their trajectories whatever divides the batch, the model and the sequences",
          "[golden]") {
  for (const std::string& name : preference_runs) {
    for (const Layout& layout :
         {Layout{.microbatch = 4}, Layout{.dp = 2, .microbatch = 2}, Layout{.tp = 2, .microbatch = 2},
          Layout{.pp = 2, .tp = 2, .dp = 2, .sequence_parallel = false}, Layout{.pp = 2, .dp = 2, .zero = 1},
          Layout{.pp = 2, .dp = 2, .zero = 3}, Layout{.tp = 2, .loss_chunks = 3}, Layout{.pp = 2, .slices = 2}}) {
      INFO(name << " " << to_string(layout));
      check_steps(run_preferences(preference_job(name, layout), 4), name);
    }
  }
}

TEST_CASE("losses of preferences follow their trajectories where ranks share sequences", "[golden]") {
  for (const std::string& name : preference_runs) {
    for (const Layout& layout : {Layout{.cp = 2}, Layout{.pp = 2, .slices = 2, .cp = 2}, Layout{.tp = 2, .cp = 2}}) {
      INFO(name << " " << to_string(layout));
      TrainJob job = preference_job(name, layout);
      const std::int64_t chunks = sequence_chunks(job);
      job.dataset = [&] {  // a length that the chunks divide
        DatasetOptions data;
        data.inputs = {{preference_folder() / (name == "kto" ? "completions.jsonl" : "pairs.jsonl"), {}}};
        data.vocabulary = job.config.vocabulary;
        data.max_positions = job.config.max_positions;
        data.sequence_length = 120 / chunks * chunks;
        data.preferences = PreferenceReading{name == "kto" ? PreferenceForm::labelled : PreferenceForm::pairs, name == "orpo"};
        return std::shared_ptr<const Dataset>(open_dataset(data));
      }();
      check_steps(run_preferences(job, 4), name);
    }
  }
}

TEST_CASE("losses of preferences have the bits of one process over several", "[processes]") {
  for (const std::string name : {"dpo", "kto"}) {
    for (const Layout& layout : {Layout{.pp = 2}, Layout{.pp = 2, .tp = 2, .dp = 2}}) {
      INFO(name << " " << to_string(layout));
      const auto job = [&] { return preference_job(name, layout); };
      CHECK((run_over(2, job) == run(job(), 2)));
    }
  }
}

TEST_CASE("a reference that is computed before training gives the same losses") {
  TrainJob job = preference_job("dpo", {.pp = 2});
  job.preference.precompute_reference = true;
  check_steps(run_preferences(job, 4), "dpo");
}

TEST_CASE("an evaluation of preferences has the loss of a step on the same rows") {
  for (const std::string& name : preference_runs) {
    INFO(name);
    TrainJob job = preference_job(name, {.pp = 2});
    job.batch.microbatches = job.dataset->size() / job.batch.microbatch;  // one step has all rows
    job.evaluation = job.dataset;
    Trainer trainer(job);
    const auto evaluation = trainer.evaluate();
    const StepReport step = trainer.step();
    REQUIRE(evaluation);
    REQUIRE(evaluation->preference);
    CHECK(is_near(evaluation->loss, step.loss, 1e-9));
    CHECK(evaluation->preference->margin == step.preference->margin);
    CHECK(evaluation->preference->accuracy == step.preference->accuracy);
    CHECK(evaluation->samples == 32);
    CHECK_FALSE(evaluation->perplexity());
  }
}
