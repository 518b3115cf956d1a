// Steps without a counted label are skipped, and the run continues as if they did not exist.
#include <cmath>

#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "catch.hpp"
#include "golden_run.hpp"
#include "temp_folder.hpp"
#include "thread_processes.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

class ListedSamples : public Dataset {
 public:
  explicit ListedSamples(std::vector<Sample> samples)
      : Dataset(std::ssize(samples.front().ids)), samples_(std::move(samples)) {}

  std::int64_t size() const override { return std::ssize(samples_); }
  using Dataset::read;
  void read(std::int64_t index, Sample& sample) const override { sample = at(index); }
  SampleSize measure(std::int64_t index) const override {
    const Sample& sample = at(index);
    return {std::ssize(sample.ids),
            std::count_if(sample.labels.begin(), sample.labels.end(), [](std::int32_t label) { return label >= 0; })};
  }
  std::uint64_t content() const override { return samples_.size(); }

 private:
  const Sample& at(std::int64_t index) const { return samples_[static_cast<std::size_t>(index % size())]; }

  std::vector<Sample> samples_;
};

// Gives the golden run's batches in order, each with its labels ('x') or without ('-').
TrainJob job_with_labels(const std::string& batches, const Layout& layout) {
  TrainJob job = golden_job("llama3_tiny", layout);
  std::vector<Sample> samples;
  std::int64_t labelled = 0;
  for (const char batch : batches) {
    for (std::int64_t i = 0; i < job.batch.global_batch(); ++i) {
      Sample& sample = samples.emplace_back();
      job.dataset->read(labelled + i, sample);
      if (batch == '-') sample.labels.assign(sample.labels.size(), not_counted);
    }
    labelled += batch == 'x' ? job.batch.global_batch() : 0;
  }
  job.dataset = std::make_shared<ListedSamples>(std::move(samples));
  job.optimizer.weight_decay = 0.1;
  return job;
}

// Removes the steps without labels, after checking that their loss and tokens are empty.
RunRecord labelled_part(const std::string& batches, RunRecord record) {
  RunRecord part;
  REQUIRE(record.loss.size() == batches.size());
  for (std::size_t step = 0; step < batches.size(); ++step) {
    if (batches[step] == '-') {
      CHECK(std::isnan(record.loss[step]));
      CHECK(record.tokens[step] == 0);
      CHECK(record.grad_norm[step] == 0);
      continue;
    }
    part.loss.push_back(record.loss[step]);
    part.grad_norm.push_back(record.grad_norm[step]);
    part.tokens.push_back(record.tokens[step]);
  }
  part.weights = std::move(record.weights);
  return part;
}

RunRecord run_labelled(const std::string& batches, const Layout& layout) {
  return labelled_part(batches, run(job_with_labels(batches, layout), std::ssize(batches)));
}

}  // namespace

TEST_CASE("a step without a label changes nothing of what the steps around it compute, in every layout") {
  for (const Layout& layout :
       {Layout{}, Layout{4, 1}, Layout{2, 2, 2, 2}, Layout{2, 1, 2, 1, "zb-v", 2}, Layout{.dp = 2, .microbatch = 2, .zero = 1},
        Layout{.pp = 2, .dp = 2, .zero = 3}, Layout{.slices = 2}, Layout{.cp = 2}, Layout{.offload = true},
        Layout{.pp = 2, .offload = true, .parameters = true, .gradients = true},
        Layout{.pp = 2, .schedule = "gpipe", .activations = 0.5},
        Layout{2, 1, 1, 2, "interleaved", 2, schedules::Order::ready}}) {
    INFO(to_string(layout));
    const RunRecord expected = run_labelled("xxx", layout);
    CHECK((run_labelled("xx-x", layout) == expected));
    CHECK((run_labelled("-xx-x", layout) == expected));
  }
}

TEST_CASE("a step without a label leaves a dynamic loss scale as it was, and takes back what began early") {
  const auto steps_of = [](const std::string& batches, bool scaled) {
    TrainJob job = job_with_labels(batches, {.pp = 2});
    job.post_validation = !scaled;
    if (scaled) job.loss_scale = {.dynamic = true, .initial = 1024, .window = 2};
    Trainer trainer(job);
    std::vector<std::pair<double, double>> steps;
    for (std::size_t step = 0; step < batches.size(); ++step) {
      const StepReport report = trainer.step(step + 1 < batches.size());
      CHECK(report.has_loss() == (batches[step] == 'x'));
      CHECK(report.skipped == !report.has_loss());
      if (report.has_loss()) steps.emplace_back(report.loss, report.loss_scale.value_or(0));
    }
    return steps;
  };
  for (const bool scaled : {false, true}) CHECK(steps_of("x-xx-xx", scaled) == steps_of("xxxxx", scaled));
}

TEST_CASE("over processes a step without a label is skipped as in one") {
  const auto hub = MemoryHub::make(2);
  RunRecord record;
  const std::vector<std::string> failures = lead(
      hub, [](int) { return job_with_labels("x-x", {.pp = 2}); },
      [&](Trainer& trainer) {
        for (int step = 0; step < 3; ++step) {
          const StepReport report = trainer.step();
          record.loss.push_back(report.loss);
          CHECK(report.skipped == (step == 1));
        }
      });
  CHECK(failures == std::vector<std::string>(2));
  const RunRecord expected = run(job_with_labels("xx", {.pp = 2}), 2);
  CHECK(record.loss[0] == expected.loss[0]);
  CHECK(record.loss[2] == expected.loss[1]);
}

TEST_CASE("a run continues after steps without a label, with the first loss that there was") {
  const TempFolder folder;
  const std::string batches = "--x-x";
  Trainer trainer(job_with_labels(batches, {}));
  std::vector<double> losses;
  for (std::size_t step = 1; step <= batches.size(); ++step) {
    const StepReport report = trainer.step();
    if (report.has_loss()) losses.push_back(report.loss);
    trainer.start_checkpoint(folder.path()).get();
    CHECK(trainer.last_loss().has_value() == !losses.empty());
  }
  REQUIRE(losses.size() == 2);
  CHECK(trainer.first_loss() == losses[0]);
  for (const std::int64_t step : {2, 4}) {
    TrainJob job = job_with_labels(batches, {});
    const CheckpointManifest manifest = verify_checkpoint(checkpoint_path(folder.path(), step));
    job.initial = open_checkpoint(checkpoint_path(folder.path(), step), manifest, job.config);
    job.steps_done = manifest.state.step;
    job.first_loss = manifest.state.first_loss;
    job.last_loss = manifest.state.last_loss;
    Trainer rest(job);
    while (rest.steps_done() < std::ssize(batches)) rest.step();
    CHECK(rest.first_loss() == losses[0]);
    CHECK(rest.last_loss() == losses[1]);
    CHECK(verify_checkpoint(checkpoint_path(folder.path(), 5)).state.applied_steps == 2);
  }
}
