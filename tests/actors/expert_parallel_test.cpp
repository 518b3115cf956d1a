// Replicas that divide the experts follow the golden trajectories, with equal bits over pp, schedules, orders and processes.
#include <algorithm>
#include <cmath>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "catch.hpp"
#include "data/samples/split.hpp"
#include "golden_run.hpp"
#include "model/weights/equal_logits.hpp"
#include "schedules/builders/builders.hpp"
#include "temp_folder.hpp"
#include "thread_processes.hpp"
#include "tiny_run.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::Order;

namespace {

Layout with_expert_parts(int ep, Layout layout, int zero = 0) {
  layout.ep = ep;
  layout.zero = zero;
  return layout;
}

TinyRun routed_run(const Layout& layout) {
  return {.family = Family::qwen2_moe, .layers = 4, .sequence = 12, .microbatches = 3, .layout = layout};
}

}  // namespace

namespace {

std::string routed_golden() {
  return GENERATE("mixtral_tiny", "qwen2_moe_tiny", "qwen3_moe_tiny", "olmoe_tiny", "gpt_oss_tiny", "deepseek_v2_groups_tiny",
                  "deepseek_v3_tiny", "deepseek_v3_mtp_tiny");
}

struct ScheduleAndZero {
  const char* schedule;
  int chunks, zero;
};

void check_divided_experts(const std::string& name, const Layout& layout, const std::vector<ScheduleAndZero>& others) {
  const Reference reference = golden_reference(name);
  const auto steps = static_cast<std::int64_t>(reference.loss.size());
  INFO(name << " " << to_string(layout));
  const RunRecord first = run(golden_job(name, layout), steps);
  check_golden(first, reference);
  Layout whole = layout;
  whole.ep = 1;
  CHECK(run(golden_job(name, whole), 1).loss.front() == first.loss.front());
  for (const auto& [schedule, chunks, zero] : others) {
    Layout other = layout;
    other.pp = 2;
    other.schedule = schedule;
    other.chunks = chunks;
    other.zero = zero;
    INFO(to_string(other));
    CHECK((run(golden_job(name, other), steps) == first));
  }
}

}  // namespace

TEST_CASE("replicas that divide the experts follow the golden trajectory, to the bit the same over pp and schedules",
          "[golden][experts]") {
  const std::string name = routed_golden();
  check_divided_experts(name, with_expert_parts(2, {1, 2, 2, 1}), {{"1f1b", 1, 2}});
  check_divided_experts(name, with_expert_parts(4, {1, 1, 4, 1}), {{"zb-v", 2, 3}});
}

TEST_CASE("replicas that divide the experts follow the golden trajectory in every schedule and stage of ZeRO",
          "[golden][experts][slow]") {
  const std::string name = routed_golden();
  std::vector<ScheduleAndZero> others;
  for (const auto& [schedule, chunks] : {std::pair{"1f1b", 1}, {"zb-h1", 1}, {"zb-v", 2}, {"looped-bfs", 2}})
    for (const int zero : {0, 1, 2, 3}) others.push_back({schedule, chunks, zero});
  for (const Layout& layout : {with_expert_parts(2, {1, 1, 2, 2}), with_expert_parts(2, {1, 2, 2, 1}),
                               with_expert_parts(2, {1, 1, 4, 1}), with_expert_parts(4, {1, 1, 4, 1})})
    check_divided_experts(name, layout, others);
}

TEST_CASE("every schedule and order gives the bits of 1f1b where replicas divide the experts", "[experts]") {
  const RunRecord reference = run(routed_run(with_expert_parts(2, {1, 1, 4})));
  for (const auto& schedule : schedules::all_schedules()) {
    for (const auto order : {Order::planned, Order::ready}) {
      if (order == Order::ready && !schedule.has_ready_rule) continue;
      const TinyRun tiny =
          routed_run(with_expert_parts(2, {2, 1, 4, 1, std::string(schedule.name), schedule.default_chunks, order}));
      INFO(to_string(tiny));
      CHECK((run(tiny) == reference));
    }
  }
}

