// Whole runs, compared with the golden trajectories, and, between layouts that must agree, bit by bit.
#include "actors/training/run/trainer.hpp"

#include <cmath>

#include "actors/engine/run_failed.hpp"
#include "actors/training/run/job_memory.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "golden_run.hpp"
#include "schedules/builders/builders.hpp"
#include "skip.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::Order;

namespace {

ModelConfig small_trainer_config() {
  ModelConfig config;
  config.hidden = 32;
  config.layers = 3;
  config.heads = 4;
  config.kv_heads = 2;
  config.head_dim = 8;
  config.intermediate = 48;
  config.vocabulary = 259;  // no tp divides it
  config.max_positions = 64;
  config.init_std = 0.08;
  return config;
}

void check_golden_layouts(int microbatch, const std::vector<int>& numbers_of_stages) {
  for (const std::string name : {"llama2_tiny", "llama3_tiny", "gpt2_tiny"}) {
    const Reference reference = golden_reference(name);
    const auto steps = static_cast<std::int64_t>(reference.loss.size());
    for (const int tp : {1, 2, 4}) {
      const Layout plain{1, tp, 1, microbatch};
      const RunRecord first = run(golden_job(name, plain), steps);
      INFO(name << " " << to_string(plain));
      check_golden(first, reference);
      for (const int pp : numbers_of_stages) {
        for (const std::string schedule : {"gpipe", "1f1b"}) {
          for (const auto order : {Order::planned, Order::ready}) {
            const Layout layout{pp, tp, 1, microbatch, schedule, 1, order};
            INFO(name << " " << to_string(layout));
            CHECK((run(golden_job(name, layout), steps) == first));
          }
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("every layout follows the golden trajectory, to the bit the same over pp, schedule and order", "[golden]") {
  check_golden_layouts(2, {2, 8});
}

TEST_CASE("layouts of one and of four sequences a microbatch follow the golden trajectory too", "[golden][slow]") {
  check_golden_layouts(GENERATE(1, 4), {1, 2, 4, 8});
}

TEST_CASE("one and four stages follow the golden trajectory too", "[golden][slow]") { check_golden_layouts(2, {1, 4}); }

TEST_CASE("every schedule gives the bits of 1f1b, in every order it allows", "[golden]") {
  const RunRecord plain = run(golden_job("llama2_tiny", {}), 3);
  for (const auto& schedule : schedules::all_schedules()) {
    for (const int pp : {2, 4}) {
      for (const auto order : {Order::planned, Order::ready}) {
        if (order == Order::ready && !schedule.has_ready_rule) continue;
        Layout layout{pp, 1, 1, 1, std::string(schedule.name), schedule.default_chunks, order};
        INFO(to_string(layout));
        CHECK((run(golden_job("llama2_tiny", layout), 3) == plain));
      }
    }
  }
}

TEST_CASE("recomputing gives the bits of keeping, in every schedule and with tensor-parallel ranks", "[golden]") {
  constexpr Recompute modes[] = {Recompute::selective, Recompute::full};
  const RunRecord plain = run(golden_job("llama2_tiny", {}), 3);
  for (const auto& schedule : schedules::all_schedules()) {
    for (const Recompute mode : modes) {
      Layout layout{2, 1, 1, 1, std::string(schedule.name), schedule.default_chunks};
      layout.recompute = mode;
      INFO(to_string(layout));
      CHECK((run(golden_job("llama2_tiny", layout), 3) == plain));
    }
  }
  for (const bool sequence_parallel : {true, false}) {
    Layout layout{1, 2, 1, 2};
    layout.sequence_parallel = sequence_parallel;
    const RunRecord expected = run(golden_job("llama3_tiny", layout), 3);
    for (const std::string schedule : {"1f1b", "zb-h1"}) {
      for (const Recompute mode : modes) {
        layout.pp = 4;
        layout.schedule = schedule;
        layout.recompute = mode;
        INFO(to_string(layout));
        CHECK((run(golden_job("llama3_tiny", layout), 3) == expected));
      }
    }
  }
}

TEST_CASE("recomputing some of the layers gives the bits of keeping, in less memory the more they are", "[golden]") {
  const RunRecord plain = run(golden_job("llama2_tiny", {}), 3);
  for (const int pp : {1, 2}) {
    for (const std::string schedule : {"1f1b", "zb-h1"}) {
      if (pp == 1 && schedule != "1f1b") continue;
      std::size_t before = 0;
      for (const std::int64_t layers : {1, 2, 4}) {
        Layout layout{pp, 1, 1, 1, schedule};
        layout.recompute = Recompute::full;
        layout.recompute_layers = layers;
        INFO(to_string(layout));
        const TrainJob job = golden_job("llama2_tiny", layout);
        CHECK((run(job, 3) == plain));
        std::size_t estimated = 0, taken = 0;
        for (const auto& device : estimate_job(job).devices) estimated += device.use.activations;
        for (const auto& device : Trainer(job).memory()) taken += device.use.activations;
        CHECK(taken == estimated);
        if (before > 0) CHECK(taken <= before);
        before = taken;
      }
    }
  }
}

TEST_CASE("each mode of recomputation takes less memory for activations than the one before, as estimated") {
  for (const std::string schedule : {"1f1b", "zb-h1"}) {
    std::size_t before = 0;
    for (const Recompute mode : {Recompute::none, Recompute::selective, Recompute::full}) {
      Layout layout{4, 1, 1, 1, schedule};
      layout.recompute = mode;
      const TrainJob job = random_job(small_trainer_config(), 64, 8, layout);
      std::size_t estimated = 0, taken = 0;
      for (const auto& device : estimate_job(job).devices) estimated += device.use.activations;
      for (const auto& device : Trainer(job).memory()) taken += device.use.activations;
      INFO(to_string(layout) << ": " << taken << " bytes, before " << before);
      CHECK(taken == estimated);
      if (before > 0) CHECK(taken < before);
      before = taken;
    }
  }
}

TEST_CASE("data-parallel replicas follow the golden trajectory", "[golden]") {
  const Reference reference = golden_reference("llama3_tiny");
  const Layout plain{1, 1, 2, 2};
  const RunRecord first = run(golden_job("llama3_tiny", plain), 6);
  check_golden(first, reference);
  for (const Layout layout :
       {Layout{2, 1, 2, 2}, Layout{3, 1, 2, 2, "gpipe"}, Layout{2, 1, 2, 2, "1f1b", 1, Order::ready},
        Layout{2, 1, 2, 2, "zb-h1"}, Layout{2, 1, 2, 2, "interleaved", 2}, Layout{2, 1, 2, 2, "interleaved", 2, Order::ready},
        Layout{2, 1, 2, 2, "zb-v", 2}, Layout{2, 1, 2, 2, "zb-v", 2, Order::ready}}) {
    INFO(to_string(layout));
    CHECK((run(golden_job("llama3_tiny", layout), 6) == first));
  }
  check_golden(run(golden_job("llama3_tiny", {2, 2, 4, 1}), 6), reference);
}

TEST_CASE("three replicas, tied and untied embeddings, uneven vocabulary and sequence, any layers over any pp") {
  for (const bool tied : {false, true}) {
    ModelConfig config = small_trainer_config();
    config.tied_embeddings = tied;
    const RunRecord plain = run(random_job(config, 13, 6, {}), 3);
    for (const int pp : {1, 2, 3, 5, 6}) {
      const Layout layout{pp, 1, 1, 1};
      INFO("tied " << tied << " " << to_string(layout));
      CHECK((run(random_job(config, 13, 6, layout), 3) == plain));
    }
    for (const Layout layout : {Layout{1, 2, 1, 1}, Layout{2, 2, 1, 2}, Layout{4, 2, 3, 1}, Layout{1, 1, 3, 2},
                                Layout{2, 2, 1, 1, "gpipe", 1, Order::planned, false}}) {
      INFO("tied " << tied << " " << to_string(layout));
      check_close(run(random_job(config, 13, 6, layout), 3), plain);
    }
  }
}

TEST_CASE("dropout draws the same whatever the replicas, tensor-parallel ranks and microbatches", "[dropout]") {
  ModelConfig config = small_trainer_config();
  const RunRecord without = run(random_job(config, 13, 6, {}), 3);
  config.dropout = {.embedding = 0.1, .attention = 0.2, .residual = 0.1};
  const RunRecord plain = run(random_job(config, 13, 6, {}), 3);
  CHECK(plain.loss != without.loss);
  for (const Layout layout : {Layout{1, 2, 1, 1}, Layout{2, 2, 1, 2}, Layout{4, 2, 3, 1}, Layout{1, 1, 3, 2},
                              Layout{2, 2, 1, 1, "gpipe", 1, Order::planned, false}}) {
    INFO(to_string(layout));
    check_close(run(random_job(config, 13, 6, layout), 3), plain);
  }
}

TEST_CASE("results do not depend on the number of threads, nor on the run") {
  const ModelConfig config = small_trainer_config();
  const RunRecord once = run(random_job(config, 32, 4, {2, 2, 1, 2}), 3);
  Layout threads{2, 2, 1, 2};
  threads.threads = 3;
  CHECK((run(random_job(config, 32, 4, threads), 3) == once));
  CHECK((run(random_job(config, 32, 4, {2, 2, 1, 2}), 3) == once));
}

TEST_CASE("few or many microbatches per step work on any number of stages") {
  const ModelConfig config = small_trainer_config();
  for (const int global_batch : {1, 2, 3, 7}) {
    const RunRecord plain = run(random_job(config, 8, global_batch, {}), 2);
    for (const std::string schedule : {"gpipe", "1f1b"}) {
      const Layout layout{4, 1, 1, 1, schedule};
      INFO(global_batch << " microbatches, " << to_string(layout));
      CHECK((run(random_job(config, 8, global_batch, layout), 2) == plain));
    }
  }
}

TEST_CASE("a loss that is not finite ends the run with a line that says so") {
  TrainJob job = random_job(small_trainer_config(), 8, 2, {2, 1, 1, 1});
  job.learning_rate.peak = 1e30;
  job.clip_norm = 0;
  Trainer trainer(std::move(job));
  try {
    for (int step = 0; step < 5; ++step) trainer.step();
    FAIL("five steps at this rate ended");
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::numeric);
    CHECK(std::string(error.what()).find("of step ") != std::string::npos);
  }
}

TEST_CASE("data that cannot be read end the run in the step that asks for them, and not before") {
  struct Broken final : Dataset {
    explicit Broken(std::int64_t good_samples) : Dataset(8), good(good_samples) {}
    std::int64_t size() const override { return 64; }
    std::uint64_t content() const override { return 0; }
    void read(std::int64_t index, Sample& sample) const override {
      if (index >= good) throw Error(ErrorKind::input, "rows.jsonl:7: not JSON");
      sample.ids.assign(9, static_cast<std::int32_t>(index + 1));
      label_with_next_ids(sample);
    }
    std::int64_t good;
  };
  for (const std::int64_t good : {4, 6}) {  // of 4 samples a step
    TrainJob job = random_job(small_trainer_config(), 8, 4, {2, 1, 1, 1});
    job.dataset = std::make_shared<Broken>(good);
    job.samples.shuffle = false;
    Trainer trainer(std::move(job));
    trainer.step();
    CHECK_THROWS_WITH(trainer.step(), "rows.jsonl:7: not JSON");
  }
}

TEST_CASE("a failure on purpose ends the run with its cause named and nothing left running") {
  struct Case {
    FaultKind kind;
    ErrorKind error;
    std::string part;
  };
  for (const auto& [kind, error, part] :
       {Case{FaultKind::raise, ErrorKind::internal, "rank 6 (stage 1, tp rank 0, replica 1) in step 2"},
        Case{FaultKind::nan, ErrorKind::numeric, "of step 2 is NaN"},
        Case{FaultKind::out_of_memory, ErrorKind::out_of_memory, "rank 6 (stage 1, tp rank 0, replica 1) in step 2"},
        Case{FaultKind::hang, ErrorKind::peer_lost, "no action completed"}}) {
    TrainJob job = random_job(small_trainer_config(), 8, 4, {2, 2, 2, 1});
    job.fault = Fault{6, 2, kind};
    job.stall = std::chrono::milliseconds(200);
    Trainer trainer(std::move(job));
    trainer.step();
    try {
      trainer.step();
      FAIL("the step ended");
    } catch (const RunFailed& failure) {
      CHECK(failure.kind() == error);
      CHECK(failure.everything_stopped());
      INFO(failure.what());
      CHECK(std::string(failure.what()).find(part) != std::string::npos);
    }
  }
}

TEST_CASE("a run that needs more memory than there is says what recomputing it would need") {
  ModelConfig config = preset_config("llama2-70b");
  config.layers = 2000;  // tens of terabytes
  const auto refusal = [&](Recompute mode) -> std::string {
    Layout layout;
    layout.recompute = mode;
    try {
      Trainer trainer(random_job(config, 4096, 4, layout));
      FAIL("it was built");
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::out_of_memory);
      return error.what();
    }
    return {};
  };
  const std::string none = refusal(Recompute::none), full = refusal(Recompute::full);
  CHECK(none.find("the host: the run needs about ") == 0);
  const std::string needs = full.substr(0, full.find(" MiB and")).substr(std::string("the host: the run needs about ").size());
  CHECK(none.find("use recompute full (about " + needs + " MiB then), a smaller microbatch") != std::string::npos);
  CHECK(full.find("--recompute") == std::string::npos);
  CHECK(full.find("more devices") == std::string::npos);  // the CPU's devices share the host's memory
  CHECK(full.find("or fewer layers") != std::string::npos);
}

TEST_CASE("a run that needs more memory than there is says how many layers to recompute where some are enough") {
  ModelConfig config = small_trainer_config();  // wide, so that a layer's activations take gigabytes
  config.hidden = 512;
  config.heads = config.kv_heads = 8;
  config.head_dim = 64;
  config.intermediate = 2048;
  config.layers = 5;
  config.max_positions = 4096;
  const TrainJob job = random_job(config, 4096, 16, {.microbatch = 16});
  const auto needed = [&](Recompute mode, std::optional<std::int64_t> layers) {
    TrainJob other = job;
    other.numerics.recompute = mode;
    other.numerics.recompute_layers = layers;
    std::size_t bytes = 0;
    for (const auto& device : estimate_job(other).devices) bytes += device.use.total();
    return bytes;
  };
  // Other programs leave room for the run with 3 layers that recompute, but not with 2.
  const std::size_t room = (needed(Recompute::full, 3) + needed(Recompute::full, 2)) / 2;
  const ParallelLayout layout(job);
  const std::size_t free = layout.device({}).memory().free;
  if (free < room) return skip("the machine has too little memory free");
  const auto shortage = memory_shortage(layout, job, estimate_devices(layout, job), free - room);
  REQUIRE(shortage);
  CHECK_THAT(shortage->what(), Catch::Matchers::Contains("use recompute full of 3 or more layers of each stage (about "));
}

TEST_CASE("the memory of a run that ends before another begins counts as free") {
  const TrainJob job = random_job(small_trainer_config(), 8, 2, {});
  const ParallelLayout layout(job);
  const auto devices = estimate_devices(layout, job);
  const std::size_t need = devices.front().use.total(), free = layout.device({}).memory().free;
  const std::size_t others = free - need / 2;
  CHECK(memory_shortage(layout, job, devices, others));
  CHECK_FALSE(memory_shortage(layout, job, devices, others - need, {{}, devices}));
  CHECK_FALSE(memory_shortage(layout, job, devices, others, {{{"the host", need}}, devices}));
}

TEST_CASE("more layers than the model has cannot recompute") {
  TrainJob job = random_job(small_trainer_config(), 8, 2, {});
  job.numerics.recompute = Recompute::full;
  job.numerics.recompute_layers = 4;
  CHECK_THROWS_WITH(estimate_job(job), Catch::Matchers::Contains("recompute-num-layers 4: the model has 3 layers"));
}

TEST_CASE("the error of an impossible layout says why") {
  const ModelConfig config = small_trainer_config();
  CHECK_THROWS_AS(Trainer(random_job(config, 8, 2, {1, 3, 1, 1})), Error);
  CHECK_THROWS_AS(Trainer(random_job(config, 8, 2, {7, 1, 1, 1})), Error);  // 6 blocks
}

TEST_CASE("a size of heads that GPUs cannot compute is refused before one is looked for") {
  const auto refusal = [](std::int64_t head_dim, const Precision& precision) -> std::string {
    ModelConfig config = small_trainer_config();
    config.head_dim = head_dim;
    TrainJob job = random_job(config, 8, 2, {});
    job.devices.kind = DeviceKind::cuda;
    job.numerics.precision = precision;
    try {
      estimate_job(job);
    } catch (const Error& error) {
      CHECK(error.kind() == ErrorKind::input);
      return error.what();
    }
    return {};
  };
  CHECK(refusal(12, Precision::bf16()) ==
        "precision bf16: the model's heads have size 12, and attention in bf16 on GPUs needs a multiple of 8; use fp32");
  CHECK(refusal(512, Precision::fp32()) ==
        "precision fp32: the model's heads have size 512, and attention in fp32 on GPUs is built for at most 256; use bf16 or "
        "the CPU");
}
