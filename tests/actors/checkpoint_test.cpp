// Going on from a checkpoint: to the bit as if the run had never stopped, in the same layout and in another.
#include "actors/training/checkpoint.hpp"

#include <filesystem>
#include <fstream>

#include "catch.hpp"
#include "core/error.hpp"
#include "golden_run.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
namespace fs = std::filesystem;

namespace {

// The golden model in this layout; from the checkpoint, where one is given.
TrainJob job_from(const fs::path& checkpoint, const Layout& layout) {
  TrainJob job = golden_job("llama3_tiny", layout);
  if (checkpoint.empty()) return job;
  const Checkpoint opened = open_checkpoint(checkpoint, job.config);
  job.initial = opened.initial;
  job.steps_done = opened.state.step;
  job.first_loss = opened.state.first_loss;
  return job;
}

void expect_error(const std::function<void()>& action, const std::string& part) {
  try {
    action();
    FAIL("no error that says " << part);
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    CHECK(std::string(error.what()).find(part) != std::string::npos);
  }
}

}  // namespace

TEST_CASE("a run goes on from a checkpoint to the bit") {
  const TempFolder folder;
  const Layout layout{2, 2, 1, 2};
  const RunRecord whole = run(golden_job("llama3_tiny", layout), 6);
  {
    Trainer first(golden_job("llama3_tiny", layout));
    for (int step = 0; step < 4; ++step) first.step();
    first.save_checkpoint(folder.path());
  }
  REQUIRE(find_checkpoints(folder.path()) == std::vector<fs::path>{folder.path() / "step-00000004"});
  Layout recomputing = layout;
  recomputing.recompute = Recompute::full;
  for (const Layout& next :
       {layout, recomputing, Layout{4, 2, 1, 2, "gpipe"}, Layout{1, 2, 1, 2}, Layout{2, 2, 1, 2, "zb-h1"}}) {
    INFO(to_string(next));
    const RunRecord rest = run(job_from(checkpoint_path(folder.path(), 4), next), 2);
    CHECK(rest.loss == std::vector<double>(whole.loss.begin() + 4, whole.loss.end()));
    CHECK(rest.grad_norm == std::vector<double>(whole.grad_norm.begin() + 4, whole.grad_norm.end()));
    CHECK(rest.weights == whole.weights);
  }
}

TEST_CASE("what is no whole checkpoint of this model is refused, and does not count among those kept") {
  const TempFolder folder;
  Trainer trainer(golden_job("llama3_tiny", {}));
  trainer.step();
  trainer.save_checkpoint(folder.path());
  trainer.step();
  trainer.save_checkpoint(folder.path());
  fs::create_directories(folder.path() / "step-00000009.partial");  // a run was killed
  fs::create_directories(folder.path() / "step-00000010");          // no state in it
  fs::create_directories(folder.path() / "step-100000000");         // more digits, and later
  const auto found = find_checkpoints(folder.path());
  REQUIRE(found.size() == 4);
  CHECK(found[2] == folder.path() / "step-00000010");
  CHECK_FALSE(checkpoint_fault(found[1]));
  CHECK(checkpoint_fault(found[2])->find("is not a complete checkpoint: it has no state.json") != std::string::npos);

  ModelConfig other = golden_job("llama3_tiny", {}).config;
  const ModelConfig config = other;
  other.layers = 4;
  expect_error([&] { open_checkpoint(found[1], other); }, "of another model");
  expect_error([&] { open_checkpoint(found[2], config); }, "is not a complete checkpoint");
  remove_unfinished_checkpoints(folder.path());
  CHECK_FALSE(fs::exists(folder.path() / "step-00000009.partial"));
  remove_old_checkpoints(folder.path(), 2);  // two complete ones: nothing is too old
  CHECK(find_checkpoints(folder.path()) == found);
  fs::resize_file(found[1] / "exp_avg.safetensors", 5000);
  expect_error([&] { open_checkpoint(found[1], config); }, "exp_avg.safetensors");
  remove_old_checkpoints(folder.path(), 1);  // the only complete one stays
  CHECK(find_checkpoints(folder.path()) == found);
  std::ofstream(found.front() / "state.json") << "{\"format\": 1}";
  expect_error([&] { open_checkpoint(found.front(), config); }, "state.json");
}

TEST_CASE("a checkpoint that cannot be written leaves nothing") {
  const TempFolder folder;
  Trainer trainer(golden_job("llama3_tiny", {}));
  trainer.step();
  folder.write("file", "not a folder");
  expect_error([&] { trainer.save_checkpoint(folder.path() / "file"); }, "file");
  CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}
