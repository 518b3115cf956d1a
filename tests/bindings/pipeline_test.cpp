// Pipelines of the C API with the caller's compute: the numbers of training without a pipeline, and every way to fail.
#include <string>
#include <thread>

#include "bindings/chain.hpp"
#include "catch.hpp"

using namespace pipetrain::test;

namespace {

const char* name_of(Way way) { return way == Way::launch ? ", launched" : way == Way::run ? ", run" : ", run on any thread"; }

void check_trains(const ChainOptions& options) {
  INFO(options.schedule << name_of(options.way) << (options.order == PIPETRAIN_READY ? ", ready" : ""));
  Chain chain(options);
  INFO(pipetrain_last_error());
  REQUIRE(chain.create() == PIPETRAIN_OK);
  for (int step = 1; step <= 3; ++step) REQUIRE(chain.step(step) == PIPETRAIN_OK);
  CHECK(chain.weights() == Chain::reference(static_cast<int>(chain.weights().size()), options.microbatches, 3));
  CHECK(chain.tensors_alive() > 0);
  REQUIRE(chain.free_pipeline() == PIPETRAIN_OK);
  CHECK(chain.tensors_alive() == 0);
}

std::string waiting_lines() {
  std::string lines;
  for (std::size_t i = 0; pipetrain_last_waiting(i) != nullptr; ++i) lines += std::string(pipetrain_last_waiting(i)) + '\n';
  return lines;
}

}  // namespace

TEST_CASE("a pipeline of callbacks trains to the same bits under every schedule") {
  auto schedule = sized<pipetrain_schedule>();
  for (std::size_t i = 0; pipetrain_schedule_at(i, &schedule) == PIPETRAIN_OK; ++i) {
    for (const Way way : ways) {
      check_trains({.schedule = schedule.name, .way = way});
      if (schedule.has_ready_rule) check_trains({.schedule = schedule.name, .order = PIPETRAIN_READY, .way = way});
    }
  }
}

TEST_CASE("an evaluation runs forwards alone, gives the loss and changes nothing") {
  for (const Way way : ways) {
    Chain chain({.microbatches = 3, .way = way});
    INFO(pipetrain_last_error());
    REQUIRE(chain.create() == PIPETRAIN_OK);
    REQUIRE(chain.step(1) == PIPETRAIN_OK);
    CHECK(chain.launched() == "step F F F B B B N = O");
    const std::vector<double> weights = chain.weights();
    double loss = 0;
    for (int m = 0; m < 3; ++m) {
      double x = Chain::input(m);
      for (const double weight : weights) x *= weight;
      loss += (x - 6 * Chain::input(m)) * (x - 6 * Chain::input(m)) / 3;
    }
    for (int i = 0; i < 2; ++i) {
      REQUIRE(chain.evaluate() == PIPETRAIN_OK);
      CHECK(chain.launched() == "evaluation F F F N -");
      CHECK(chain.loss() == loss);
      CHECK(chain.weights() == weights);
    }
    pipetrain_timeline* timeline = nullptr;
    REQUIRE(pipetrain_pipeline_timeline(chain.pipeline(), &timeline) == PIPETRAIN_OK);
    const TimelineOwner owner(timeline);
    std::size_t spans = 0;
    REQUIRE(pipetrain_timeline_length(timeline, 0, &spans) == PIPETRAIN_OK);
    CHECK(spans == 3 + 1);
    for (int step = 2; step <= 3; ++step) REQUIRE(chain.step(step) == PIPETRAIN_OK);
    CHECK(chain.weights() == Chain::reference(3, 3, 3));
  }
}

TEST_CASE("a program of the header before evaluations gives a shorter struct, which is a step") {
  Chain chain({});
  REQUIRE(chain.create() == PIPETRAIN_OK);
  auto step = sized<pipetrain_step>();
  step.struct_size = offsetof(pipetrain_step, evaluation);
  step.step = 1;
  step.evaluation = 77;  // beyond the end of the struct
  CHECK(pipetrain_pipeline_step(chain.pipeline(), &step, nullptr, nullptr) == PIPETRAIN_OK);
  CHECK(chain.launched().starts_with("step"));
  step.struct_size = sizeof step - 1;
  CHECK(pipetrain_pipeline_step(chain.pipeline(), &step, nullptr, nullptr) == PIPETRAIN_INPUT);
  CHECK(error_has("step.struct_size: 47 is not the size of the struct, 48"));
  step.struct_size = sizeof step;
  CHECK(pipetrain_pipeline_step(chain.pipeline(), &step, nullptr, nullptr) == PIPETRAIN_INPUT);
  CHECK(error_has("step.evaluation: 77; use 0 or 1"));
}

