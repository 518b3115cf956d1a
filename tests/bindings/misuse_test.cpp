// Wrong arguments and wrong orders of calls give an error with its reason, never a crash. Most useful under ASan.
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "bindings/chain.hpp"
#include "catch.hpp"

using namespace pipetrain::test;

namespace {

// Makes wrong calls, with the objects that they need.
class Misuser {
 public:
  explicit Misuser(unsigned seed, Way way) : random_(seed), chain_({.way = way}) {
    auto gone = build_plan("1f1b", 2, 2);
    freed_ = gone.get();
    REQUIRE(chain_.create() == PIPETRAIN_OK);
    pipetrain_timeline* timeline = nullptr;
    pipetrain_simulate(plan_.get(), nullptr, nullptr, &timeline);
    timeline_.reset(timeline);
  }

  // Makes one call that is wrong in some way. Returns its status.
  pipetrain_status misuse() {
    static const std::vector<pipetrain_status (Misuser::*)()> ways{
        &Misuser::bad_handle,   &Misuser::bad_plan_request, &Misuser::bad_text,  &Misuser::bad_index,    &Misuser::null_output,
        &Misuser::bad_costs,    &Misuser::bad_simulation,   &Misuser::bad_rules, &Misuser::bad_pipeline, &Misuser::bad_step,
        &Misuser::out_of_order, &Misuser::bad_answer,       &Misuser::bad_draw};
    way_ = number(0, static_cast<int>(ways.size()) - 1);
    return (this->*ways[static_cast<std::size_t>(way_)])();
  }
  int way() const { return way_; }

 private:
  int number(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }
  int out_of_range(int size) {
    const int choices[] = {-1,
                           size,
                           size + 1,
                           std::numeric_limits<int>::max(),
                           std::numeric_limits<int>::min(),
                           -number(1, 1000000),
                           size + number(0, 1000000)};
    return choices[number(0, 6)];
  }
  std::size_t wrong_size(std::size_t right) {
    const std::size_t choices[] = {0, 1, right - 1, right + 1, 2 * right, std::numeric_limits<std::size_t>::max(), 8};
    const std::size_t chosen = choices[number(0, 6)];
    return chosen == right ? 0 : chosen;
  }
  template <class Handle>
  Handle* wrong_handle() {
    void* const choices[] = {nullptr,
                             freed_,
                             timeline_.get(),
                             chain_.pipeline(),
                             reinterpret_cast<void*>(std::uintptr_t{1}),
                             reinterpret_cast<void*>(std::uintptr_t{0} - 16),
                             this};
    while (true) {
      void* chosen = choices[number(0, 6)];
      if (std::is_same_v<Handle, pipetrain_timeline> && chosen == timeline_.get()) continue;
      if (std::is_same_v<Handle, pipetrain_pipeline> && chosen == chain_.pipeline()) continue;
      return static_cast<Handle*>(chosen);
    }
  }

  pipetrain_status bad_handle() {
    std::size_t size = 0;
    auto shape = sized<pipetrain_plan_shape>();
    auto summary = sized<pipetrain_summary>();
    auto action = sized<pipetrain_action>();
    pipetrain_timeline* timeline = nullptr;
    switch (number(0, 7)) {
      case 0:
        return pipetrain_plan_describe(wrong_handle<pipetrain_plan>(), &shape);
      case 1:
        return pipetrain_plan_print(wrong_handle<pipetrain_plan>(), PIPETRAIN_TEXT, nullptr, 0, &size);
      case 2:
        return pipetrain_simulate(wrong_handle<pipetrain_plan>(), nullptr, nullptr, &timeline);
      case 3:
        return pipetrain_timeline_summary(wrong_handle<pipetrain_timeline>(), &summary);
      case 4:
        return pipetrain_pipeline_abort(wrong_handle<pipetrain_pipeline>(), "no");
      case 5:
        return pipetrain_enqueued(wrong_handle<pipetrain_stage>(), &action);
      case 6: {
        auto* plan = wrong_handle<pipetrain_plan>();
        return pipetrain_plan_free(plan == nullptr ? static_cast<pipetrain_plan*>(freed_) : plan);
      }
      default:
        return pipetrain_pipeline_timeline(wrong_handle<pipetrain_pipeline>(), &timeline);
    }
  }