TEST_CASE("braids hide the exchanges of experts, and give the bits of 1f1b", "[experts][braids]") {
  const std::string name = GENERATE("mixtral_tiny", "qwen2_moe_tiny", "deepseek_v3_tiny");
  for (const Layout& layout :
       {with_expert_parts(2, {1, 1, 2, 2}), with_expert_parts(2, {1, 2, 2, 1}, 1), with_expert_parts(2, {1, 1, 4, 1}, 2)}) {
    const RunRecord first = run(golden_job(name, layout), 2);
    for (const int pp : {1, 2}) {
      for (const Recompute recompute : {Recompute::none, Recompute::full}) {
        Layout braided = layout;
        braided.pp = pp;
        braided.schedule = "braided-v";
        braided.chunks = 2;
        braided.recompute = recompute;
        INFO(name << " " << to_string(braided));
        CHECK((run(golden_job(name, braided), 2) == first));
        if (recompute == Recompute::none) CHECK((run_over(2, [&] { return golden_job(name, braided); }) == first));
      }
    }
  }
}

TEST_CASE("offloading and recomputation keep the bits where replicas divide the experts", "[experts]") {
  const RunRecord reference = run(golden_job("mixtral_tiny", with_expert_parts(2, {1, 1, 4, 1})), 3);
  for (const int zero : {0, 1, 2}) {
    for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full}) {
      for (const bool offloads : {false, true}) {
        Layout layout = with_expert_parts(2, {2, 1, 4, 1, "zb-h1"}, zero);
        layout.recompute = mode;
        layout.offload = layout.parameters = layout.gradients = offloads;
        INFO(to_string(layout));
        CHECK((run(golden_job("mixtral_tiny", layout), 3) == reference));
      }
    }
  }
}

TEST_CASE("a router that sends every token to the same experts trains on every layout", "[experts]") {
  std::vector<RunRecord> of_one_stage;
  for (const int ep : {1, 2, 3}) {
    for (const int tp : {1, 2}) {
      std::optional<RunRecord> first;
      for (const auto& [pp, schedule, zero] :
           {std::tuple{1, "1f1b", 0}, std::tuple{2, "1f1b", 3}, std::tuple{3, "zb-h1", 1}, std::tuple{2, "zb-h2", 2}}) {
        Layout layout = with_expert_parts(ep, {pp, tp, 6, 1, schedule}, zero);
        TrainJob job = job_of(routed_run(layout));
        job.initial.weights = std::make_shared<EqualLogits>(job.initial.weights);
        INFO(to_string(layout));
        const RunRecord record = run(job, 3);
        for (const double loss : record.loss) CHECK(std::isfinite(loss));
        if (!first) first = record;
        CHECK((record == *first));
      }
      if (tp == 1) of_one_stage.push_back(*first);
    }
  }
  for (const RunRecord& record : of_one_stage) {
    CHECK(record.loss.front() == of_one_stage.front().loss.front());
    for (std::size_t step = 0; step < record.loss.size(); ++step)
      CHECK(record.loss[step] == Approx(of_one_stage.front().loss[step]).epsilon(2e-5));
  }
}

TEST_CASE("the replicas that divide the experts may be in different processes", "[processes][experts]") {
  for (const Layout& layout : {with_expert_parts(2, {1, 1, 2}), with_expert_parts(2, {2, 1, 2}, 1),
                               with_expert_parts(3, {1, 2, 3}, 3), with_expert_parts(2, {2, 1, 4, 1, "zb-h1"}, 2)}) {
    const TinyRun tiny = routed_run(layout);
    const RunRecord one = run(tiny);
    const int ranks = layout.pp * layout.tp * layout.dp;
    for (const int processes : {2, 3, ranks}) {
      if (processes > ranks) continue;
      INFO(processes << " processes: " << to_string(tiny));
      CHECK((run_over(processes, [&] { return job_of(tiny); }) == one));
    }
  }
}

