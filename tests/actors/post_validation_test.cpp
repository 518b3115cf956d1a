// Steps that begin before the verdict on the previous step give the bits of steps that wait for it.
#include <algorithm>

#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/job/combinations.hpp"
#include "actors/training/run/step_bubbles.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "early_steps.hpp"
#include "golden_run.hpp"
#include "schedules/builders/builders.hpp"
#include "temp_folder.hpp"
#include "tiny_run.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::ActionKind;

TEST_CASE("post-validation gives the bits of steps that wait, whether every, no or some step is clipped", "[post-validation]") {
  constexpr int count = 6;
  int previewed = 0, redone = 0, kept = 0;
  for (const int stages : {1, 2, 4}) {
    for (const auto& schedule : schedules::all_schedules()) {
      if (stages == 1 && schedule.name != "1f1b" && schedule.name != "zb-v") continue;
      TinyRun tiny{
          .layers = 4, .microbatches = 6, .layout = {stages, 1, 1, 1, std::string(schedule.name), schedule.default_chunks}};
      TrainJob job = job_of(tiny);
      const double some = some_clip(job, count);
      for (const double clip : {0.0, 1e-3, some}) {
        job.clip_norm = clip;
        INFO(to_string(tiny) << ", clip " << clip);
        const Steps waiting = steps_of(job, false, count), early = steps_of(job, true, count);
        CHECK(early.same_bits(waiting));
        CHECK(waiting.previewed == 0);
        CHECK(waiting.redone == 0);
        CHECK(early.redone <= early.previewed);
        CHECK((clip != 0.0 || early.redone == 0));
        CHECK((clip != 1e-3 || early.redone == early.previewed));
        previewed += early.previewed;
        redone += early.redone;
        kept += early.previewed - early.redone;
      }
    }
  }
  INFO(previewed << " steps previewed, " << redone << " redone");
  CHECK(redone > 10);
  CHECK(kept > 10);
}

TEST_CASE("post-validation keeps the bits over replicas, tensor parallel ranks, dropout, documents and half precision",
          "[post-validation]") {
  constexpr int count = 5;
  int redone = 0;
  for (int precision = 0; precision < 3; ++precision) {
    for (const Layout& layout : {Layout{2, 2, 1, 1, "zb-h2"}, Layout{2, 1, 2, 1, "zb-v", 2}, Layout{2, 2, 2, 1, "1f1b"}}) {
      TinyRun tiny{.tied = true, .microbatches = 4, .dropout = 0.2, .isolated = true, .precision = precision, .layout = layout};
      TrainJob job = job_of(tiny);
      job.clip_norm = some_clip(job, count);
      INFO(to_string(tiny));
      const Steps early = steps_of(job, true, count);
      CHECK(early.same_bits(steps_of(job, false, count)));
      redone += early.redone;
    }
  }
  CHECK(redone > 0);
}

TEST_CASE("post-validation takes back actions that began after a skipped step", "[post-validation]") {
  for (const int stages : {1, 2, 3}) {
    TrainJob job = golden_job("llama3_tiny", {stages, 1, 1, 2, stages == 1 ? "1f1b" : "zb-h2"});
    job.numerics.precision = Precision::fp16();
    job.loss_scale = {.dynamic = true, .initial = 0x1p26, .window = 6, .hysteresis = 1};
    const Steps early = steps_of(job, true, 16);
    CHECK(early.same_bits(steps_of(job, false, 16)));
    CHECK(std::get<bool>(early.reports.front()));
    CHECK(std::any_of(early.reports.begin(), early.reports.end(), [](const auto& step) { return !std::get<bool>(step); }));
    CHECK((early.redone > 0) == (stages > 1));  // one stage has no time to begin early in
  }
}