  pipetrain_status bad_plan_request() {
    auto request = sized<pipetrain_plan_request>();
    request.schedule = "interleaved";
    request.stages = request.microbatches = 4;
    switch (number(0, 4)) {
      case 0:
        request.struct_size = wrong_size(request.struct_size);
        break;
      case 1:
        request.stages = -number(0, 1000);
        break;
      case 2:
        request.microbatches = -number(0, 1000);
        break;
      case 3:
        request.schedule = "no such schedule";
        break;
      default:
        request.stages = request.microbatches = std::numeric_limits<int>::max() - number(0, 1000);
    }
    pipetrain_plan* plan = nullptr;
    return pipetrain_plan_build(&request, &plan);
  }

  // Returns a plan's text with one byte changed to something that no plan has.
  pipetrain_status bad_text() {
    std::string text = text_of([&](char* out, std::size_t capacity, std::size_t* length) {
      return pipetrain_plan_print(plan_.get(), PIPETRAIN_TEXT, out, capacity, length);
    });
    pipetrain_plan* plan = nullptr;
    if (number(0, 3) == 0) return pipetrain_plan_parse(text.data(), text.size(), number(2, 9), nullptr, &plan);
    const auto first = text.find("stage 0:");
    text[first + static_cast<std::size_t>(number(0, static_cast<int>(text.size() - first) - 2))] =
        static_cast<char>(number(0, 1) == 0 ? '@' : number(128, 255));
    return pipetrain_plan_parse(text.data(), text.size(), PIPETRAIN_TEXT, "changed", &plan);
  }

  pipetrain_status bad_index() {
    auto action = sized<pipetrain_action>();
    auto span = sized<pipetrain_span>();
    auto schedule = sized<pipetrain_schedule>();
    int32_t virtual_stage = 0;
    switch (number(0, 5)) {
      case 0:
        return pipetrain_plan_action(plan_.get(), out_of_range(2), 0, &action);
      case 1:
        return pipetrain_plan_action(plan_.get(), 0, static_cast<std::size_t>(number(8, 1 << 30)), &action);
      case 2:
        return pipetrain_timeline_span(timeline_.get(), out_of_range(2), 0, &span);
      case 3:
        span.struct_size = wrong_size(span.struct_size);
        return pipetrain_timeline_span(timeline_.get(), 0, 0, &span);
      case 4:
        return pipetrain_plan_virtual_stage(plan_.get(), 0, out_of_range(2), &virtual_stage);
      default:
        return pipetrain_schedule_at(static_cast<std::size_t>(number(100, 1 << 30)), &schedule);
    }
  }

  pipetrain_status null_output() {
    const auto request = sized<pipetrain_plan_request>();
    switch (number(0, 6)) {
      case 0:
        return pipetrain_plan_build(&request, nullptr);
      case 1:
        return pipetrain_plan_describe(plan_.get(), nullptr);
      case 2:
        return pipetrain_plan_print(plan_.get(), PIPETRAIN_TEXT, nullptr, 100, nullptr);
      case 3:
        return pipetrain_simulate(plan_.get(), nullptr, nullptr, nullptr);
      case 4:
        return pipetrain_timeline_length(timeline_.get(), 0, nullptr);
      case 5:
        return pipetrain_plan_parse(nullptr, 10, PIPETRAIN_TEXT, nullptr, nullptr);
      default:
        return pipetrain_pipeline_create(nullptr, nullptr);
    }
  }

  pipetrain_status bad_costs() {
    const double infinity = std::numeric_limits<double>::infinity();
    const double wrong[] = {-1.0 * number(1, 100), -infinity, infinity, std::numeric_limits<double>::quiet_NaN()};
    const std::vector<double> values{1, wrong[number(0, 3)]};
    auto costs = sized<pipetrain_costs>();
    costs.stages = 2;
    const double** const members[] = {&costs.forward, &costs.input_grad, &costs.weight_grad, &costs.reduce, &costs.norm};
    *members[number(0, 4)] = values.data();
    if (number(0, 3) == 0) costs.stages = static_cast<std::size_t>(number(3, 1 << 30));
    if (number(0, 3) == 0) costs.edges = static_cast<std::size_t>(number(3, 1 << 30));
    if (number(0, 3) == 0) costs.struct_size = wrong_size(costs.struct_size);
    pipetrain_timeline* timeline = nullptr;
    return pipetrain_simulate(plan_.get(), &costs, nullptr, &timeline);
  }

