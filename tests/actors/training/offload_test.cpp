// Offloading gives the bits of states that stay on the device, and takes less of its memory.
#include "actors/golden_run.hpp"
#include "actors/several_blocks.hpp"
#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/estimated_memory.hpp"
#include "actors/training/job/offload_check.hpp"
#include "actors/training/run/job_memory.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "data/samples/split.hpp"
#include "model/costs.hpp"
#include "model/named_model.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/activation_offload.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using Catch::Contains;

namespace {

RunRecord run_random(Layout layout, bool offload) {
  layout.offload = offload;
  return run(random_job(several_blocks_config(), 16, 12, layout), 3);
}

// For every kind of schedule, a layout that keeps enough microbatches for some to be offloaded.
std::vector<Layout> waiting_layouts() {
  return {{1, 1, 1, 1, "gpipe"},          {2, 1, 1, 1, "gpipe"},         {8, 1, 1, 1, "1f1b"},
          {2, 1, 1, 1, "interleaved", 4}, {2, 1, 1, 1, "looped-bfs", 2}, {8, 1, 1, 1, "zb-h1"},
          {4, 1, 1, 1, "zb-h2"},          {4, 1, 1, 1, "zb-v", 2},       {4, 1, 1, 1, "dualpipe-v", 2}};
}

ModelConfig waiting_config() {
  ModelConfig config = several_blocks_config();
  config.layers = 4;
  config.hidden = 64;
  config.head_dim = 16;
  config.intermediate = 124;
  return config;
}

RunRecord run_activations(Layout layout, double fraction) {
  layout.activations = fraction;
  return run(random_job(waiting_config(), 16, 12 * layout.dp, layout), 3);
}

}  // namespace

TEST_CASE("activations on a disk give the bits of activations that stay, in every schedule and with every recomputation") {
  const RunRecord expected = run_activations({1, 1, 1, 1}, 0);
  int turn = 0;
  for (Layout layout : waiting_layouts()) {
    for (const double fraction : {0.5, 1.0}) {
      constexpr Recompute kinds[] = {Recompute::none, Recompute::selective, Recompute::full};
      layout.recompute = kinds[++turn % 3];
      INFO(to_string(layout) << ", fraction " << fraction);
      CHECK((run_activations(layout, fraction) == expected));
    }
  }
}

TEST_CASE("activations leave over dp, tp and every stage of ZeRO, with optimizer states and without, to the same bits") {
  for (Layout layout : {Layout{1, 1, 2, 1, "gpipe"}, Layout{2, 2, 1, 1, "gpipe"}, Layout{2, 1, 2, 1, "looped-bfs", 2}}) {
    const RunRecord expected = run_activations(layout, 0);
    for (layout.zero = 0; layout.zero <= (layout.dp > 1 ? most_zero_stages : 0); ++layout.zero) {
      for (const bool optimizer : {false, true}) {
        layout.offload = optimizer;
        INFO(to_string(layout));
        CHECK((run_activations(layout, 1) == expected));
      }
    }
  }
}

TEST_CASE("evaluations and dropout go with activations that leave") {
  const auto job_of = [](double fraction) {
    Layout layout{2, 1, 1, 1, "gpipe"};
    layout.activations = fraction;
    ModelConfig config = waiting_config();
    config.dropout = {.embedding = 0.1, .attention = 0.1, .residual = 0.1};
    TrainJob job = random_job(config, 16, 12, layout);
    job.evaluation = split_dataset(job.dataset, 0.01, 1).evaluation;
    return job;
  };
  Trainer plain(job_of(0)), moving(job_of(1));
  for (int step = 0; step < 3; ++step) {
    CHECK(plain.step().loss == moving.step().loss);
    CHECK(plain.evaluate()->loss == moving.evaluate()->loss);
  }
}

TEST_CASE("optimizer states on a disk give the bits of states in memory, over pp, tp and dp") {
  for (const Layout& layout : {Layout{1, 1, 1, 1}, Layout{2, 2, 1, 2, "zb-h1"}, Layout{2, 1, 2, 1, "zb-v", 2}}) {
    INFO(to_string(layout));
    CHECK((run_random(layout, true) == run_random(layout, false)));
  }
}

TEST_CASE("weights on a disk give the bits of weights in memory, with optimizer states there and without") {
  for (Layout layout :
       {Layout{1, 1, 1, 1}, Layout{2, 2, 1, 2, "zb-h1"}, Layout{2, 1, 2, 1, "zb-v", 2}, Layout{1, 1, 2, 2},
        Layout{2, 1, 1, 1, "interleaved", 2}, Layout{2, 1, 1, 1, "looped-bfs", 2}, Layout{3, 1, 1, 1, "gpipe"}}) {
    const RunRecord expected = run_random(layout, false);
    layout.parameters = true;
    constexpr Recompute kinds[] = {Recompute::none, Recompute::selective, Recompute::full};
    for (layout.prefetch = 0; layout.prefetch < 4; ++layout.prefetch) {
      layout.recompute = kinds[layout.prefetch % 3];
      INFO(to_string(layout));
      CHECK((run_random(layout, layout.prefetch % 2 == 0) == expected));
    }
  }
}

