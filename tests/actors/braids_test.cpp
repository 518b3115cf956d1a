// Runs of plans with braids: two actions of a stage whose tensor-parallel ranks take turns.
#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "actors/training/rank/braid.hpp"
#include "actors/training/rank/stage_memory.hpp"
#include "actors/training/rank/turns.hpp"
#include "actors/training/run/evaluation.hpp"
#include "actors/training/run/job_memory.hpp"
#include "braid_failures.hpp"
#include "catch.hpp"
#include "comm/inproc/inprocess_group.hpp"
#include "core/cpu_stream.hpp"
#include "core/device.hpp"
#include "core/error.hpp"
#include "data/samples/split.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/plan_text.hpp"
#include "schedules/plan/validate.hpp"
#include "thread_processes.hpp"
#include "tiny_run.hpp"
#include "wait_until.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using Catch::Matchers::Contains;

namespace {

Layout braided_on_cpus(Layout layout) {
  layout.schedule = "braided-v";
  layout.chunks = 2;
  return layout;
}

// Every kind of braid, on two stages of one chunk.
const char* const every_kind =
    "schedule: hand\nmicrobatches: 6\n"
    "stage 0: F0+F1 F2 F3+I0 F4+W0 F5+B1 B2 B3 B4 B5\n"
    "stage 1: F0 F1+B0 F2+I1 F3+W1 F4+B2 F5+B3 B4 B5\n";

TrainJob job_of_text(const TinyRun& tiny, const std::string& text) {
  TrainJob job = job_of(tiny);
  job.layout.plan = std::make_shared<const schedules::Plan>(schedules::parse_plan(text, "plan.txt"));
  return job;
}

}  // namespace

TEST_CASE("two jobs run in turns, one at a time, and the first failure is thrown", "[braids]") {
  Turns turns("turns");
  std::string order;
  for (int round = 0; round < 50; ++round) {
    order.clear();
    turns.run(
        [&] {
          order += "a", turns.pass();
          order += "b", turns.pass();
          order += "c";
        },
        [&] {
          order += "A", turns.pass();
          order += "B", turns.pass();
          order += "C", turns.pass();
          order += "D";
        });
    REQUIRE(order == "aAbBcCD");
  }
  turns.pass();  // outside of a braid it has no effect
  CHECK_THROWS_WITH(
      turns.run([] { throw Error(ErrorKind::internal, "first"); }, [] { throw Error(ErrorKind::internal, "second"); }),
      Contains("first"));
  order.clear();
  CHECK_THROWS_WITH(
      turns.run([&] { order += "a", turns.pass(), order += "b"; }, [&] { throw Error(ErrorKind::internal, "second"); }),
      Contains("second"));
  CHECK(order == "a");  // the thread has left the braid
  order.clear();
  CHECK_THROWS_WITH(turns.run([] { throw Error(ErrorKind::internal, "first"); }, [&] { order += "A"; }), Contains("first"));
  CHECK(order.empty());
  turns.run([&] { order += "a"; }, [&] { order += "A"; });
  CHECK(order == "aA");
}

// The first rank's second action computes before the other rank reaches the first collective at all: if it waited for
// that, both would wait for ever.
TEST_CASE("a braid's second action computes while the first one's collective is on its way", "[braids]") {
  const auto device = make_cpu_device(0, 1);
  auto groups = make_inprocess_groups(2);
  std::atomic<bool> computed{false}, gave_up{false};
  std::vector<std::vector<double>> values(2, std::vector<double>(2));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank)
    ranks.emplace_back([&, rank] {
      auto& own = values[static_cast<std::size_t>(rank)];
      const auto stream = device->make_stream("compute");
      Braid braid(*device, "braid");
      BraidGroup group(*groups[static_cast<std::size_t>(rank)], braid);
      const auto sum = [&](double& value, double begin) {
        cpu_stream(*stream).enqueue([&value, begin] { value = begin; });
        group.all_reduce(*stream, {&value, {1}, DType::f64}, Reduction::sum);
      };
      if (rank == 1)  // arrives late
        cpu_stream(*stream).enqueue([&] { gave_up = !wait_until([&] { return computed.load(); }); });
      braid.run([&] { sum(own[0], rank + 1.0); },
                [&] {
                  if (rank == 0) cpu_stream(*stream).enqueue([&] { computed = true; });
                  sum(own[1], 10.0 * (rank + 1));
                });
      stream->synchronize();
    });
  for (std::thread& rank : ranks) rank.join();
  CHECK_FALSE(gave_up);
  for (const auto& own : values) CHECK(own == std::vector<double>{3, 30});
}

