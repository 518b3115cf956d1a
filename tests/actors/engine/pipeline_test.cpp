// The engine with computes that move no data: every layout finishes, order is kept, failures end the run with their cause.
#include "actors/engine/pipeline.hpp"
#include "actors/engine/caf.hpp"

#include <future>
#include <map>
#include <thread>
#include <utility>

#include "actors/engine/noop_compute.hpp"
#include "actors/engine/run_failed.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "schedules/builders/builders.hpp"

using namespace pipetrain;
using namespace std::chrono_literals;
using schedules::Action;
using schedules::ActionKind;

namespace {

PipelineOptions pipeline_options(const std::string& schedule, int stages, int chunks, int microbatches,
                                 schedules::Order order) {
  PipelineOptions options;
  options.plan = with_end_of_step(schedules::build_schedule(schedule, {stages, chunks, microbatches}), {});
  options.order = order;
  options.grace = 2000ms;
  return options;
}

Verdict apply_always(const std::vector<StageResult>&) { return {}; }

std::string actions_text(const StageTrace& trace) {
  std::string text;
  for (const auto& one : trace.actions) text += to_string(one.action) + " ";
  return text;
}

// Does what the no-op does, and fails in the chosen way at one action.
class FailingCompute : public StageCompute {
 public:
  enum class How { throw_in_launch, report, never_complete };
  FailingCompute(How how, Action at) : how_(how), at_(at) {}

  std::vector<SlotHandle> make_slots(schedules::InputKind, int, int count) override { return make_empty_slots(count); }
  void attach(std::shared_ptr<StageEvents> events) override { events_ = std::move(events); }
  void begin_step(const StepInfo&) override {}
  void launch(const Launch& launch) override {
    if (launch.action == at_) {
      if (how_ == How::throw_in_launch) throw Error(ErrorKind::out_of_memory, "no room for it");
      if (how_ == How::never_complete) return;
      events_->failed(std::make_exception_ptr(Error(ErrorKind::numeric, "a NaN appeared")));
    }
    events_->enqueued(launch.action);
    events_->completed(launch.action, {}, {});
  }
  void verdict(const Verdict&) override {}
  void abort(std::exception_ptr) noexcept override {}

 private:
  How how_;
  Action at_;
  std::shared_ptr<StageEvents> events_;
};

// The failure of the first step when stage 1 of 3 fails at F2.
RunFailed failure_of(FailingCompute::How how) {
  auto options = pipeline_options("1f1b", 3, 1, 6, schedules::Order::planned);
  options.grace = 200ms;
  Pipeline pipeline(
      options,
      [how](StageId id, const schedules::StageNeeds&) -> std::shared_ptr<StageCompute> {
        if (id.stage != 1) return make_noop_compute();
        return std::make_shared<FailingCompute>(how, Action{ActionKind::forward, 0, 2});
      },
      [](int) { return make_empty_source(); });
  try {
    pipeline.step({1, 6, 1, 0}, apply_always);
  } catch (const RunFailed& failure) {
    CHECK_THROWS_AS(pipeline.step({2, 6, 1, 0}, apply_always), RunFailed);  // every later step fails too, at once
    return failure;
  }
  throw std::logic_error("the step did not fail");
}

}  // namespace

TEST_CASE("every layout runs its steps to the end and in the plan's order") {
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    for (const int stages : {1, 2, 5}) {
      for (const int microbatches : {1, 3, 8}) {
        for (const int replicas : {1, 2}) {
          auto options = pipeline_options(schedule, stages, 1, microbatches, schedules::Order::planned);
          options.replicas = replicas;
          const auto plan = options.plan;
          Pipeline pipeline(
              options, [](StageId, const schedules::StageNeeds&) { return make_noop_compute(); },
              [](int) { return make_empty_source(); });
          for (int step = 1; step <= 3; ++step) {
            const auto outcome = pipeline.step({step, microbatches, 1, 0}, apply_always);
            REQUIRE(outcome.stages.size() == static_cast<std::size_t>(stages * replicas));
            for (const auto& trace : outcome.stages) {
              StageTrace expected;
              for (const auto& action : plan.stages[static_cast<std::size_t>(trace.stage.stage)])
                expected.actions.push_back({action, {}});
              CHECK(actions_text(trace) == actions_text(expected));
            }
          }
        }
      }
    }
  }
}