TEST_CASE("gradients on a disk give the bits of gradients in memory, alone and with all else there") {
  for (Layout layout :
       {Layout{1, 1, 1, 1}, Layout{2, 2, 1, 2, "zb-h1"}, Layout{2, 1, 1, 1, "zb-v", 2}, Layout{2, 1, 1, 1, "interleaved", 2},
        Layout{1, 1, 1, 12}, Layout{2, 1, 1, 1, "looped-bfs", 2}, Layout{3, 1, 1, 1, "gpipe"}}) {
    const bool tied = layout.schedule != "1f1b" || layout.microbatch == 1;
    const auto run_with = [&](bool gradients, bool others) {
      layout.gradients = gradients;
      layout.offload = layout.parameters = others;
      ModelConfig config = several_blocks_config(tied);
      config.layers = 4;
      return run(random_job(config, 16, 12, layout), 2);
    };
    const RunRecord expected = run_with(false, false);
    for (const bool others : {false, true}) {
      INFO(to_string(layout) << (tied ? ", tied" : ""));
      CHECK((run_with(true, others) == expected));
    }
  }
}

TEST_CASE("in 16 bits too, what is on a disk gives the bits of what is in memory") {
  for (const Precision& precision : {Precision::bf16(), Precision::fp16()}) {
    const auto run_with = [&](const Offload& offload) {
      TrainJob job = random_job(several_blocks_config(true), 16, 12, {2, 1, 1, 2, "zb-v", 2});
      job.numerics.precision = precision;
      job.offload = offload;
      if (offload.any()) job.offload.folder = std::filesystem::temp_directory_path();
      return run(std::move(job), 3);
    };
    const RunRecord expected = run_with({});
    for (const bool optimizer : {false, true}) {
      CHECK((run_with({.optimizer = optimizer, .parameters = true}) == expected));
      CHECK((run_with({.optimizer = optimizer, .parameters = true, .gradients = true}) == expected));
    }
  }
}

TEST_CASE("gradients that leave are counted as they are allocated, and replicas that divide them keep their own") {
  for (const Layout& layout : {Layout{2, 1, 1, 1}, Layout{1, 1, 2, 6}, Layout{1, 1, 2, 1}}) {
    TrainJob job = random_job(several_blocks_config(true), 16, 12, layout);
    job.zero.stage = layout.dp > 1 ? 2 : 0;
    job.offload = {.gradients = true, .folder = std::filesystem::temp_directory_path()};
    for (const DeviceMemory& device : check_estimate(job, {&MemoryUse::gradients, &MemoryUse::disk}))
      CHECK(device.use.disk > 0);
  }
  TrainJob job = random_job(named_model("llama3.2-1b", 8), 16, 4, {1, 1, 1, 1});
  job.offload = {.gradients = true, .folder = std::filesystem::temp_directory_path()};
  const double mlp = 3.0 * 2048 * 8192, attention = 2048.0 * (2048 + 2 * 512 + 2048), table = 128256.0 * 2048;
  const MemoryUse use = estimate_job(job).devices.front().use;
  CHECK(static_cast<double>(use.gradients) == Approx(4 * (2 * table + 3 * mlp)).epsilon(0.01));
  CHECK(static_cast<double>(use.disk) == Approx(4 * 8 * (mlp + attention)).epsilon(0.01));
  job.batch = {2, 2, 1};
  job.zero.stage = 2;
  CHECK(estimate_job(job).devices.front().use.disk == use.disk);
  job.batch = {2, 1, 2};  // nothing is offloaded before replicas have been summed
  CHECK(static_cast<double>(estimate_job(job).devices.front().use.disk) ==
        Approx(static_cast<double>(use.disk) / 2).epsilon(0.01));
}

TEST_CASE("evaluations, tied weights and activations that leave go with weights on a disk") {
  const auto job_of = [](bool parameters, const Layout& given) {
    Layout layout = given;
    layout.parameters = parameters;
    TrainJob job = random_job(several_blocks_config(layout.pp < 3), 16, 12, layout);
    job.offload.activations = parameters && layout.schedule == "gpipe";
    job.evaluation = split_dataset(job.dataset, 20.0 / static_cast<double>(job.dataset->size()), 3).evaluation;
    return job;
  };
  for (const Layout& layout : {Layout{1, 1, 1, 1}, Layout{2, 1, 1, 1, "gpipe"}, Layout{2, 2, 1, 2, "zb-v", 2}}) {
    INFO(to_string(layout));
    Trainer plain(job_of(false, layout)), fetching(job_of(true, layout));
    for (int step = 0; step < 3; ++step) {
      CHECK(plain.step().loss == fetching.step().loss);
      CHECK(plain.evaluate()->loss == fetching.evaluate()->loss);
    }
  }
}