  pipetrain_status bad_simulation() {
    auto simulation = sized<pipetrain_simulation>();
    simulation.rules = sized<pipetrain_rules>();
    switch (number(0, 3)) {
      case 0:
        simulation.jitter = number(0, 1) == 0 ? -1 : std::numeric_limits<double>::quiet_NaN();
        break;
      case 1:
        simulation.struct_size = wrong_size(simulation.struct_size);
        break;
      case 2:
        simulation.rules.order = out_of_range(2);
        break;
      default:
        simulation.rules.order = PIPETRAIN_READY;
        simulation.wide_queues = 1;
    }
    pipetrain_timeline* timeline = nullptr;
    return pipetrain_simulate(plan_.get(), nullptr, &simulation, &timeline);
  }

  pipetrain_status bad_rules() {
    auto rules = sized<pipetrain_rules>();
    int32_t* const members[] = {&rules.order, &rules.activation_life, &rules.gradient_life};
    *members[number(0, 2)] = out_of_range(4);
    if (number(0, 3) == 0) rules.run_ahead = -number(1, 1000);
    if (number(0, 3) == 0) rules.gradient_life = PIPETRAIN_UNTIL_F;
    return pipetrain_plan_validate(plan_.get(), &rules);
  }

  static int no_compute(void*, const pipetrain_stage_request*, pipetrain_compute*) { return 0; }
  static int failing_compute(void*, const pipetrain_stage_request*, pipetrain_compute*) { return 3; }
  static int throwing_compute(void*, const pipetrain_stage_request*, pipetrain_compute*) { throw 7; }
  static int calling_compute(void* user, const pipetrain_stage_request*, pipetrain_compute*) {
    auto* self = static_cast<Misuser*>(user);
    return self->chain_.step(1) == PIPETRAIN_MISUSE ? 1 : 0;
  }

  pipetrain_status bad_pipeline() {
    auto request = sized<pipetrain_pipeline_request>();
    request.plan = plan_.get();
    request.user = this;
    decltype(request.make_compute) const makers[] = {nullptr, no_compute, failing_compute, throwing_compute, calling_compute};
    request.make_compute = makers[number(0, 4)];
    if (number(0, 3) == 0) request.replicas = number(0, 1) == 0 ? -1 : 1 << 30;
    if (number(0, 3) == 0) request.stall_seconds = std::numeric_limits<double>::infinity();
    if (number(0, 3) == 0) request.plan = wrong_handle<pipetrain_plan>();
    if (number(0, 3) == 0) request.struct_size = wrong_size(request.struct_size);
    pipetrain_pipeline* pipeline = nullptr;
    return pipetrain_pipeline_create(&request, &pipeline);
  }

  pipetrain_status bad_step() {
    auto step = sized<pipetrain_step>();
    step.step = 1;
    switch (number(0, 4)) {
      case 0:
        step.struct_size = wrong_size(step.struct_size);
        break;
      case 1:
        step.step = -number(0, 100);
        break;
      case 2:
        step.microbatches = out_of_range(7);
        break;
      case 3:
        step.evaluation = out_of_range(2);
        break;
      default:
        return pipetrain_pipeline_step(chain_.pipeline(), nullptr, nullptr, nullptr);
    }
    return pipetrain_pipeline_step(chain_.pipeline(), &step, nullptr, nullptr);
  }