TEST_CASE("ready-first runs every action once") {
  for (const std::string schedule : {"gpipe", "1f1b"}) {
    Pipeline pipeline(
        pipeline_options(schedule, 4, 1, 7, schedules::Order::ready),
        [](StageId, const schedules::StageNeeds&) { return make_noop_compute(); }, [](int) { return make_empty_source(); });
    const auto outcome = pipeline.step({1, 7, 1, 0}, apply_always);
    for (const auto& trace : outcome.stages) {
      std::map<std::string, int> seen;
      for (const auto& one : trace.actions) ++seen[to_string(one.action)];
      CHECK(seen.size() == 16);  // 7 F, 7 B, N, O
      CHECK(trace.actions.size() == 16);
    }
  }
}

TEST_CASE("the verdict is asked once a step, with every stage's result") {
  Pipeline pipeline(
      pipeline_options("1f1b", 3, 1, 4, schedules::Order::planned),
      [](StageId, const schedules::StageNeeds&) { return make_noop_compute(); }, [](int) { return make_empty_source(); });
  int asked = 0;
  for (int step = 1; step <= 2; ++step) {
    pipeline.step({step, 4, 1, 0}, [&](const auto& results) {
      CHECK(results.size() == 3);
      ++asked;
      return Verdict{false, 1};
    });
  }
  CHECK(asked == 2);
}

TEST_CASE("sleeping stages overlap as the schedule says, in virtual time") {
  caf::actor_system_config config;
  config.set("scheduler.policy", caf::atom("testing"));
  caf::actor_system system{config};
  auto options = pipeline_options("1f1b", 4, 1, 8, schedules::Order::planned);
  options.system = &system;
  options.virtual_time = true;
  auto pipeline = std::make_unique<Pipeline>(
      options,
      [](StageId id, const schedules::StageNeeds&) {
        return make_sleeping_compute(id, [](StageId, const Action& action) -> std::chrono::nanoseconds {
          if (action.kind == ActionKind::forward) return 1000ms;
          return action.kind == ActionKind::backward ? 2000ms : 0ms;
        });
      },
      [](int) { return make_empty_source(); });
  auto outcome = pipeline->start_step({1, 8, 1, 0}, apply_always);
  auto& scheduler = dynamic_cast<caf::scheduler::test_coordinator&>(system.scheduler());
  scheduler.run();
  while (outcome.wait_for(0s) != std::future_status::ready && scheduler.has_pending_timeout()) {
    scheduler.trigger_timeout();
    scheduler.run();
  }
  auto first = std::chrono::steady_clock::time_point::max(), last = std::chrono::steady_clock::time_point::min();
  for (const auto& stage : outcome.get().stages) {
    for (const auto& action : stage.actions) {
      first = std::min(first, action.times.start);
      last = std::max(last, action.times.end);
    }
  }
  CHECK(last - first == (8 + 3) * 3000ms);  // m + p - 1 slots of F + B
  pipeline.reset();
  scheduler.run();  // the ends of the actors
}

TEST_CASE("a failure ends the run with its cause") {
  using How = FailingCompute::How;
  const auto thrown = failure_of(How::throw_in_launch);
  CHECK(thrown.kind() == ErrorKind::out_of_memory);
  CHECK(std::string(thrown.what()) == "stage 1: no room for it");
  const auto reported = failure_of(How::report);
  CHECK(reported.kind() == ErrorKind::numeric);
  CHECK(reported.everything_stopped());
  CHECK(reported.waiting().size() == 3);
}

TEST_CASE("a compute may answer both at once, on a thread of its own or inside the launch") {
  class Answering : public FailingCompute {
   public:
    explicit Answering(bool inside) : FailingCompute(How::report, Action{ActionKind::forward, 9, 9}), inside_(inside) {}
    ~Answering() override {
      for (auto& thread : threads_) thread.join();
    }
    void attach(std::shared_ptr<StageEvents> events) override { answers_ = std::move(events); }
    void launch(const Launch& launch) override {
      const auto answer = [this, action = launch.action] {
        answers_->ran(action, {}, action.kind == ActionKind::norm ? StageResult{1.5} : StageResult{});
      };
      if (inside_) return answer();
      threads_.emplace_back(answer);
    }

   private:
    bool inside_;
    std::shared_ptr<StageEvents> answers_;
    std::vector<std::thread> threads_;
  };
  for (const bool inside : {false, true}) {
    for (const auto order : {schedules::Order::planned, schedules::Order::ready}) {
      auto options = pipeline_options("1f1b", 3, 1, 6, order);
      options.run_ahead = 1;
      Pipeline pipeline(
          options, [&](StageId, const schedules::StageNeeds&) { return std::make_shared<Answering>(inside); },
          [](int) { return make_empty_source(); });
      for (int step = 1; step <= 3; ++step) {
        std::vector<StageResult> results;
        const auto outcome = pipeline.step({step, 6, 1, 0}, [&](const auto& given) {
          results = given;
          return Verdict{};
        });
        CHECK(results == std::vector<StageResult>(3, StageResult{1.5}));
        for (const auto& stage : outcome.stages) CHECK(stage.actions.size() == 14U);
      }
    }
  }
}

