// A layout begins from the states that the one before it has kept in memory.
#include "actors/training/checkpoint/kept_states.hpp"

#include <algorithm>
#include <cmath>
#include <vector>

#include "actors/golden_run.hpp"
#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "catch.hpp"
#include "core/device.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

// Returns the golden model in this layout, which goes on from what is held, if anything is.
TrainJob job_of(const Layout& layout, const std::shared_ptr<KeptStates>& kept) {
  TrainJob job = golden_job("llama3_tiny", layout);
  job.saves = true;
  job.kept = kept;
  const auto held = kept ? kept->held() : nullptr;
  if (!held) return job;
  job.initial = open_kept(*held, job.config, nullptr);
  job.steps_done = held->contents.state.step;
  job.first_loss = held->contents.state.first_loss;
  job.last_loss = held->contents.state.last_loss;
  return job;
}

std::vector<double> losses(Trainer& trainer, int steps) {
  std::vector<double> losses;
  for (int step = 0; step < steps; ++step) losses.push_back(trainer.step().loss);
  return losses;
}

}  // namespace

TEST_CASE("a run that goes through layouts in memory has the losses of one that keeps its layout") {
  Trainer whole(job_of({2, 1, 1, 1}, nullptr));
  const std::vector<double> expected = losses(whole, 10);
  const auto kept = std::make_shared<KeptStates>();
  std::vector<double> found;
  Layout divided{1, 1, 2, 1};
  divided.zero = 1;
  for (const Layout& layout :
       {Layout{2, 1, 1, 1}, Layout{4, 1, 1, 1}, divided, Layout{2, 2, 1, 1, "zb-v", 2}, Layout{1, 1, 1, 1}}) {
    INFO(to_string(layout));
    Trainer trainer(job_of(layout, kept));
    CHECK((kept->held() != nullptr) == !found.empty());
    const auto more = losses(trainer, 2);
    found.insert(found.end(), more.begin(), more.end());
    CHECK(kept->held() == nullptr);  // a step has been done, so a checkpoint may take the memory
    REQUIRE(trainer.keeps_states());
    trainer.keep_states();
  }
  REQUIRE(found.size() == expected.size());
  for (std::size_t step = 0; step < found.size(); ++step) {
    INFO(step);
    CHECK(std::abs(found[step] - expected[step]) < 1e-5);
    if (step < 4) CHECK(found[step] == expected[step]);  // the layouts so far add in the same order
  }
}

TEST_CASE("states that are held can begin several layouts, and become a checkpoint") {
  const TempFolder folder;
  const auto kept = std::make_shared<KeptStates>();
  std::vector<double> expected;
  {
    Trainer trainer(job_of({2, 1, 1, 1}, kept));
    losses(trainer, 2);
    trainer.start_checkpoint(folder.path() / "saved").get();
    trainer.keep_states();
  }
  write_kept(*kept->held(), folder.path() / "kept");
  const auto manifest = [&](const char* name) { return verify_checkpoint(checkpoint_path(folder.path() / name, 2)); };
  const CheckpointManifest saved = manifest("saved"), written = manifest("kept");
  CHECK(written.state.data == saved.state.data);
  REQUIRE(written.checksums->tensors.size() == 2);
  for (const auto& [file, sums] : saved.checksums->tensors) {
    CHECK(written.checksums->tensors.at(file).header == sums.header);
    CHECK((written.checksums->tensors.at(file).tensors == sums.tensors));
  }
  { const Trainer lost(job_of({4, 1, 1, 1}, kept)); }  // a layout that ends before its first step
  REQUIRE(kept->held());
  Trainer whole(job_of({2, 1, 1, 1}, nullptr)), again(job_of({2, 1, 1, 1}, kept));
  const std::vector<double> all = losses(whole, 4), last = losses(again, 2);
  CHECK((last == std::vector<double>{all[2], all[3]}));
}

TEST_CASE("the layouts of a run use the same memory for their snapshots") {
  const auto device = make_cpu_device(0, 1);
  const auto memory = std::make_shared<SnapshotMemory>();
  const auto room = [](const SnapshotMemory::Places& places) {
    std::vector<float*> sorted = places.at;
    std::sort(sorted.begin(), sorted.end());
    return sorted;
  };
  auto first = memory->allocate(*device, {1000, 3000}, "first"), second = memory->allocate(*device, {2000}, "second");
  CHECK(second.at[0] != first.at[0]);
  const std::vector<float*> before = room(first);
  first = {};
  const auto third = memory->allocate(*device, {3000, 1000}, "third");
  CHECK(room(third).front() == before.front());
  const auto fourth = memory->allocate(*device, {10}, "fourth");  // nothing was free
  CHECK(std::find(third.at.begin(), third.at.end(), fourth.at[0]) == third.at.end());
  CHECK(fourth.at[0] != second.at[0]);
}