TEST_CASE("braids follow the golden trajectory with the bits of 1f1b over tp", "[golden][braids]") {
  for (const std::string name : {"llama2_tiny", "llama3_tiny", "gpt2_tiny"}) {
    const Reference reference = golden_reference(name);
    const auto steps = static_cast<std::int64_t>(reference.loss.size());
    const RunRecord first = run(golden_job(name, {1, 2}), steps);
    const RunRecord braids = run(golden_job(name, braided_on_cpus({2, 2})), steps);
    INFO(name);
    check_golden(braids, reference);
    CHECK((braids == first));
  }
}

TEST_CASE("braids give the bits of one stage at equal tp, in every layout", "[braids]") {
  for (const Family family : {Family::llama, Family::gpt2}) {
    TinyRun tiny{.family = family, .tied = family == Family::gpt2, .layers = 4, .microbatches = 8, .dropout = 0.2};
    for (const Layout& layout :
         {Layout{1, 2}, Layout{2, 2}, Layout{2, 2, 2}, Layout{4, 2}, Layout{2, 1},
          Layout{.pp = 2, .tp = 2, .sequence_parallel = false},
          Layout{.pp = 2, .tp = 2, .threads = 3, .recompute = Recompute::selective},
          Layout{.pp = 2, .tp = 2, .recompute = Recompute::full}, Layout{.pp = 2, .tp = 2, .dp = 2, .zero = 1},
          Layout{.pp = 2, .tp = 2, .dp = 2, .zero = 2}, Layout{.pp = 2, .tp = 2, .loss_chunks = 3}}) {
      tiny.layout = braided_on_cpus(layout);
      INFO(to_string(tiny));
      CHECK((run(tiny) == run(reference_of(tiny))));
      tiny.from_file = !tiny.from_file;
    }
  }
  for (const int precision : {1, 2}) {
    const TinyRun tiny{.microbatches = 8, .isolated = true, .precision = precision, .layout = braided_on_cpus({2, 2})};
    INFO(to_string(tiny));
    CHECK((run(tiny) == run(reference_of(tiny))));
  }
  const TinyRun shared{.layers = 2, .sequence = 12, .microbatches = 6, .layout = [] {
                         Layout layout = braided_on_cpus({2, 2});
                         layout.cp = 2;
                         return layout;
                       }()};
  CHECK((run(shared) == run(reference_of(shared))));
}

TEST_CASE("every kind of braid gives the same bits", "[braids]") {
  for (const Family family : {Family::llama, Family::gpt2})
    for (const bool sequence_parallel : {true, false})
      for (const int tp : {1, 2}) {
        TinyRun tiny{.family = family, .microbatches = 6, .dropout = 0.1, .layout = {2, tp}};
        tiny.layout.sequence_parallel = sequence_parallel;
        INFO(to_string(tiny));
        CHECK((run(job_of_text(tiny, every_kind), 2) == run(tiny)));
      }
}

TEST_CASE("braids over several processes give the bits of one", "[braids][processes]") {
  const TinyRun tiny{.layers = 4, .microbatches = 8, .layout = braided_on_cpus({2, 2})};
  const RunRecord one = run(tiny);
  for (const int processes : {2, 4}) {  // one process for each stage, one for each rank
    RunRecord record;
    const auto failures = in_processes(
        MemoryHub::make(processes), [&](int) { return job_of(tiny); },
        [&](int process, TrainJob job) {
          if (process == 0) {
            record = run(std::move(job), 2);
          } else {
            Trainer(std::move(job)).follow();
          }
        });
    for (const std::string& failure : failures) CHECK(failure.empty());
    CHECK((record == one));
  }
}

