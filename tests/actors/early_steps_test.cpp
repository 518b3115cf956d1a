// The engine when steps begin before the verdict on the previous one: it never hangs, keeps no value of weights that
// were taken back, and a failure in between ends the run with its cause.
#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "actors/engine/noop_compute.hpp"
#include "actors/engine/pipeline.hpp"
#include "actors/engine/run_failed.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "schedules/builders/builders.hpp"

using namespace pipetrain;
using namespace std::chrono_literals;
using schedules::Action;
using schedules::ActionKind;

namespace {

constexpr schedules::SlotLife life{ActionKind::input_grad, ActionKind::weight_grad};

PipelineOptions early_options(const std::string& schedule, int stages, int microbatches) {
  PipelineOptions options;
  const int chunks = schedules::find_schedule(schedule)->default_chunks;
  options.plan = with_end_of_step(schedules::build_schedule(schedule, {stages, chunks, microbatches}), {});
  options.slot_life = life;
  options.grace = 2000ms;
  options.stall = 10000ms;
  return options;
}

// A model of one weight a stage: a forward gives 31 x + weight modulo a prime, where x is the microbatch's number in
// the run or the previous stage's output; a step of the optimizer adds the verdict's scale to the weight, a preview 1.
// Actions take a random short time.
class TinyModel : public StageCompute {
 public:
  static constexpr std::int64_t prime = 1000003;

  TinyModel(StageId id, const schedules::Plan& plan)
      : plan_(plan), stage_(id.stage), random_(static_cast<unsigned>(7 + id.stage)) {}

  std::vector<SlotHandle> make_slots(schedules::InputKind, int, int count) override { return make_empty_slots(count); }
  void attach(std::shared_ptr<StageEvents> events) override { events_ = std::move(events); }
  void begin_step(const StepInfo& step) override { step_ = step; }
  void begin_early(const StepInfo& coming) override { step_ = coming; }
  void verdict(const Verdict& verdict) override {
    verdict_ = verdict;
    if (!previewed_ || (verdict.apply && verdict.confirms)) return;
    read_ = weight_;
    sum_ = 0;
  }
  void launch(const Launch& launch) override {
    StageResult result;
    switch (launch.action.kind) {
      case ActionKind::forward:
        forward(launch);
        break;
      case ActionKind::preview:
        previewed_ = true;
        read_ = weight_ + 1;
        break;
      case ActionKind::norm:
        result = {static_cast<double>(std::exchange(sum_, 0))};
        previewed_ = false;
        break;
      case ActionKind::optimizer:
        weight_ += static_cast<std::int64_t>(verdict_.grad_scale);
        read_ = weight_;
        break;
      default:
        break;
    }
    events_->enqueued(launch.action);
    if (!result.empty()) return events_->completed(launch.action, {}, std::move(result));
    const auto start = std::max(events_->now(), busy_until_);
    busy_until_ = start + std::chrono::microseconds(random_() % 200);
    events_->complete_at(launch.action, {start, busy_until_});
  }
  void abort(std::exception_ptr) noexcept override {}

 private:
  void forward(const Launch& launch) {
    const bool is_first = plan_.placement.is_first({stage_, launch.action.chunk});
    const std::int64_t input =
        is_first ? step_.step * 1000 + launch.action.microbatch : std::stoll("0" + launch.activation->note);
    const std::int64_t output = (31 * input + read_) % prime;
    if (launch.output) {
      launch.output->note = std::to_string(output);
    } else {
      sum_ += output;
    }
  }

  const schedules::Plan& plan_;
  int stage_;
  std::minstd_rand random_;
  std::shared_ptr<StageEvents> events_;
  std::chrono::steady_clock::time_point busy_until_{};
  StepInfo step_;
  Verdict verdict_;
  std::int64_t weight_ = 0, read_ = 0;
  std::int64_t sum_ = 0;  // the outputs of the last virtual stage's forwards since N
  bool previewed_ = false;
};

struct Course {
  std::vector<double> losses;
  int previews = 0;
};

// Verdicts: 0 confirms, 1 applies a larger update, 2 skips.
Course run_course(const PipelineOptions& options, const std::vector<int>& verdicts, bool early) {
  Pipeline pipeline(
      options, [&](StageId id, const schedules::StageNeeds&) { return std::make_shared<TinyModel>(id, options.plan); },
      [](int) { return make_empty_source(); });
  Course course;
  const auto info = [&](std::size_t step) {
    return StepInfo{static_cast<std::int64_t>(step), options.plan.microbatches, 1, 0};
  };
  for (std::size_t step = 1; step <= verdicts.size(); ++step) {
    const auto decide = [&](const std::vector<StageResult>& results) {
      double loss = 0;
      for (const auto& stage : results) loss += stage.front();
      course.losses.push_back(loss);
      const int kind = verdicts[step - 1];
      return Verdict{kind != 2, kind == 1 ? 5.0 : 1.0, kind == 0};
    };
    const auto outcome =
        pipeline.step(info(step), decide, early && step < verdicts.size() ? std::optional(info(step + 1)) : std::nullopt);
    for (const StageTrace& stage : outcome.stages) {
      std::size_t own = 0;
      for (const TracedAction& one : stage.actions) own += one.action.kind != ActionKind::preview;
      course.previews += static_cast<int>(stage.actions.size() - own);
      const bool has_optimizer = verdicts[step - 1] != 2;
      CHECK(own + (has_optimizer ? 0 : 1) == options.plan.stages[static_cast<std::size_t>(stage.stage.stage)].size());
    }
  }
  return course;
}

// Fails at the first action of this kind.
class FailsAt : public StageCompute {
 public:
  explicit FailsAt(ActionKind kind, bool only_early) : kind_(kind), only_early_(only_early) {}
  std::vector<SlotHandle> make_slots(schedules::InputKind, int, int count) override { return make_empty_slots(count); }
  void attach(std::shared_ptr<StageEvents> events) override { events_ = std::move(events); }
  void begin_step(const StepInfo&) override {}
  void launch(const Launch& launch) override {
    if (launch.action.kind == kind_ && (launch.early || !only_early_))
      events_->failed(std::make_exception_ptr(Error(ErrorKind::numeric, "a NaN appeared")));
    events_->enqueued(launch.action);
    events_->completed(launch.action, {}, {});
  }
  void verdict(const Verdict&) override {}
  void abort(std::exception_ptr) noexcept override {}

