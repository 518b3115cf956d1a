// Adapters trained on preferences, compared with trajectories in float64 (tests/golden/make_preferences.py). The reference is
// the base, or the base with the adapter before training.
#include <cmath>

#include "actors/golden_run.hpp"
#include "actors/preferences/preference_run.hpp"
#include "actors/quantised_base.hpp"
#include "actors/thread_processes.hpp"
#include "actors/training/job/batch_sizes.hpp"
#include "actors/training/run/job_memory.hpp"
#include "actors/training/run/make_train_job.hpp"
#include "actors/training/run/training_run.hpp"
#include "catch.hpp"
#include "paths.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

const std::vector<std::string> adapter_runs = {"dpo base", "dpo begun", "kto base", "kto begun"};

// name: one of the adapter's runs.
TrainJob adapter_preference_job(const std::string& adapter, const std::string& name, const Layout& layout,
                                std::int64_t sequence = 0) {
  TrainJob job = golden_adapter_job(adapter, layout);
  set_preferences(preference_golden(adapter), name, layout, job, sequence);
  job.preference.reference_model = name.ends_with("base") ? ReferenceModel::base : ReferenceModel::begun;
  job.initial.reference = job.initial.weights;
  return job;
}

void check_adapter(const std::string& adapter, const std::string& name, const Layout& layout, std::int64_t sequence = 0) {
  INFO(adapter << " " << name << " " << to_string(layout));
  check_steps(run_preferences(adapter_preference_job(adapter, name, layout, sequence), 4), preference_golden(adapter), name);
}

// The settings of a run of the model's folder that learns from the pairs.
RunSettings settings_of_run() {
  RunSettings settings;
  settings.model.name = preference_folder();
  settings.model.load_weights = true;
  settings.data.inputs = {{preference_folder() / "pairs.jsonl", {}}};
  settings.batch = {1, 4, 2};
  settings.length.steps = 4;
  settings.learning_rate = {.kind = LearningRate::Kind::constant, .peak = 1e-2};
  settings.preference.loss = TrainingLoss::dpo;
  return settings;
}

std::vector<double> losses_of(const RunSettings& settings, std::vector<std::string>& notes) {
  Trainer trainer(make_train_job(settings, notes));
  TrainingRun run(settings, trainer);
  std::vector<double> losses;
  while (!run.finished()) {
    losses.push_back(run.step().loss);
    run.save_if_due();
  }
  return losses;
}

std::vector<double> losses_of(const RunSettings& settings) {
  std::vector<std::string> notes;
  return losses_of(settings, notes);
}

MemoryUse memory_of_run(const RunSettings& settings) {
  std::vector<std::string> notes;
  return estimate_job(make_train_job(settings, notes)).devices.front().use;
}

}  // namespace

TEST_CASE("adapters on preferences follow their trajectories", "[golden][adapters]") {
  for (const std::string adapter : {"llama3", "llama3_dora"})
    for (const std::string& name : adapter_runs) check_adapter(adapter, name, {});
}

TEST_CASE("adapters on preferences have the same bits on every number of stages and schedule", "[golden][adapters]") {
  for (const std::string& name : adapter_runs) {
    const RunRecord alone = run_preferences(adapter_preference_job("llama3", name, {}), 4).run;
    for (const Layout& layout : {Layout{.pp = 4}, Layout{.pp = 2, .schedule = "zb-v", .chunks = 2},
                                 Layout{.pp = 3, .order = schedules::Order::ready, .recompute = Recompute::full}}) {
      INFO(name << " " << to_string(layout));
      CHECK(run_preferences(adapter_preference_job("llama3", name, layout), 4).run == alone);
    }
  }
}

TEST_CASE("adapters on preferences follow their trajectories whatever divides the batch, the model and the sequences",
          "[golden][adapters]") {
  for (const std::string& name : adapter_runs) check_adapter("llama3", name, {.pp = 2, .dp = 2, .zero = 3});
  for (const Layout& layout : {Layout{.tp = 2, .loss_chunks = 3}, Layout{.pp = 2, .slices = 2}})
    check_adapter("llama3", adapter_runs[0], layout);
  check_adapter("llama3", adapter_runs[1], {.tp = 2, .cp = 2}, 120);
  check_adapter("llama3_dora", "dpo base", {.pp = 2, .tp = 2, .dp = 2});
}

TEST_CASE("adapters on preferences follow their trajectories in further divisions", "[golden][adapters][slow]") {
  const std::vector<Layout> layouts{{.dp = 2, .microbatch = 2},    {.tp = 2, .microbatch = 2},
                                    {.pp = 2, .dp = 2, .zero = 1}, {.tp = 2, .loss_chunks = 3},
                                    {.pp = 2, .slices = 2},        {.offload = true, .parameters = true}};
  for (const std::string& name : adapter_runs) {
    for (const Layout& layout : layouts) check_adapter("llama3", name, layout);
    check_adapter("llama3", name, {.tp = 2, .cp = 2}, 120);
  }
}