TEST_CASE("a step that is skipped launches no optimizer, and the next one does") {
  for (const auto order : {schedules::Order::planned, schedules::Order::ready}) {
    Pipeline pipeline(
        pipeline_options("1f1b", 3, 1, 4, order), [](StageId, const schedules::StageNeeds&) { return make_noop_compute(); },
        [](int) { return make_empty_source(); });
    for (const bool applied : {true, false, false, true}) {
      const auto outcome = pipeline.step({1, 4, 1, 0}, [&](const auto&) { return Verdict{applied}; });
      for (const auto& stage : outcome.stages) {
        CHECK((stage.actions.back().action.kind == ActionKind::optimizer) == applied);
        CHECK(stage.actions.size() == (applied ? 10U : 9U));
      }
    }
  }
}

TEST_CASE("stages report their memory, and one that cannot ends the run by name") {
  class Keeper : public FailingCompute {
   public:
    explicit Keeper(StageId id) : FailingCompute(How::report, Action{ActionKind::forward, 9, 9}), id_(id) {}
    void attach(std::shared_ptr<StageEvents> events) override {
      answers_ = events;
      FailingCompute::attach(std::move(events));
    }
    std::vector<MemoryUse> memory() const override {
      MemoryUse use;
      use.queues = static_cast<std::size_t>(10 * id_.replica + id_.stage);
      return {use, use};
    }
    void read_state(std::int64_t number, const StatePart& part, float* out) override {
      if (part.state != "weights") throw Error(ErrorKind::input, "no state " + part.state);
      *out = static_cast<float>(100 * id_.replica + 10 * id_.stage + part.rank);
      answers_->state_read(number);
    }

   private:
    StageId id_;
    std::shared_ptr<StageEvents> answers_;
  };
  auto options = pipeline_options("1f1b", 3, 1, 4, schedules::Order::planned);
  options.replicas = 2;
  Pipeline pipeline(
      options, [](StageId id, const schedules::StageNeeds&) { return std::make_shared<Keeper>(id); },
      [](int) { return make_empty_source(); });
  std::vector<std::size_t> queues;
  for (const MemoryUse& use : pipeline.memory()) queues.push_back(use.queues);
  CHECK(queues == std::vector<std::size_t>{0, 0, 1, 1, 2, 2, 10, 10, 11, 11, 12, 12});
  float first = 0, second = 0;
  auto one = pipeline.read_state({0, 2}, {1, "weights", 0}, &first),
       other = pipeline.read_state({1, 1}, {0, "weights", 0}, &second);
  other.get();
  one.get();
  CHECK(first == 21);
  CHECK(second == 110);
  auto refused = pipeline.read_state({0, 0}, {0, "moments", 0}, &first);
  CHECK_THROWS_WITH(refused.get(), "no state moments");
  CHECK_THROWS_AS(pipeline.memory(), RunFailed);
  CHECK_THROWS_WITH(pipeline.step({1, 4, 1, 0}, apply_always), "no state moments");
}

TEST_CASE("a stage that never completes is noticed and named") {
  auto options = pipeline_options("1f1b", 3, 1, 6, schedules::Order::planned);
  options.grace = 100ms;
  options.stall = 100ms;
  Pipeline pipeline(
      options,
      [](StageId id, const schedules::StageNeeds&) -> std::shared_ptr<StageCompute> {
        if (id.stage != 1) return make_noop_compute();
        return std::make_shared<FailingCompute>(FailingCompute::How::never_complete, Action{ActionKind::forward, 0, 2});
      },
      [](int) { return make_empty_source(); });
  try {
    pipeline.step({1, 6, 1, 0}, apply_always);
    FAIL("the step ended");
  } catch (const RunFailed& failure) {
    CHECK(failure.kind() == ErrorKind::peer_lost);
    CHECK_FALSE(failure.everything_stopped());
    CHECK(failure.waiting()[1] == "stage 1: still running, does not answer");
  }
}