TEST_CASE("a run resumes to the bit from a checkpoint taken after the next step had begun", "[post-validation]") {
  TinyRun tiny{.microbatches = 5, .layout = {2, 1, 1, 1, "zb-h2"}};
  TrainJob job = job_of(tiny);
  job.clip_norm = some_clip(job, 6);
  const Steps whole = steps_of(job, false, 6);
  const TempFolder folder;
  {
    TrainJob first = job;
    first.post_validation = true;
    Trainer trainer(std::move(first));
    for (int step = 0; step < 3; ++step) trainer.step(true);
    trainer.start_checkpoint(folder.path()).get();
    trainer.step(true);
  }
  const auto checkpoint = checkpoint_path(folder.path(), 3);
  TrainJob rest = job;
  rest.initial = open_checkpoint(checkpoint, verify_checkpoint(checkpoint), job.config);
  rest.steps_done = 3;
  const Steps early = steps_of(rest, true, 3);
  CHECK(early.weights == whole.weights);
  CHECK(std::equal(early.reports.begin(), early.reports.end(), whole.reports.begin() + 3));
}

TEST_CASE("settings that exclude post-validation are refused", "[post-validation]") {
  const TrainJob plain = job_of({.layout = {2, 1, 2}});
  const auto refusal = [&](const auto& change, const Mesh* ranks = nullptr) -> std::string {
    TrainJob job = plain;
    job.post_validation = true;
    change(job);
    try {
      check_combinations(features_of(job, ranks));
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      CHECK(error.setting()->name == "post-validation");
      return error.what();
    }
    return "";
  };
  using Catch::Matchers::Contains;
  CHECK(refusal([](TrainJob&) {}).empty());
  CHECK_THAT(refusal([](TrainJob& job) { job.layout.order = schedules::Order::ready; }), Contains("planned order"));
  CHECK_THAT(refusal([](TrainJob& job) { job.zero.stage = 1; }), Contains("zero 0"));
  CHECK_THAT(refusal([](TrainJob& job) { job.offload.activations = true; }), Contains("offload"));
  CHECK_THAT(refusal([](TrainJob& job) { job.numerics.precision = Precision::fp8(), job.devices.kind = DeviceKind::cuda; }),
             Contains("fp8"));
  const Mesh whole({.dp = 2, .pp = 2, .tp = 2}, deal_ranks(8, 4)), divided({.dp = 2, .pp = 2, .tp = 2}, deal_ranks(8, 8));
  CHECK(refusal([](TrainJob&) {}, &whole).empty());
  CHECK_THAT(refusal([](TrainJob&) {}, &divided), Contains("whole stages"));
  CHECK(find_refused(features_of(plain, &divided)) == nullptr);  // it is off
}

TEST_CASE("the bubble of steps that overlap counts from each stage's N to its next", "[post-validation]") {
  const auto at = [](int ms) { return std::chrono::steady_clock::time_point(std::chrono::milliseconds(1000 + ms)); };
  const auto action = [&](ActionKind kind, int from, int to) { return TracedAction{{kind, 0, -1}, {at(from), at(to)}}; };
  StepBubbles bubbles;
  const auto bubble_of = [&](const StageTrace& stage, bool next_announced) {
    StepReport report;
    report.trace = {stage};
    bubbles.add_to(report, true, next_announced);
    return report;
  };
  const StageTrace first{
      {0, 0}, {action(ActionKind::norm, 0, 10), action(ActionKind::preview, 10, 20), action(ActionKind::optimizer, 35, 45)}};
  const StageTrace second{
      {0, 0}, {action(ActionKind::forward, 20, 30), action(ActionKind::backward, 50, 90), action(ActionKind::norm, 90, 110)}};
  CHECK(bubble_of(first, true).stage_bubble.empty());
  const StepReport announced = bubble_of(second, false);
  CHECK(announced.bubble == Approx(0.1));  // 10 of 100 ms were idle: from 30 to 35 and from 45 to 50
  REQUIRE(announced.stage_bubble.size() == 1);
  CHECK(announced.stage_bubble[0].value() == Approx(0.1));
  CHECK(bubble_of(second, false).stage_bubble.empty());
}