TEST_CASE("states on a disk or in memory resume from either one's checkpoint") {
  const bool parameters = GENERATE(false, true);
  const auto job_from = [parameters](const std::filesystem::path& checkpoint, bool offload) {
    Layout layout{2, 1, 1, 2};
    layout.offload = offload;
    layout.parameters = parameters && offload;
    TrainJob job = random_job(several_blocks_config(), 16, 12, layout);
    if (checkpoint.empty()) return job;
    const CheckpointManifest manifest = verify_checkpoint(checkpoint);
    const CheckpointState& state = manifest.state;
    job.initial = open_checkpoint(checkpoint, manifest, job.config);
    job.steps_done = state.step;
    return job;
  };
  const RunRecord whole = run(job_from({}, false), 3);
  for (const bool writer : {false, true}) {
    const TempFolder folder;
    {
      Trainer first(job_from({}, writer));
      first.step();
      first.step();
      first.start_checkpoint(folder.path()).get();
    }
    const RunRecord rest = run(job_from(checkpoint_path(folder.path(), 2), !writer), 1);
    CHECK(rest.loss.front() == whole.loss.back());
    CHECK(rest.grad_norm.front() == whole.grad_norm.back());
    CHECK(rest.weights == whole.weights);
  }
}

TEST_CASE("the estimated memory and disk space of offloading equal what is allocated") {
  Layout layout{2, 1, 2, 1};
  for (layout.zero = 0; layout.zero <= most_zero_stages; ++layout.zero) {
    TrainJob job = random_job(several_blocks_config(), 16, 12, layout);
    const auto resident = estimate_job(job).devices;
    for (const bool parameters : {false, true}) {
      job.offload = {.optimizer = true, .parameters = parameters, .folder = std::filesystem::temp_directory_path()};
      const auto estimated =
          check_estimate(job, {&MemoryUse::parameters, &MemoryUse::optimizer, &MemoryUse::disk, &MemoryUse::host});
      for (std::size_t i = 0; i < estimated.size(); ++i) {
        CHECK(estimated[i].use.host == 0);
        const std::size_t weights = resident[i].use.parameters / (layout.zero > 0 ? 2 : 1);
        CHECK(estimated[i].use.disk >= resident[i].use.optimizer + (parameters && layout.zero < 3 ? weights : 0));
      }
    }
  }
}

TEST_CASE("the estimated memory of offloaded activations equals what is allocated, and the device holds less") {
  for (const Layout& layout : waiting_layouts()) {
    INFO(to_string(layout));
    TrainJob job = random_job(waiting_config(), 16, 12, layout);
    const auto resident = estimate_job(job).devices;
    const TempFolder folder;
    job.offload = {.activations = true, .folder = folder.path()};
    const auto estimated = estimate_job(job).devices;
    Trainer trainer(job);
    trainer.step();
    CHECK(names_in(folder.path()).empty());  // its files have no names, so nothing is left however it ends
    const auto taken = trainer.memory();
    std::size_t before = 0, after = 0, disk = 0;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      CHECK(taken[i].use.activations == estimated[i].use.activations);
      CHECK(taken[i].use.disk == estimated[i].use.disk);
      CHECK(taken[i].use.host == 0);
      before += resident[i].use.activations, after += estimated[i].use.activations, disk += estimated[i].use.disk;
    }
    CHECK(after < before);
    CHECK(after + disk > before);
  }
}

TEST_CASE("a device keeps at most six of a real model's 16 microbatches in gpipe, and the disk has the rest") {
  TrainJob job = random_job(named_model("llama3.2-1b", 4), 256, 16, {1, 1, 1, 1, "gpipe"});
  job.dataset = random_job(several_blocks_config(), 256, 16, {1, 1, 1, 1}).dataset;
  const std::size_t all = estimate_job(job).devices.front().use.activations;
  job.offload = {.activations = true, .folder = std::filesystem::temp_directory_path()};
  const MemoryUse use = estimate_job(job).devices.front().use;
  CHECK(static_cast<double>(use.activations) <= 6.01 / 16 * static_cast<double>(all));
  CHECK(static_cast<double>(use.disk) <= static_cast<double>(all));
}

