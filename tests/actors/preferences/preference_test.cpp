// Losses of preferences, compared with trajectories in float64 (tests/golden/make_preferences.py).
#include <filesystem>

#include "actors/golden_run.hpp"
#include "actors/preferences/preference_run.hpp"
#include "actors/thread_processes.hpp"
#include "catch.hpp"
#include "model/weights/weights.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

namespace fs = std::filesystem;

// The weights of the model after its own trajectory.
std::shared_ptr<const WeightSource> trained_weights(const ModelConfig& config) {
  static const TempFolder folder;
  if (!fs::exists(folder.path() / "config.json")) {
    fs::copy_file(preference_folder() / "final.safetensors", folder.path() / "model.safetensors");
    fs::copy_file(preference_folder() / "config.json", folder.path() / "config.json");
  }
  return hf_weights(config, folder.path());
}

// layout.microbatch counts rows.
TrainJob preference_job(const std::string& name, const Layout& layout, std::int64_t sequence = 0) {
  TrainJob job = golden_job("llama3_tiny", layout);
  set_preferences(preference_golden(), name, layout, job, sequence);
  if (job.config.preference->has_reference()) job.initial.reference = trained_weights(job.config);
  return job;
}

void check_steps(const PreferenceRecord& record, const std::string& name) {
  pipetrain::test::check_steps(record, preference_golden(), name);
}

const std::vector<std::string> preference_runs = {"dpo", "dpo_per_token", "orpo", "kto"};

}  // namespace

TEST_CASE("losses of preferences follow their trajectories", "[golden]") {
  for (const std::string& name : preference_runs) check_steps(run_preferences(preference_job(name, {}), 4), name);
}

namespace {

void check_preference_bits(const std::vector<Layout>& layouts) {
  for (const std::string& name : preference_runs) {
    const RunRecord alone = run_preferences(preference_job(name, {}), 4).run;
    for (const Layout& layout : layouts) {
      INFO(name << " " << to_string(layout));
      CHECK(run_preferences(preference_job(name, layout), 4).run == alone);
    }
  }
}

void check_preference_trajectories(const std::vector<Layout>& layouts) {
  for (const std::string& name : preference_runs) {
    for (const Layout& layout : layouts) {
      INFO(name << " " << to_string(layout));
      const std::int64_t chunks = sequence_chunks(preference_job(name, layout));
      const bool shares = layout.cp > 1;  // then the chunks must divide the length
      check_steps(run_preferences(preference_job(name, layout, shares ? 120 / chunks * chunks : 0), 4), name);
    }
  }
}

}  // namespace

TEST_CASE("losses of preferences have the same bits on every number of stages, schedule and order", "[golden]") {
  check_preference_bits({{.pp = 3, .order = schedules::Order::ready, .recompute = Recompute::full}});
}

TEST_CASE("losses of preferences have the same bits in further schedules", "[golden][slow]") {
  check_preference_bits(
      {{.pp = 4}, {.pp = 2, .schedule = "zb-v", .chunks = 2}, {.pp = 2, .schedule = "interleaved", .chunks = 2}});
}

TEST_CASE("losses of preferences follow their trajectories whatever divides the batch, the model and the sequences",
          "[golden]") {
  check_preference_trajectories({{.pp = 2, .tp = 2, .dp = 2, .sequence_parallel = false}, {.pp = 2, .dp = 2, .zero = 3}});
}

TEST_CASE("losses of preferences follow their trajectories in further divisions", "[golden][slow]") {
  check_preference_trajectories({{.microbatch = 4},
                                 {.dp = 2, .microbatch = 2},
                                 {.tp = 2, .microbatch = 2},
                                 {.pp = 2, .dp = 2, .zero = 1},
                                 {.tp = 2, .loss_chunks = 3},
                                 {.pp = 2, .slices = 2},
                                 {.cp = 2},
                                 {.tp = 2, .cp = 2}});
}

TEST_CASE("losses of preferences follow their trajectories where ranks share sequences", "[golden]") {
  check_preference_trajectories({{.pp = 2, .slices = 2, .cp = 2}});
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