  pipetrain_status out_of_order() {
    pipetrain_timeline* timeline = nullptr;
    pipetrain_plan *ended = nullptr, *twice = nullptr;
    switch (number(0, 2)) {
      case 0:
        return pipetrain_pipeline_timeline(chain_.pipeline(), &timeline);
      case 1:
        return pipetrain_fail("outside a callback");
      default: {
        pipetrain_plan_with_end(plan_.get(), 0, 0, 0, &ended);
        const PlanOwner owner(ended);
        return pipetrain_plan_with_end(ended, 0, 0, 0, &twice);
      }
    }
  }

  pipetrain_status bad_answer() {
    auto action = sized<pipetrain_action>();
    action.kind = number(-2, 12);
    action.chunk = number(-2, 1 << 20);
    action.microbatch = number(-2, 100);
    auto times = sized<pipetrain_times>();
    times.start = number(0, 1) == 0 ? std::numeric_limits<double>::quiet_NaN() : 1e300;
    switch (number(0, 3)) {
      case 0:
        return pipetrain_enqueued(chain_.handle(), number(0, 3) == 0 ? nullptr : &action);
      case 1:
        return pipetrain_completed(chain_.handle(), &action, &times, nullptr, 0);
      case 2:
        return pipetrain_completed(chain_.handle(), &action, nullptr, nullptr, static_cast<std::size_t>(number(1, 1 << 30)));
      default:
        return pipetrain_failed(chain_.handle(), nullptr);
    }
  }

  pipetrain_status bad_draw() {
    std::size_t length = 0;
    char text[4];
    switch (number(0, 2)) {
      case 0:
        return pipetrain_timeline_draw(timeline_.get(), out_of_range(5), 0, nullptr, 0, &length);
      case 1:
        return pipetrain_timeline_draw(timeline_.get(), PIPETRAIN_SVG, out_of_range(1000000), nullptr, 0, &length);
      default:
        return pipetrain_timeline_draw(timeline_.get(), number(0, 4), 0, text, sizeof text, &length);
    }
  }

  std::mt19937 random_;
  PlanOwner plan_ = build_plan("1f1b", 2, 3);
  Chain chain_;
  TimelineOwner timeline_;
  void* freed_ = nullptr;
  int way_ = 0;
};

}  // namespace

TEST_CASE("a thousand misuses by seed all end in an error with its reason") {
  const Way way = GENERATE(Way::run, Way::run_on_any_thread);
  Misuser misuser(18, way);
  std::set<std::string> reasons;
  for (int i = 0; i < 1000; ++i) {
    const pipetrain_status status = misuser.misuse();
    INFO("misuse " << i << " in way " << misuser.way() << ", last error: " << pipetrain_last_error());
    REQUIRE(status != PIPETRAIN_OK);
    REQUIRE(std::strlen(pipetrain_last_error()) > 10);
    reasons.insert(pipetrain_last_error());
  }
  CHECK(reasons.size() > 100);
}

TEST_CASE("an answer that was given already is refused") {
  Chain chain({.way = Way::launch});
  REQUIRE(chain.create() == PIPETRAIN_OK);
  REQUIRE(chain.step(1) == PIPETRAIN_OK);
  auto action = sized<pipetrain_action>();
  CHECK(pipetrain_enqueued(chain.handle(), &action) == PIPETRAIN_MISUSE);
  CHECK(error_has("F0 on stage 0: it is not launched"));
  auto* const handle = chain.handle();
  REQUIRE(chain.free_pipeline() == PIPETRAIN_OK);
  CHECK(pipetrain_enqueued(handle, &action) == PIPETRAIN_MISUSE);
  CHECK(error_has("freed"));
}

TEST_CASE("a forked process is refused a step of its parent's pipeline, and may free it") {
  Chain chain({});
  REQUIRE(chain.create() == PIPETRAIN_OK);
  REQUIRE(chain.step(1) == PIPETRAIN_OK);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    const bool refused = chain.step(2) == PIPETRAIN_MISUSE && error_has("a fork has none of its threads") &&
                         chain.evaluate() == PIPETRAIN_MISUSE && error_has("a fork has none of its threads");
    const bool freed = chain.free_pipeline() == PIPETRAIN_OK;
    _exit(refused && freed ? 0 : 1);
  }
  int status = -1;
  REQUIRE(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 0);
  CHECK(chain.step(2) == PIPETRAIN_OK);
}
