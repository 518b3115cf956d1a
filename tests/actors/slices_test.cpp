// Runs whose microbatches pass the pipeline in slices of their sequence.
#include <cmath>
#include <tuple>

#include "actors/training/run/evaluation.hpp"
#include "actors/training/run/job_memory.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "data/samples/split.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/plan.hpp"
#include "thread_processes.hpp"
#include "tiny_run.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using Catch::Matchers::Contains;
using schedules::ActionKind;

namespace {

Layout sliced_on_cpus(int slices, Layout layout = {}) {
  layout.slices = slices;
  return layout;
}

// Compares losses and norms, which change with the order of sums.
void check_close_slices(const RunRecord& a, const RunRecord& b, double loss = 2e-6, double norm = 2e-5) {
  REQUIRE(a.loss.size() == b.loss.size());
  for (std::size_t step = 0; step < a.loss.size(); ++step) {
    INFO("step " << step + 1);
    CHECK(std::abs(a.loss[step] / b.loss[step] - 1) <= loss);
    CHECK(std::abs(a.grad_norm[step] / b.grad_norm[step] - 1) <= norm);
  }
}

// Checks that stages, chunks, threads and recomputation change no bit.
void check_same_in_layouts(TinyRun tiny, const RunRecord& expected) {
  tiny.layout.threads = 3;
  for (const auto& [pp, chunks, again] :
       {std::tuple{2, 1, Recompute::none}, {4, 1, Recompute::selective}, {2, 2, Recompute::full}, {2, 1, Recompute::full}}) {
    tiny.layout.pp = pp, tiny.layout.chunks = chunks, tiny.layout.recompute = again;
    tiny.layout.schedule = chunks > 1 ? "interleaved" : "1f1b";
    INFO(to_string(tiny));
    CHECK((run(tiny) == expected));
  }
}

}  // namespace

TEST_CASE("slices follow the golden trajectory, to the bit the same over pp and chunks", "[golden][slices]") {
  for (const std::string name : {"llama2_tiny", "llama3_tiny", "gpt2_tiny"}) {
    const Reference reference = golden_reference(name);
    const auto steps = static_cast<std::int64_t>(reference.loss.size());
    for (const int slices : {2, 4}) {
      const RunRecord first = run(golden_job(name, sliced_on_cpus(slices)), steps);
      INFO(name << ", " << slices << " slices");
      check_golden(first, reference);
      CHECK((run(golden_job(name, sliced_on_cpus(slices, {4})), steps) == first));
      if (name == "llama2_tiny") continue;
      const RunRecord over_ranks = run(golden_job(name, sliced_on_cpus(slices, {1, 2})), steps);
      check_golden(over_ranks, reference);
      if (name == "gpt2_tiny") continue;
      CHECK((run(golden_job(name, sliced_on_cpus(slices, {2, 2})), steps) == over_ranks));
      CHECK((run(golden_job(name, sliced_on_cpus(slices, {2})), steps) == first));
      CHECK((run(golden_job(name, sliced_on_cpus(slices, {2, 1, 1, 1, "interleaved", 2})), steps) == first));
    }
  }
}

TEST_CASE("slices of any length, in any layout, give what whole sequences give", "[slices]") {
  for (const Family family : {Family::llama, Family::gpt2}) {
    for (const bool tied : {false, true}) {
      const TinyRun whole{.family = family, .tied = tied, .sequence = 11, .microbatches = 4, .layout = {.microbatch = 2}};
      const RunRecord expected = run(whole);
      for (const int slices : {2, 3, 11}) {
        TinyRun tiny = whole;
        tiny.layout.slices = slices;
        const RunRecord first = run(tiny);
        INFO(to_string(tiny));
        check_close_slices(first, expected);
        tiny.layout.pp = 2;
        CHECK((run(tiny) == first));
        tiny.from_file = true;
        CHECK((run(tiny) == first));
        tiny.layout.threads = 3;
        for (const Recompute again : {Recompute::selective, Recompute::full}) {
          tiny.layout.recompute = again;
          CHECK((run(tiny) == first));
        }
        tiny.layout.dp = 2, tiny.microbatches = 2;
        check_close_slices(run(tiny), expected);
        tiny.layout.dp = 1, tiny.microbatches = 4, tiny.layout.tp = 2;
        check_close_slices(run(tiny), expected);
      }
    }
  }
}

// Checks that slices drop what whole sequences drop and isolate the same documents.
void check_against_whole(double dropout, bool isolated) {
  for (const Family family : {Family::llama, Family::gpt2}) {
    for (const int precision : {0, 1}) {
      const TinyRun whole{.family = family,
                          .tied = precision == 0,
                          .layers = 4,
                          .sequence = 11,
                          .microbatches = 4,
                          .dropout = dropout,
                          .isolated = isolated,
                          .precision = precision,
                          .layout = {.microbatch = 2}};
      const RunRecord expected = run(whole);
      const double loss = precision == 0 ? 2e-6 : 5e-3, norm = precision == 0 ? 2e-5 : 5e-2;
      for (const int slices : {3, 11}) {
        if (precision > 0 && slices > 3) continue;
        TinyRun tiny = whole;
        tiny.layout.slices = slices;
        const RunRecord first = run(tiny);
        INFO(to_string(tiny));
        check_close_slices(first, expected, loss, norm);
        check_same_in_layouts(tiny, first);
        tiny.layout.tp = 2;
        check_close_slices(run(tiny), expected, loss, norm);
        tiny.layout.sequence_parallel = false;
        check_close_slices(run(tiny), expected, loss, norm);
        tiny.layout.tp = 1, tiny.layout.dp = 2, tiny.microbatches = 2;
        check_close_slices(run(tiny), expected, loss, norm);
      }
    }
  }
}