TEST_CASE("the timeline of a step that ran has all of its actions") {
  Chain chain({});
  REQUIRE(chain.create() == PIPETRAIN_OK);
  pipetrain_timeline* timeline = nullptr;
  CHECK(pipetrain_pipeline_timeline(chain.pipeline(), &timeline) == PIPETRAIN_MISUSE);
  REQUIRE(chain.step(1) == PIPETRAIN_OK);
  REQUIRE(pipetrain_pipeline_timeline(chain.pipeline(), &timeline) == PIPETRAIN_OK);
  const TimelineOwner owner(timeline);
  for (int row = 0; row < 3; ++row) {
    std::size_t spans = 0;
    REQUIRE(pipetrain_timeline_length(timeline, row, &spans) == PIPETRAIN_OK);
    CHECK(spans == 6 + 6 + 2);
  }
  auto span = sized<pipetrain_span>();
  REQUIRE(pipetrain_timeline_span(timeline, 2, 0, &span) == PIPETRAIN_OK);
  CHECK(span.end >= span.start);
  CHECK(span.waited_for == PIPETRAIN_WAITED_ACTIVATION);
}

TEST_CASE("a callback that fails or throws ends the step with its line and who waited") {
  for (const Way way : ways) {
    for (const Fault fault : {Fault::error, Fault::exception}) {
      Chain chain({.way = way, .fault = fault});
      REQUIRE(chain.create() == PIPETRAIN_OK);
      CHECK(chain.step(1) == PIPETRAIN_INTERNAL);
      CHECK(error_has("stage 1"));
      CHECK(error_has(fault == Fault::error ? "the second number is broken" : "thrown by a callback"));
      CHECK(waiting_lines().find("stage 2: ") != std::string::npos);
      CHECK(chain.step(2) == PIPETRAIN_INTERNAL);
      CHECK(chain.free_pipeline() == PIPETRAIN_OK);
    }
  }
}

TEST_CASE("a launch that nobody answers is named after the stall timeout") {
  Chain chain({.way = Way::launch, .fault = Fault::no_answer, .stall_seconds = 0.3});
  REQUIRE(chain.create() == PIPETRAIN_OK);
  CHECK(chain.step(1) == PIPETRAIN_PEER_LOST);
  CHECK(error_has("stage 1"));
  CHECK(error_has("stall timeout"));
  CHECK(chain.free_pipeline() == PIPETRAIN_OK);
}

TEST_CASE("a callback that does not return is named, and its pipeline is not freed under it") {
  for (const Way way : ways) {
    Chain chain({.way = way, .fault = Fault::no_return, .stall_seconds = 0.3});
    REQUIRE(chain.create() == PIPETRAIN_OK);
    CHECK(chain.step(1) == PIPETRAIN_PEER_LOST);
    CHECK(error_has("stage 1"));
    CHECK(error_has("stall timeout"));
    CHECK(chain.free_pipeline() == PIPETRAIN_MISUSE);
    CHECK(error_has("F1 on stage 1"));
    chain.let_return();
    CHECK(chain.free_pipeline() == PIPETRAIN_OK);
  }
}

TEST_CASE("a step can be aborted, and is refused while another one runs") {
  const Way way = GENERATE(Way::run, Way::run_on_any_thread);
  Chain chain({.way = way, .fault = Fault::no_return, .grace_seconds = 5});
  REQUIRE(chain.create() == PIPETRAIN_OK);
  pipetrain_status status = PIPETRAIN_OK;
  std::string line;
  std::thread stepper([&] {
    status = chain.step(1);
    line = pipetrain_last_error();
  });
  std::string waiting;
  while (waiting.find("stage 1: launched") == std::string::npos)
    waiting = text_of([&](char* text, std::size_t capacity, std::size_t* length) {
      return pipetrain_pipeline_waiting(chain.pipeline(), text, capacity, length);
    });
  CHECK(chain.step(2) == PIPETRAIN_MISUSE);
  CHECK(chain.evaluate() == PIPETRAIN_MISUSE);
  CHECK(error_has("evaluate: a step of this pipeline is running"));
  CHECK(chain.free_pipeline() == PIPETRAIN_MISUSE);
  CHECK(pipetrain_pipeline_abort(chain.pipeline(), "enough of it") == PIPETRAIN_OK);
  chain.let_return();
  stepper.join();
  CHECK(status == PIPETRAIN_ABORTED);
  CHECK(line.find("enough of it") != std::string::npos);
}

TEST_CASE("custom actions of a plan go to the compute, by name and in their order") {
  const std::string plan =
      "microbatches: 2\ncustom X0: fetch after 1:F0 uses nic\ncustom X1: send uses nic\n"
      "stage 0: F0 F1 X0 B0 B1 N O\nstage 1: F0 F1 B0 X1 B1 N O\n";
  for (const Way way : ways) {
    Chain chain({.plan = plan, .stages = 2, .microbatches = 2, .way = way});
    INFO(pipetrain_last_error());
    REQUIRE(chain.create() == PIPETRAIN_OK);
    for (int step = 1; step <= 3; ++step) REQUIRE(chain.step(step) == PIPETRAIN_OK);
    CHECK(chain.weights() == Chain::reference(2, 2, 3));
    CHECK(chain.customs() == "0:fetch 1:send 0:fetch 1:send 0:fetch 1:send ");
  }
}
