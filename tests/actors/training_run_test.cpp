// Runs as an embedding program makes them: from settings to their end.
#include "actors/training/run/training_run.hpp"

#include <filesystem>
#include <functional>

#include "actors/training/job/batch_sizes.hpp"
#include "actors/training/run/make_train_job.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;

namespace {

RunSettings small_run() {
  RunSettings settings;
  settings.model.layers = 1;
  settings.data.sequence_length = 8;
  settings.batch = {1, 1, 1};
  settings.length.steps = 3;
  return settings;
}

// Returns the setting that the error of `work` carries, and its value.
std::string wrong_setting(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    if (error.setting()) return error.setting()->name + "=" + error.setting()->value;
    return error.what();
  }
  return "no error";
}

std::string wrong_setting(const RunSettings& settings) {
  return wrong_setting([&] {
    std::vector<std::string> notes;
    const Trainer trainer(make_train_job(settings, notes));
  });
}

}  // namespace

TEST_CASE("a run made from settings steps to its end, saves on the way, and resumes from its checkpoint") {
  const TempFolder folder;
  RunSettings settings = small_run();
  settings.saving.folder = folder.path() / "run";
  settings.saving.interval = 2;
  std::vector<std::string> notes;
  {
    prepare_saving(settings.saving);
    Trainer trainer(make_train_job(settings, notes));
    TrainingRun run(settings, trainer);
    while (!run.finished()) {
      run.step();
      run.save_if_due();
    }
    run.save_last();
    run.save_model();
    CHECK(trainer.steps_done() == 3);
    CHECK(run.last_loss() == trainer.last_loss());
  }
  for (const char* saved : {"step-00000002", "step-00000003", "model/model.safetensors"})
    CHECK(std::filesystem::exists(*settings.saving.folder / saved));
  CHECK(wrong_setting(settings) == "save=" + settings.saving.folder->string());  // contains a finished run
  settings.saving.resume = true;
  settings.length.steps = 4;
  Trainer trainer(make_train_job(settings, notes));
  TrainingRun run(settings, trainer);
  CHECK(trainer.steps_done() == 3);
  CHECK_FALSE(run.finished());
  run.step();
  CHECK(run.finished());
  CHECK(notes.empty());
}

TEST_CASE("errors of a run carry the setting that is wrong") {
  RunSettings settings = small_run();
  settings.layout.tp = 3;
  CHECK(wrong_setting(settings) == "tp=3");
  settings = small_run();
  settings.model.layers = 5;
  CHECK(wrong_setting(settings) == "layers=5");
  settings.model = {.name = "tinny"};
  CHECK(wrong_setting(settings) == "model=tinny");
  settings = small_run();
  settings.data.inputs = {{"/nonexistent.txt", {}}};
  CHECK(wrong_setting(settings) == "data=/nonexistent.txt");
  settings = small_run();
  settings.data.sequence_length = 100'000;
  CHECK(wrong_setting(settings) == "seq-len=100000");
  settings = small_run();
  settings.devices.threads = 0;
  CHECK(wrong_setting(settings) == "threads=0");
  CHECK(wrong_setting([] { resolve_batch({.microbatch = 3, .microbatches = {}, .global_batch = 4}, 1, 1); }) ==
        "global-batch=4");
}
