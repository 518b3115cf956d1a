// Evaluation during training: the loss is the same in every layout, and the training is unaffected.
#include "actors/training/run/evaluation.hpp"

#include <cmath>

#include "catch.hpp"
#include "data/samples/split.hpp"
#include "schedules/builders/builders.hpp"
#include "thread_processes.hpp"
#include "tiny_run.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::Order;

namespace {

constexpr std::int64_t eval_samples = 21;  // no batch below divides it

std::shared_ptr<const Dataset> some_of(const TrainJob& job, std::int64_t samples) {
  return split_dataset(job.dataset, static_cast<double>(samples) / static_cast<double>(job.dataset->size()), 3).evaluation;
}

TrainJob evaluating_job(const TinyRun& tiny) {
  TrainJob job = job_of(tiny);
  job.evaluation = some_of(job, eval_samples);
  return job;
}

struct EvaluatedRun {
  std::vector<double> training, evaluations;
  bool operator==(const EvaluatedRun&) const = default;
};

EvaluatedRun evaluated(Trainer& trainer) {
  EvaluatedRun run;
  for (int step = 0; step < 3; ++step) {
    for (int again = 0; again <= step % 2; ++again) run.evaluations.push_back(trainer.evaluate()->loss);
    run.training.push_back(trainer.step().loss);
  }
  run.evaluations.push_back(trainer.evaluate()->loss);
  return run;
}

EvaluatedRun evaluated(const TinyRun& tiny) {
  INFO(to_string(tiny));
  Trainer trainer(evaluating_job(tiny));
  return evaluated(trainer);
}

}  // namespace

TEST_CASE("an evaluation's loss is the mean over its samples, each counted once") {
  const TinyRun tiny{.microbatches = 4, .layout = {.pp = 2, .dp = 2}};
  Trainer trainer(evaluating_job(tiny));
  const Evaluation evaluation = *trainer.evaluate();
  CHECK(evaluation.step == 0);
  CHECK(evaluation.samples == eval_samples);
  CHECK(evaluation.perplexity() == Approx(std::exp(evaluation.loss)));
  CHECK(trainer.evaluate()->loss == evaluation.loss);

  TrainJob job = job_of(tiny);  // trained on one after the other, at rate 0
  job.dataset = some_of(job, eval_samples);
  job.samples.shuffle = false;
  job.batch = {1, 1, 1};
  job.layout.pp = 1;
  job.learning_rate.peak = 0;
  Trainer one_by_one(std::move(job));
  double sum = 0;
  for (std::int64_t sample = 0; sample < eval_samples; ++sample) sum += one_by_one.step().loss;
  CHECK(evaluation.loss == Approx(sum / eval_samples).epsilon(1e-7));
}

TEST_CASE("every schedule and order evaluates to the same bits, and trains as if it had not") {
  for (const Family family : {Family::llama, Family::gpt2}) {
    const TinyRun plain{.family = family, .tied = true, .layers = 4, .microbatches = 4, .layout = {}};
    const EvaluatedRun expected = evaluated(plain);
    CHECK(expected.evaluations[1] == expected.evaluations[2]);
    CHECK(expected.evaluations[0] != expected.evaluations[1]);
    Trainer undisturbed(job_of(plain));
    for (const double loss : expected.training) CHECK(undisturbed.step().loss == loss);
    for (const auto& schedule : schedules::all_schedules()) {
      for (const auto order : {Order::planned, Order::ready}) {
        if (order == Order::ready && !schedule.has_ready_rule) continue;
        TinyRun tiny = plain;
        tiny.layout.pp = 2;
        tiny.layout.schedule = schedule.name;
        tiny.layout.chunks = schedule.default_chunks;
        tiny.layout.order = order;
        CHECK((evaluated(tiny) == expected));
      }
    }
  }
}

TEST_CASE("an evaluation's loss depends on neither replicas nor microbatches; tensor-parallel ranks come close") {
  const double expected = Trainer(evaluating_job({.layout = {}})).evaluate()->loss;
  for (const TinyRun& tiny :
       {TinyRun{.microbatches = 5, .layout = {.pp = 2, .dp = 3}}, TinyRun{.microbatches = 32, .layout = {.dp = 2}}}) {
    INFO(to_string(tiny));
    CHECK(Trainer(evaluating_job(tiny)).evaluate()->loss == expected);
  }
  const TinyRun ranks{.layout = {.tp = 2}};
  const EvaluatedRun one = evaluated(ranks);
  CHECK(one.evaluations[0] == Approx(expected).epsilon(1e-5));
  for (const bool sequence_parallel : {true, false}) {
    TinyRun tiny{.layout = {.pp = 2, .tp = 2}};
    tiny.layout.sequence_parallel = sequence_parallel;
    CHECK(evaluated(tiny).evaluations[0] == Approx(expected).epsilon(1e-5));
    if (sequence_parallel) CHECK((evaluated(tiny) == one));
  }
}

TEST_CASE("several processes evaluate to the bits of one", "[processes]") {
  for (const TinyRun& tiny : {TinyRun{.layout = {.pp = 2}}, TinyRun{.layout = {.pp = 2, .tp = 2, .dp = 2}}}) {
    const EvaluatedRun one = evaluated(tiny);
    EvaluatedRun several;
    const auto failures = lead(
        MemoryHub::make(tiny.layout.tp * 2), [&](int) { return evaluating_job(tiny); },
        [&](Trainer& trainer) { several = evaluated(trainer); });
    for (const std::string& failure : failures) CHECK(failure == "");
    INFO(to_string(tiny));
    CHECK((several == one));
  }
}

TEST_CASE("an evaluation drops nothing, whatever training drops") {
  TinyRun tiny{.family = Family::gpt2, .tied = true, .layout = {.pp = 2}};
  const double expected = Trainer(evaluating_job(tiny)).evaluate()->loss;
  tiny.dropout = 0.3;
  Trainer trainer(evaluating_job(tiny));
  CHECK(trainer.evaluate()->loss == expected);
  Trainer undisturbed(job_of(tiny));
  CHECK(trainer.step().loss == undisturbed.step().loss);
}

TEST_CASE("an evaluation ends when asked to, and training continues") {
  Trainer trainer(evaluating_job({.layout = {.pp = 2}}));
  int asked = 0;
  CHECK_FALSE(trainer.evaluate([&] { return ++asked == 3; }));
  CHECK(asked == 3);
  CHECK(trainer.step().step == 1);
  CHECK(trainer.evaluate()->step == 1);
}

TEST_CASE("replicas that divide their state evaluate to the same bits, and train as if they had not") {
  for (const Layout& layout : {Layout{.pp = 2, .dp = 2}, Layout{.pp = 1, .tp = 2, .dp = 2}, Layout{2, 1, 2, 1, "zb-v", 2}}) {
    TinyRun tiny{.tied = true, .layers = 4, .microbatches = 2, .layout = layout};
    const EvaluatedRun expected = evaluated(tiny);
    for (int stage = 1; stage <= most_zero_stages; ++stage) {
      INFO("zero " << stage);
      tiny.layout.zero = stage;
      CHECK(evaluated(tiny) == expected);
    }
  }
}
