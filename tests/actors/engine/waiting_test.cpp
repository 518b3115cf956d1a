// Asks a running pipeline which stage waits for which.
#include <future>
#include <thread>

#include "actors/engine/noop_compute.hpp"
#include "actors/engine/pipeline.hpp"
#include "catch.hpp"
#include "schedules/builders/builders.hpp"

using namespace pipetrain;
using namespace std::chrono_literals;

namespace {

// Blocks its stage's messages between the beginning of a step and `released`.
class BusyCompute : public StageCompute {
 public:
  explicit BusyCompute(std::shared_future<void> released) : released_(std::move(released)) {}

  std::vector<SlotHandle> make_slots(schedules::InputKind, int, int count) override { return make_empty_slots(count); }
  void attach(std::shared_ptr<StageEvents> events) override { events_ = std::move(events); }
  void begin_step(const StepInfo&) override { released_.wait(); }
  void launch(const Launch& launch) override {
    events_->enqueued(launch.action);
    events_->completed(launch.action, {}, {});
  }
  void verdict(const Verdict&) override {}
  void abort(std::exception_ptr) noexcept override {}

 private:
  std::shared_future<void> released_;
  std::shared_ptr<StageEvents> events_;
};

}  // namespace

TEST_CASE("everybody who asks who waits hears of every stage, though one answers late") {
  std::promise<void> release;
  const auto released = release.get_future().share();
  PipelineOptions options;
  options.plan = with_end_of_step(schedules::build_schedule("1f1b", {2, 1, 2}), {});
  Pipeline pipeline(
      options,
      [&](StageId id, const schedules::StageNeeds&) -> std::shared_ptr<StageCompute> {
        if (id.stage == 0) return make_noop_compute();
        return std::make_shared<BusyCompute>(released);
      },
      [](int) { return make_empty_source(); });
  auto step = pipeline.start_step({1, 2, 1, 0}, [](const auto&) { return Verdict{}; });
  std::vector<std::future<std::vector<std::string>>> answers;
  for (int i = 0; i < 3; ++i) answers.push_back(std::async(std::launch::async, [&] { return pipeline.waiting(); }));
  std::this_thread::sleep_for(100ms);  // all have asked, and stage 0 has answered all
  release.set_value();
  for (auto& answer : answers) {
    const auto lines = answer.get();
    REQUIRE(lines.size() == 2);
    CHECK(lines[0].starts_with("stage 0: "));
    CHECK(lines[1].starts_with("stage 1: "));
  }
  CHECK(step.get().stages.size() == 2);
}