TEST_CASE("a checkpoint does not depend on ep, and another ep, pp and dp resume from it", "[experts]") {
  const TempFolder folder;
  const auto job_from = [](const std::filesystem::path& checkpoint, const Layout& layout) {
    TrainJob job = golden_job("olmoe_tiny", layout);
    if (checkpoint.empty()) return job;
    const CheckpointManifest manifest = verify_checkpoint(checkpoint);
    job.initial = open_checkpoint(checkpoint, manifest, job.config);
    job.steps_done = manifest.state.step;
    return job;
  };
  const RunRecord whole = run(golden_job("olmoe_tiny", {}), 6);
  const std::vector<Layout> layouts{with_expert_parts(1, {2, 1, 2}), with_expert_parts(2, {1, 2, 2}),
                                    with_expert_parts(2, {2, 1, 4}, 2), with_expert_parts(4, {1, 1, 4}, 3)};
  for (std::size_t from = 0; from < layouts.size(); ++from) {
    const auto place = folder.path() / std::to_string(from);
    Trainer trainer(job_from({}, layouts[from]));
    for (int step = 0; step < 3; ++step) trainer.step();
    trainer.start_checkpoint(place).get();
    for (const Layout& to : layouts) {
      INFO(to_string(layouts[from]) << " to " << to_string(to));
      const RunRecord rest = run(job_from(checkpoint_path(place, 3), to), 3);
      for (std::size_t step = 0; step < 3; ++step) CHECK(std::abs(rest.loss[step] / whole.loss[step + 3] - 1) <= 2e-5);
      if (&to != &layouts[from]) continue;
      const RunRecord unbroken = run(golden_job("olmoe_tiny", to), 6);
      CHECK(std::equal(rest.loss.begin(), rest.loss.end(), unbroken.loss.begin() + 3));
    }
  }
}

TEST_CASE("an evaluation finds the same loss at every ep", "[experts]") {
  std::optional<double> whole;
  for (const int ep : {1, 2, 3, 6}) {
    TrainJob job = job_of(routed_run(with_expert_parts(ep, {2, 1, 6})));
    job.evaluation = split_dataset(job.dataset, 0.02, 3).evaluation;
    Trainer trainer(job);
    const double loss = trainer.evaluate()->loss;
    if (!whole) whole = loss;
    CHECK(loss == *whole);
  }
}

TEST_CASE("ep must divide dp and the experts of a model that has some", "[experts]") {
  CHECK(refusal(job_of(routed_run(with_expert_parts(2, {1, 1, 3})))) ==
        "ep 2: the experts are divided over replicas, and dp is 3; use a number that divides dp");
  CHECK(refusal(job_of(routed_run(with_expert_parts(4, {1, 1, 4})))) ==
        "ep 4: 6 experts cannot be divided evenly over 4 devices; use one of 1, 2, 3, 6");
  TinyRun dense;
  dense.layout = with_expert_parts(2, {1, 1, 2});
  CHECK(refusal(job_of(dense)) == "ep 2: the model has no routed experts; leave it out");
}

TEST_CASE("a capacity drops the same choices on every layout, and none where it is large", "[experts]") {
  const auto job_with = [](double capacity, const Layout& layout) {
    TrainJob job = job_of(routed_run(layout));
    job.config.router_rules.capacity = capacity;
    return job;
  };
  const auto dropped = [](TrainJob job) {
    Trainer trainer(std::move(job));
    double sum = 0;
    for (const RoutedLayer& layer : trainer.step().routed) sum += layer.dropped;
    return sum;
  };
  const Layout one_stage{1, 1, 4};
  CHECK(dropped(job_with(0, one_stage)) == 0);
  CHECK((run(job_with(3, one_stage), 2) == run(job_with(0, one_stage), 2)));  // 6 experts, of which each token chooses 2
  const double some = dropped(job_with(1, one_stage));
  CHECK(some > 0);
  const RunRecord reference = run(job_with(1, one_stage), 2);
  CHECK(reference.loss != run(job_with(0, one_stage), 2).loss);
  for (const Layout& layout : {with_expert_parts(2, one_stage), with_expert_parts(2, {2, 1, 4, 1, "zb-h1"}, 3)}) {
    INFO(to_string(layout));
    CHECK(dropped(job_with(1, layout)) == some);
    const RunRecord record = run(job_with(1, layout), 2);
    CHECK(record.loss.front() == reference.loss.front());
    CHECK(record.loss.back() == Approx(reference.loss.back()).epsilon(2e-5));
  }
}