 private:
  ActionKind kind_;
  bool only_early_;
  std::shared_ptr<StageEvents> events_;
};

}  // namespace

TEST_CASE("forwards that begin early see the weights of the verdict, for every schedule and any verdicts") {
  const std::vector<int> verdicts = {0, 0, 1, 0, 2, 2, 1, 0, 1, 1, 0, 2, 0, 0};
  int previews = 0;
  for (const auto& schedule : schedules::all_schedules()) {
    for (const int stages : {1, 2, 4}) {
      for (const int microbatches : {1, 5}) {
        const auto options = early_options(std::string(schedule.name), stages, microbatches);
        INFO(schedule.name << " pp " << stages << " m " << microbatches);
        const Course waiting = run_course(options, verdicts, false), early = run_course(options, verdicts, true);
        CHECK(early.losses == waiting.losses);
        CHECK(waiting.previews == 0);
        previews += early.previews;
      }
    }
  }
  CHECK(previews > 50);
}

TEST_CASE("several replicas and stages that run further ahead begin early, too") {
  const std::vector<int> verdicts = {0, 1, 0, 0, 2, 0};
  for (const int run_ahead : {1, 2, 5}) {
    auto options = early_options("zb-h2", 3, 6);
    options.replicas = 2;
    options.run_ahead = run_ahead;
    CHECK(run_course(options, verdicts, true).losses == run_course(options, verdicts, false).losses);
  }
}

TEST_CASE("a failure after the next step has begun early ends the run with its cause") {
  for (const auto& [kind, only_early] : {std::pair(ActionKind::preview, false), {ActionKind::forward, true}}) {
    auto options = early_options("zb-h2", 3, 6);
    Pipeline pipeline(
        options,
        [&, kind = kind, only_early = only_early](StageId id, const schedules::StageNeeds&) -> std::shared_ptr<StageCompute> {
          if (id.stage == 0) return std::make_shared<FailsAt>(kind, only_early);
          return std::make_shared<TinyModel>(id, options.plan);
        },
        [](int) { return make_empty_source(); });
    const auto info = [](std::int64_t step) { return StepInfo{step, 6, 1, 0}; };
    try {
      for (std::int64_t step = 1; step <= 3; ++step)
        pipeline.step(
            info(step),
            [](const auto&) {
              return Verdict{true, 1, true};
            },
            info(step + 1));
      FAIL("the run did not fail");
    } catch (const RunFailed& failure) {
      CHECK_THAT(failure.what(), Catch::Contains("a NaN appeared"));
      CHECK(failure.everything_stopped());
    }
  }
}

TEST_CASE("a verdict that throws, and a stage that dies, end a run whose next step has begun early") {
  for (const bool dies : {false, true}) {
    auto options = early_options("zb-h2", 2, 4);
    options.grace = 300ms;
    Pipeline pipeline(
        options, [](StageId, const schedules::StageNeeds&) { return make_noop_compute(); },
        [](int) { return make_empty_source(); });
    const auto info = [](std::int64_t step) { return StepInfo{step, 4, 1, 0}; };
    pipeline.step(
        info(1),
        [](const auto&) {
          return Verdict{true, 1, true};
        },
        info(2));
    if (dies) pipeline.stop_stage({0, 1});
    CHECK_THROWS_AS(pipeline.step(
                        info(2), [](const auto&) -> Verdict { throw Error(ErrorKind::numeric, "the loss is NaN"); }, info(3)),
                    RunFailed);
  }
}

TEST_CASE("a run may end although the coming step has begun early") {
  for (int round = 0; round < 5; ++round) {
    auto options = early_options("zb-v", 2, 4);
    std::vector<std::weak_ptr<TinyModel>> models;
    std::size_t previews = 0;
    {
      Pipeline pipeline(
          options,
          [&](StageId id, const schedules::StageNeeds&) {
            auto model = std::make_shared<TinyModel>(id, options.plan);
            models.push_back(model);
            return model;
          },
          [](int) { return make_empty_source(); });
      for (std::int64_t step = 1; step <= 2; ++step) {
        const auto outcome = pipeline.step(
            {step, 4, 1, 0},
            [](const auto&) {
              return Verdict{true, 1, true};
            },
            StepInfo{step + 1, 4, 1, 0});
        for (const StageTrace& stage : outcome.stages)
          for (const TracedAction& one : stage.actions) previews += one.action.kind == ActionKind::preview;
      }
    }
    CHECK(previews > 0);
    CHECK(models.size() == 2);
    CHECK(std::all_of(models.begin(), models.end(), [](const auto& model) { return model.expired(); }));
  }
}