TEST_CASE("a device keeps the weights of two blocks of a real model, and the disk has all, within 1 %") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16()}) {
    TrainJob job = random_job(named_model("llama3.2-1b", 4), 16, 4, {1, 1, 1, 1});
    job.numerics.precision = precision;
    job.offload = {.optimizer = true, .parameters = true, .folder = std::filesystem::temp_directory_path()};
    const auto count = static_cast<double>(parameter_count(job.config));
    const double operand = precision.rounds_weights() ? 2 : 4, table = 128256.0 * 2048, mlp = 3.0 * 2048 * 8192;
    const MemoryUse use = estimate_job(job).devices.front().use;
    CHECK(static_cast<double>(use.disk) == Approx((precision.rounds_weights() ? 14 : 12) * count).epsilon(0.01));
    CHECK(static_cast<double>(use.parameters) == Approx(operand * (table + 2 * mlp)).epsilon(0.01));
    job.zero.prefetch = 3;
    CHECK(static_cast<double>(estimate_job(job).devices.front().use.parameters) ==
          Approx(operand * (table + 4 * mlp)).epsilon(0.01));
  }
}

TEST_CASE("weights that cannot be offloaded are refused with the reason") {
  TrainJob job = random_job(several_blocks_config(), 16, 12, {2, 1, 2, 1});
  job.offload = {.parameters = true, .folder = std::filesystem::temp_directory_path()};
  job.layout.order = schedules::Order::ready;
  CHECK_THROWS_WITH(estimate_job(job), Contains("order ready: offloaded weights are fetched in the plan's order; use planned"));
  job.layout.order = schedules::Order::planned;
  CHECK_NOTHROW(estimate_job(job));
  job.zero.stage = 1;
  CHECK_NOTHROW(estimate_job(job));
}

TEST_CASE("a device keeps three blocks of a real model's states, and the disk has all, within 1 %") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16()}) {
    TrainJob job = random_job(named_model("llama3.2-1b", 4), 16, 4, {1, 1, 1, 1});
    job.numerics.precision = precision;
    job.offload = {.optimizer = true, .folder = std::filesystem::temp_directory_path()};
    const auto count = static_cast<double>(parameter_count(job.config));
    const double arrays = precision.rounds_weights() ? 3 : 2, block = 4.0 * (1 << 20) * 4;
    const MemoryUse use = estimate_job(job).devices.front().use;
    CHECK(static_cast<double>(use.optimizer) == Approx(3 * arrays * block).epsilon(0.01));
    CHECK(static_cast<double>(use.disk) == Approx(arrays * 4 * count).epsilon(0.01));
    CHECK(static_cast<double>(use.parameters) == Approx((precision.rounds_weights() ? 2 : 4) * count).epsilon(0.01));
  }
}

TEST_CASE("activations that cannot leave are refused with why") {
  const auto refused = [](TrainJob job) { return estimate_job(job).devices.size(); };
  TrainJob job = random_job(several_blocks_config(), 16, 12, {2, 1, 1, 1});
  job.offload = {.activations = true, .folder = std::filesystem::temp_directory_path()};
  CHECK_THROWS_WITH(refused(job), Contains("1f1b with 2 stages and 12 microbatches no activations wait long enough"));
  job = random_job(several_blocks_config(), 16, 12, {2, 1, 1, 1, "gpipe"});
  job.offload = {.activations = true, .folder = std::filesystem::temp_directory_path()};
  job.layout.order = schedules::Order::ready;
  CHECK_THROWS_WITH(refused(job), Contains("order ready: activations are moved in the plan's order"));
  job.layout.order = schedules::Order::planned;
  job.layout.plan =
      std::make_shared<schedules::Plan>(schedules::offload_activations(schedules::build_schedule("gpipe", {2, 1, 12}), 0.5));
  CHECK_NOTHROW(refused(job));  // its own moves
  job.offload = {};
  CHECK_THROWS_WITH(refused(job), Contains("the plan moves activations"));
  TrainJob moves_nothing = random_job(several_blocks_config(), 16, 12, {1, 1, 1, 1, "gpipe"});
  moves_nothing.offload.activations = true;
  CHECK_THROWS_WITH(check_offload(moves_nothing), Contains("there is nothing to move"));
}

TEST_CASE("offloading that moves nothing, and disks without room, are refused before anything runs") {
  TrainJob job = random_job(several_blocks_config(), 16, 12, {1, 1, 1, 1});
  job.offload.optimizer = true;
  CHECK_THROWS_WITH(check_offload(job), Contains("there is nothing to move"));
  job.offload.folder = "/proc";
  CHECK_THROWS_WITH(check_offload(job), Contains("/proc: its file system has no direct I/O"));
  job.offload.folder = std::filesystem::temp_directory_path();
  CHECK_NOTHROW(check_offload(job));
  auto devices = estimate_job(job).devices;
  CHECK_FALSE(offload_shortage(job, devices));
  devices.front().use.disk = std::size_t{1} << 60;
  REQUIRE(offload_shortage(job, devices));
  CHECK_THAT(offload_shortage(job, devices)->what(), Contains("offload-to") && Contains("make room"));
}