TEST_CASE("biases of experts even skewed loads, continue from checkpoints and are the same on every layout", "[experts]") {
  const auto job_with = [](float rate, const Layout& layout) {
    TrainJob job = job_of(routed_run(layout));
    job.config.router_rules.bias_rate = rate;
    job.config.router_losses = {};
    return job;
  };
  const auto spread = [](const StepReport& report) { return expert_load(report.routed).cv; };
  Trainer trainer(job_with(0.02F, {1, 1, 2}));
  const double first = spread(trainer.step());
  double last = first;
  for (int step = 0; step < 40; ++step) last = spread(trainer.step());
  CHECK(first > 0.3);
  CHECK(last < 0.7 * first);

  const TempFolder folder;
  Trainer begun(job_with(0.02F, {2, 1, 2}));
  for (int step = 0; step < 3; ++step) begun.step();
  begun.start_checkpoint(folder.path()).get();
  const CheckpointManifest manifest = verify_checkpoint(checkpoint_path(folder.path(), 3));
  REQUIRE(manifest.state.expert_biases.size() == 3);  // the second of four layers has no experts
  CHECK(manifest.state.expert_biases.front().size() == 6);
  const RunRecord whole = run(job_with(0.02F, {1, 1, 2}), 5);
  for (const Layout& layout : {Layout{1, 1, 2}, Layout{2, 1, 2, 1, "zb-h1"}, with_expert_parts(2, {1, 1, 2})}) {
    INFO(to_string(layout));
    TrainJob job = job_with(0.02F, layout);
    job.initial = open_checkpoint(checkpoint_path(folder.path(), 3), manifest, job.config);
    job.steps_done = 3;
    const RunRecord rest = run(job, 2);
    for (std::size_t step = 0; step < 2; ++step) {
      if (layout.ep == 1) CHECK(rest.loss[step] == whole.loss[step + 3]);
      CHECK(rest.loss[step] == Approx(whole.loss[step + 3]).epsilon(2e-5));
    }
  }
}

TEST_CASE("biases bring the loads of a skewed start within 10 % of the mean in 200 steps", "[experts][slow]") {
  TrainJob job = golden_job("mixtral_tiny", {1, 1, 1, 4});
  job.config.router_rules.bias_rate = 0.002;
  job.config.router_losses = {};
  Trainer trainer(job);
  CHECK(expert_load(trainer.step().routed).max > 1.3);
  std::vector<double> loads;
  for (int step = 1; step < 200; ++step) {
    const StepReport report = trainer.step();
    if (step < 180) continue;  // a step alone has few tokens
    for (std::size_t layer = 0; layer < report.routed.size(); ++layer) {
      const std::vector<double>& own = report.routed[layer].loads;
      loads.resize(std::max(loads.size(), (layer + 1) * own.size()));
      for (std::size_t expert = 0; expert < own.size(); ++expert) loads[layer * own.size() + expert] += own[expert];
    }
  }
  for (std::size_t layer = 0; layer < loads.size() / 8; ++layer) {
    const auto begin = loads.begin() + static_cast<std::ptrdiff_t>(layer * 8);
    const double mean = std::accumulate(begin, begin + 8, 0.0) / 8;
    for (auto load = begin; load != begin + 8; ++load) CHECK(std::abs(*load / mean - 1) < 0.1);
  }
}