TEST_CASE("evaluations and steps that begin early go with braids", "[braids]") {
  const auto losses = [](const std::string& schedule, int chunks, bool early) {
    TrainJob job =
        job_of({.layers = 4, .microbatches = 8, .layout = {.pp = 2, .tp = 2, .schedule = schedule, .chunks = chunks}});
    job.evaluation = split_dataset(job.dataset, 0.021, 3).evaluation;
    job.post_validation = early;
    Trainer trainer(std::move(job));
    std::vector<double> all;
    for (int step = 0; step < 3; ++step) {
      if (step != 1) all.push_back(trainer.evaluate()->loss);
      all.push_back(trainer.step().loss);
    }
    return all;
  };
  const auto expected = losses("1f1b", 1, false);
  CHECK(losses("braided-v", 2, false) == expected);
  CHECK(losses("braided-v", 2, true) == expected);
}

TEST_CASE("the estimate counts the second workspace of ranks that take turns", "[braids]") {
  const auto workspace = [](const std::string& schedule, int tp) {
    const TrainJob job = random_job(preset_config("tiny"), 64, 8, {.pp = 2, .tp = tp, .schedule = schedule, .chunks = 2});
    return estimate_job(job).devices.front().use.workspace;
  };
  CHECK(workspace("braided-v", 2) == 2 * workspace("dualpipe-v", 2));
  CHECK(workspace("braided-v", 1) == workspace("dualpipe-v", 1));
}

TEST_CASE("the estimate of a GPU counts a second set of what its operations have for themselves", "[braids]") {
  const ModelConfig config = preset_config("tiny");
  const std::vector<Block> blocks = blocks_of(config);
  const auto half = blocks.begin() + std::ssize(blocks) / 2;
  const schedules::Plan plan = schedules::build_schedule("braided-v", {1, 2, 8});
  const auto workspace = [&](int tp, bool braids) {
    JobSettings settings;
    settings.layout.tp = tp;
    settings.devices.kind = DeviceKind::cuda;
    const StageMemory memory(config, {1, 64}, settings, braids);
    return memory.estimate({{blocks.begin(), half}, {half, blocks.end()}}, 8, validate(plan)[0], plan.stages[0]).workspace;
  };
  CHECK(workspace(1, true) == workspace(1, false));
  const std::size_t libraries = std::size_t{64} << 20;
  CHECK(workspace(2, true) > workspace(2, false) + libraries);
  CHECK(workspace(2, true) <= 2 * workspace(2, false));
}

TEST_CASE("a failure among braids ends the run with its cause named and nothing left running", "[braids]") {
  const auto make = [] { return job_of({.layers = 4, .microbatches = 8, .layout = braided_on_cpus({2, 2})}); };
  check_failing_braids(make, std::chrono::milliseconds(500));
  check_throwing_braids(make);
}

TEST_CASE("settings that exclude braids give one line", "[braids]") {
  const TinyRun tiny{.layers = 4, .microbatches = 8, .layout = braided_on_cpus({2, 2, 2})};
  TinyRun other = tiny;
  other.layout.zero = 3;
  CHECK_THAT(refusal(job_of(other)), Contains("schedule braided-v: replicas gather weights for one action at a time"));
  TrainJob fetched = job_of(tiny);
  fetched.offload.parameters = true;
  fetched.offload.folder = "/tmp";
  CHECK_THAT(refusal(fetched), Contains("schedule braided-v: weights are fetched for one action at a time"));
  TrainJob on_gpus = random_job(preset_config("tiny"), 64, 8, braided_on_cpus({.pp = 2, .tp = 2, .cp = 2}));
  on_gpus.devices.kind = DeviceKind::cuda;
  CHECK_THAT(refusal(on_gpus), Contains("schedule braided-v: braids of ranks that share sequences are not built for GPUs yet"));
  other = tiny, other.layout.tp = 1, other.layout.zero = 3;
  CHECK(refusal(job_of(other)) == "none");
  CHECK(refusal(job_of(tiny)) == "none");
}