TEST_CASE("a run that is asked to stop finishes its step, and gives up one that hangs") {
  const auto two_stages = pipeline_options("1f1b", 2, 1, 2, schedules::Order::planned);
  Pipeline slow(
      two_stages,
      [](StageId id, const schedules::StageNeeds&) {
        return make_sleeping_compute(id, [](StageId, const Action&) { return 30ms; });
      },
      [](int) { return make_empty_source(); });
  auto finished = slow.start_step({1, 2, 1, 0}, apply_always);
  slow.finish_step(10000ms);
  CHECK(finished.get().stages.size() == 2);

  Pipeline hung(
      two_stages,
      [](StageId, const schedules::StageNeeds&) -> std::shared_ptr<StageCompute> {
        return std::make_shared<FailingCompute>(FailingCompute::How::never_complete, Action{ActionKind::forward, 0, 1});
      },
      [](int) { return make_empty_source(); });
  auto given_up = hung.start_step({1, 2, 1, 0}, apply_always);
  hung.finish_step(100ms);
  try {
    given_up.get();
    FAIL("the step ended");
  } catch (const RunFailed& failure) {
    CHECK(failure.kind() == ErrorKind::aborted);
    CHECK(failure.waiting().size() == 2);
  }
}

TEST_CASE("a step that is left ends at once, and so does every later one, unless its verdict has been given") {
  Pipeline slow(
      pipeline_options("1f1b", 2, 1, 2, schedules::Order::planned),
      [](StageId id, const schedules::StageNeeds&) {
        return make_sleeping_compute(
            id, [](StageId, const Action& action) { return action.kind == ActionKind::optimizer ? 300ms : 50ms; });
      },
      [](int) { return make_empty_source(); });
  std::promise<void> judged;
  bool told = false;
  auto ends = slow.start_step({1, 2, 1, 0}, [&](const std::vector<StageResult>& results) {
    if (!std::exchange(told, true)) judged.set_value();
    return apply_always(results);
  });
  judged.get_future().wait();
  slow.leave_step();
  CHECK(ends.get().stages.size() == 2);
  CHECK_THROWS_AS(slow.step({2, 2, 1, 0}, apply_always), StepLeft);

  Pipeline hung(
      pipeline_options("1f1b", 2, 1, 2, schedules::Order::planned),
      [](StageId, const schedules::StageNeeds&) -> std::shared_ptr<StageCompute> {
        return std::make_shared<FailingCompute>(FailingCompute::How::never_complete, Action{ActionKind::forward, 0, 1});
      },
      [](int) { return make_empty_source(); });
  auto left = hung.start_step({1, 2, 1, 0}, apply_always);
  hung.leave_step();
  CHECK_THROWS_AS(left.get(), StepLeft);
}

TEST_CASE("abort from outside ends the step; waiting() answers meanwhile") {
  Pipeline pipeline(
      pipeline_options("1f1b", 2, 1, 2, schedules::Order::planned),
      [](StageId id, const schedules::StageNeeds&) {
        return make_sleeping_compute(id, [](StageId, const Action&) { return 300ms; });
      },
      [](int) { return make_empty_source(); });
  auto outcome = pipeline.start_step({1, 2, 1, 0}, apply_always);
  const auto waiting = pipeline.waiting();
  REQUIRE(waiting.size() == 2);
  CHECK(waiting[1].rfind("stage 1: ", 0) == 0);
  pipeline.abort(std::make_exception_ptr(Error(ErrorKind::aborted, "enough")));
  CHECK_THROWS_WITH(outcome.get(), "enough");
}

TEST_CASE("a stage whose actor stops ends the run, and is named") {
  Pipeline pipeline(
      pipeline_options("1f1b", 3, 1, 4, schedules::Order::planned),
      [](StageId id, const schedules::StageNeeds&) {
        return make_sleeping_compute(id, [](StageId, const Action&) { return 50ms; });
      },
      [](int) { return make_empty_source(); });
  auto outcome = pipeline.start_step({1, 4, 1, 0}, apply_always);
  pipeline.waiting();  // the step is under way
  pipeline.stop_stage({0, 1});
  try {
    outcome.get();
    FAIL("the step ended");
  } catch (const RunFailed& failure) {
    CHECK(failure.kind() == ErrorKind::peer_lost);
    CHECK(std::string(failure.what()) == "stage 1: its actor stopped in the middle of the run");
    CHECK(failure.waiting()[1] == "stage 1: its actor is gone");
  }
}

TEST_CASE("a source that throws ends the run with the data's error") {
  class BadSource : public InputSource {
   public:
    void fill(schedules::InputKind, const StepInfo&, int microbatch, Slot&) override {
      if (microbatch == 3) throw Error(ErrorKind::input, "rows.jsonl:7: not JSON");
    }
  };
  Pipeline pipeline(
      pipeline_options("gpipe", 2, 1, 6, schedules::Order::planned),
      [](StageId, const schedules::StageNeeds&) { return make_noop_compute(); },
      [](int) { return std::make_shared<BadSource>(); });
  CHECK_THROWS_WITH(pipeline.step({1, 6, 1, 0}, apply_always), "rows.jsonl:7: not JSON");
}
