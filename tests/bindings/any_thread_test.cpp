// `run` on any free thread: what stages may do at the same time, and requests of callers with any header version.
#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>

#include "bindings/chain.hpp"
#include "catch.hpp"
#include "wait_until.hpp"

using namespace pipetrain::test;

namespace {

// F1 of stage 0 and F0 of stage 1 each wait until the other has begun.
struct Meeting {
  struct Stage {
    Meeting* meeting = nullptr;
    int number = 0;
    std::atomic<int> inside{0}, most{0}, actions{0};
  };
  std::array<Stage, 3> stages;
  std::array<std::atomic<bool>, 2> begun{};
  std::atomic<int> missed{0};
  pipetrain_compute asked = sized<pipetrain_compute>();  // passed to each stage, with its own `user`

  static int make_compute(void* user, const pipetrain_stage_request* request, pipetrain_compute* compute) {
    auto* meeting = static_cast<Meeting*>(user);
    Stage& stage = meeting->stages[static_cast<std::size_t>(request->stage)];
    stage.meeting = meeting;
    stage.number = request->stage;
    *compute = meeting->asked;
    compute->user = &stage;
    return 0;
  }

  static int run(void* user, const pipetrain_launch* launch, double*, size_t, size_t*) {
    auto* stage = static_cast<Stage*>(user);
    stage->most = std::max<int>(stage->most, ++stage->inside);
    ++stage->actions;
    if (launch->action.kind == PIPETRAIN_F && stage->number < 2 && launch->action.microbatch == 1 - stage->number) {
      auto& begun = stage->meeting->begun;
      begun[static_cast<std::size_t>(stage->number)] = true;
      const auto& other = begun[static_cast<std::size_t>(1 - stage->number)];
      if (!wait_until([&] { return other.load(); })) ++stage->meeting->missed;
    }
    --stage->inside;
    return 0;
  }

  static int launch(void*, const pipetrain_launch*) { return 1; }

  pipetrain_status create(PipelineOwner& pipeline) {
    const auto plan = build_plan("1f1b", static_cast<int>(stages.size()), 6);
    auto request = sized<pipetrain_pipeline_request>();
    request.plan = plan.get();
    request.user = this;
    request.make_compute = make_compute;
    pipetrain_pipeline* made = nullptr;
    const pipetrain_status status = pipetrain_pipeline_create(&request, &made);
    pipeline.reset(made);
    return status;
  }
};

}  // namespace

TEST_CASE("on any thread, actions of two stages run at once and those of one stage one at a time") {
  Meeting meeting;
  meeting.asked.run = Meeting::run;
  meeting.asked.any_thread = 1;
  PipelineOwner pipeline;
  REQUIRE(meeting.create(pipeline) == PIPETRAIN_OK);
  for (int number = 1; number <= 3; ++number) {
    meeting.begun[0] = meeting.begun[1] = false;
    auto step = sized<pipetrain_step>();
    step.step = number;
    REQUIRE(pipetrain_pipeline_step(pipeline.get(), &step, nullptr, nullptr) == PIPETRAIN_OK);
  }
  CHECK(meeting.missed == 0);
  for (const auto& stage : meeting.stages) {
    CHECK(stage.most == 1);
    CHECK(stage.actions == 3 * (6 + 6 + 2));
  }
}

TEST_CASE("a compute of an older header runs on the stages' own threads, whatever memory follows it") {
  Meeting meeting;
  meeting.asked.run = Meeting::run;
  meeting.asked.any_thread = 77;
  meeting.asked.struct_size = offsetof(pipetrain_compute, any_thread);
  PipelineOwner pipeline;
  CHECK(meeting.create(pipeline) == PIPETRAIN_OK);
}

TEST_CASE("any_thread is 0 or 1, and of run") {
  Meeting meeting;
  PipelineOwner pipeline;
  meeting.asked.run = Meeting::run;
  meeting.asked.any_thread = 2;
  CHECK(meeting.create(pipeline) == PIPETRAIN_INPUT);
  CHECK(error_has("any_thread: 2; use 0 or 1"));
  meeting.asked.run = nullptr;
  meeting.asked.launch = Meeting::launch;
  meeting.asked.any_thread = 1;
  CHECK(meeting.create(pipeline) == PIPETRAIN_INPUT);
  CHECK(error_has("any_thread goes with run"));
}