TEST_CASE("adapters on preferences have the bits of one process over several", "[processes][adapters]") {
  for (const std::string& name : adapter_runs) {
    const auto job = [&] { return adapter_preference_job("llama3", name, {.pp = 2, .dp = 2}); };
    INFO(name);
    CHECK((run_over(2, job) == run(job(), 2)));
  }
}

TEST_CASE("a reference that adapters begin from and that is computed before training gives the same losses", "[adapters]") {
  for (const std::string name : {"dpo base", "dpo begun"}) {
    TrainJob job = adapter_preference_job("llama3", name, {.pp = 2});
    job.preference.precompute_reference = true;
    check_steps(run_preferences(job, 4), preference_golden("llama3"), name);
  }
}

TEST_CASE("a quantised base is the reference of its adapter with the bits of its dequantised weights",
          "[adapters][quantisation]") {
  const auto losses = [](bool quantised) {
    TrainJob job = adapter_preference_job("llama3", "dpo base", {.pp = 2, .dp = 2});
    job.config.base_form = quantised ? WeightForm::fp8 : WeightForm::plain;
    if (!quantised)
      job.initial.weights = job.initial.reference = std::make_shared<DequantisedWeights>(job.initial.weights, WeightForm::fp8);
    return run_preferences(job, 3).run;
  };
  CHECK(losses(true) == losses(false));
}

TEST_CASE("without a reference in the settings preferences are compared with the model as its training began", "[adapters]") {
  RunSettings settings = settings_of_run();
  const std::vector<double> alone = losses_of(settings);
  CHECK(alone.front() == Approx(std::log(2)).epsilon(1e-6));  // the model is its own reference
  CHECK(alone.back() < alone.front());
  settings.preference.reference = preference_folder();
  CHECK(losses_of(settings) == alone);

  settings.model.adapter.rank = 2;
  const std::vector<double> stored = losses_of(settings);
  settings.preference.reference = "";
  CHECK(losses_of(settings) == stored);
  CHECK(stored.front() == Approx(std::log(2)).epsilon(1e-6));
  CHECK(stored != alone);

  settings.model.adapter = {.folder = preference_folder().parent_path() / "adapters" / "llama3" / "adapter"};
  CHECK(losses_of(settings).front() == Approx(std::log(2)).epsilon(1e-6));  // with the adapter of the folder
}

TEST_CASE("a resumed run compares preferences with the model as its first run began", "[adapters]") {
  for (const bool adapts : {false, true}) {
    const TempFolder folder;
    RunSettings settings = settings_of_run();
    if (adapts) settings.model.adapter = {.folder = preference_folder().parent_path() / "adapters" / "llama3" / "adapter"};
    const std::vector<double> whole = losses_of(settings);
    settings.saving.folder = folder.path() / "run";
    settings.saving.interval = 2;
    settings.length.steps = 3;
    losses_of(settings);
    settings.saving.resume = true;
    settings.length.steps = 4;
    INFO("with an adapter: " << adapts);
    CHECK((losses_of(settings) == std::vector<double>{whole[2], whole[3]}));
  }
}

TEST_CASE("a run that resumes on a base in another form says so", "[adapters][quantisation]") {
  const TempFolder folder;
  RunSettings settings = settings_of_run();
  settings.model.adapter.rank = 2;
  settings.model.base_precision = BasePrecision::fp8;
  settings.saving.folder = folder.path() / "run";
  settings.saving.interval = 2;
  settings.length.steps = 3;
  losses_of(settings);
  settings.saving.resume = true;
  std::vector<std::string> notes;
  losses_of(settings, notes);
  CHECK(notes.empty());
  settings.model.base_precision = {};
  losses_of(settings, notes);
  REQUIRE(notes.size() == 1);
  CHECK_THAT(notes.front(), Catch::Matchers::Contains(
                                "was trained on a base kept in fp8, and this run keeps the base in the type of products"));
}

TEST_CASE("the reference of a new adapter shares the weights of the base", "[adapters]") {
  RunSettings settings = settings_of_run();
  settings.model.adapter.rank = 2;
  const std::size_t shared = memory_of_run(settings).parameters;
  settings.preference.reference = preference_folder();
  const std::size_t stored = memory_of_run(settings).parameters;
  settings.preference.loss = TrainingLoss::orpo;
  settings.preference.reference = "";
  const std::size_t none = memory_of_run(settings).parameters;
  CHECK(shared - none < (stored - none) / 10);
}