TEST_CASE("slices drop what whole sequences drop, to the bit the same in every layout", "[slices]") {
  check_against_whole(0.3, false);
}

TEST_CASE("slices keep apart the documents that whole sequences keep apart, to the bit the same in every layout",
          "[slices][documents]") {
  check_against_whole(0, true);
  check_against_whole(0.3, true);
}

TEST_CASE("16-bit activations in slices stay as close as they are", "[slices]") {
  for (const int precision : {1, 2}) {
    TinyRun tiny{.sequence = 12, .precision = precision, .layout = {.pp = 2}};
    const RunRecord whole = run(tiny);
    tiny.layout.slices = 3;
    const RunRecord in_slices = run(tiny);
    INFO(to_string(tiny));
    check_close_slices(in_slices, whole, 5e-3, 5e-2);
    tiny.layout.pp = 1;
    CHECK((run(tiny) == in_slices));
  }
}

TEST_CASE("a slice's backward in its two halves gives the bits of one", "[slices]") {
  const TinyRun tiny{.layers = 4, .sequence = 9, .microbatches = 3, .layout = {.pp = 2, .slices = 3}};
  schedules::Plan plan = schedules::build_schedule("1f1b", {2, 1, 3, 3});
  for (auto& list : plan.stages) {
    std::vector<schedules::Action> split, later;
    for (const auto& action : list) {
      if (action.kind == ActionKind::forward) {
        split.push_back(action);
        continue;
      }
      split.push_back({ActionKind::input_grad, action.chunk, action.microbatch});
      later.push_back({ActionKind::weight_grad, action.chunk, action.microbatch});
      if (later.size() < 5) continue;
      split.push_back(later.front());
      later.erase(later.begin());
    }
    list = split;
    list.insert(list.end(), later.begin(), later.end());
  }
  TrainJob job = job_of(tiny);
  job.layout.plan = std::make_shared<const schedules::Plan>(plan);
  CHECK((run(std::move(job), 2) == run(tiny)));
}

TEST_CASE("slices over several processes give the bits of one", "[slices][processes]") {
  for (const auto& [dropout, isolated] : {std::pair{0.0, false}, {0.2, false}, {0.2, true}}) {
    const TinyRun tiny{.layers = 4,
                       .sequence = 10,
                       .microbatches = 3,
                       .dropout = dropout,
                       .isolated = isolated,
                       .layout = {.pp = 2, .tp = 2, .slices = 3}};
    const RunRecord one = run(tiny);
    CHECK((run_over(2, [&] { return job_of(tiny); }) == one));
  }
  const TinyRun shared{.layers = 4, .sequence = 12, .microbatches = 3, .layout = {.pp = 2, .slices = 3, .cp = 2}};
  CHECK((run_over(2, [&] { return job_of(shared); }) == run(shared)));
}

TEST_CASE("an evaluation in slices has the loss of whole sequences, and leaves no trace", "[slices]") {
  const bool isolated = GENERATE(false, true);
  const auto evaluated = [isolated](int slices, int pp) {
    TrainJob job = job_of({.sequence = 10, .isolated = isolated, .layout = sliced_on_cpus(slices, {.pp = pp})});
    job.evaluation = split_dataset(job.dataset, 0.021, 3).evaluation;
    Trainer trainer(std::move(job));
    std::vector<double> losses;
    for (int step = 0; step < 2; ++step) {
      losses.push_back(trainer.evaluate()->loss);
      losses.push_back(trainer.step().loss);
    }
    return losses;
  };
  const auto whole = evaluated(1, 1), in_slices = evaluated(4, 1);
  for (std::size_t i = 0; i < whole.size(); ++i) CHECK(in_slices[i] == Approx(whole[i]).epsilon(2e-6));
  CHECK(evaluated(4, 2) == in_slices);
}

TEST_CASE("slices keep a fraction of the activations, which the estimate knows", "[slices]") {
  const auto activations = [](int slices, Recompute recompute = Recompute::none) {
    const TrainJob job = random_job(preset_config("tiny"), 256, 8, sliced_on_cpus(slices, {.pp = 4, .recompute = recompute}));
    return estimate_job(job).devices.front().use.activations;
  };
  // 4 whole microbatches on the first stage of 4; then 8 + 3 slices of 8, and keys' and values' gradients.
  CHECK(static_cast<double>(activations(8)) < 0.5 * static_cast<double>(activations(1)));
  CHECK(static_cast<double>(activations(8, Recompute::full)) < 0.5 * static_cast<double>(activations(8)));
}

TEST_CASE("settings that exclude slices give one line", "[slices]") {
  const TinyRun tiny{.sequence = 8, .layout = sliced_on_cpus(2, {.pp = 2})};
  TinyRun other = tiny;
  other.layout.slices = 9;
  CHECK_THAT(refusal(job_of(other)), Contains("slices 9: a sequence of 8 tokens has fewer than that"));
  other = tiny, other.layout.schedule = "zb-h1";
  CHECK_THAT(refusal(job_of(other)), Contains("slices 2: the schedule passes whole microbatches"));
  CHECK(refusal(job_of(tiny)) == "none");
}
