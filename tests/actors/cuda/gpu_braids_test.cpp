// Braids of tensor-parallel ranks on GPUs. Ranks share a GPU if there are too few.
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "actors/braid_failures.hpp"
#include "actors/cuda/gpu_job.hpp"
#include "actors/golden_run.hpp"
#include "actors/training/rank/braid.hpp"
#include "catch.hpp"
#include "comm/cuda/cuda_group.hpp"
#include "core/error.hpp"
#include "data/samples/split.hpp"
#include "model/config/mode_names.hpp"
#include "model/weights/peft_folder.hpp"
#include "schedules/plan/plan_text.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

Layout braided_on_gpus(Layout layout) {
  layout.schedule = "braided-v";
  layout.chunks = 2;
  return layout;
}

// Hidden states of 2 MiB in 16 bits, the size from which they travel in pieces.
ModelConfig large_config() {
  ModelConfig config = half_config();
  config.hidden = 512;
  config.heads = 8;
  config.kv_heads = 4;
  config.intermediate = 1024;
  config.max_positions = 1024;
  return config;
}

TrainJob small_job(const Layout& layout) { return random_job(half_config(), 128, 8 * layout.dp, layout); }
TrainJob large_job(const Layout& layout) { return random_job(large_config(), 1024, 16, layout); }

}  // namespace

TEST_CASE("braids on GPUs follow the golden trajectory with the bits of 1f1b over tp", "[gpu][golden][braids]") {
  for (const std::string name : {"llama2_tiny", "llama3_tiny", "gpt2_tiny"}) {
    const Reference reference = golden_reference(name);
    const auto steps = static_cast<std::int64_t>(reference.loss.size());
    TrainJob plain = golden_job(name, {1, 2}), braids = golden_job(name, braided_on_gpus({2, 2}));
    if (!on_gpus(plain, 1)) return;
    on_gpus(braids, 1);
    INFO(name);
    const RunRecord first = run(std::move(plain), steps), record = run(std::move(braids), steps);
    check_golden(record, reference);
    CHECK((record == first));
  }
}

namespace {

// Checks jobs whose hidden states travel by kernels, and others whose states travel in pieces.
void check_bits(const Precision& precision) {
  if (!needs_gpus(cuda_device_count()) || !computes(precision)) return;
  for (const bool large : {false, true}) {
    const auto record = [&](Layout layout) {
      if (large) layout.microbatch = 2;
      TrainJob job = large ? large_job(layout) : small_job(layout);
      on_gpus(job, 1, precision);
      if (precision == Precision::fp16()) job.loss_scale = {.dynamic = true, .initial = 1024};
      job.stall = std::chrono::seconds(20);
      return run(std::move(job), 2);
    };
    INFO(numbers_name(precision) << ", large " << large);
    const RunRecord one = record({1, 2});
    CHECK((record({.pp = 2, .tp = 2, .schedule = "zb-v", .chunks = 2}) == one));
    CHECK((record(braided_on_gpus({1, 2})) == one));
    for (int rerun = 0; rerun < 3; ++rerun) CHECK((record(braided_on_gpus({2, 2})) == one));
  }
}

}  // namespace

TEST_CASE("braids on GPUs give the bits of zb-v and of one stage, again and again", "[gpu][braids]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16(), Precision::fp16()}) check_bits(precision);
}

TEST_CASE("braids on GPUs in fp8 give the bits of zb-v and of one stage, again and again", "[gpu][braids]") {
  for (const Precision& precision : {Precision::fp8(), Precision::fp8_of_blocks()}) check_bits(precision);
}

TEST_CASE("braids of adapters in fp8 give the bits of one stage", "[gpu][braids][adapters]") {
  const auto record = [](const Layout& layout) {
    ModelConfig config = half_config();
    config.adapter = {.rank = 16, .alpha = 32, .magnitudes = true};
    config.trained = {false, false, false};
    TrainJob job = random_job(config, 128, 8, layout);
    job.initial.weights = new_adapter_weights(config, job.initial.weights, 7);
    on_gpus(job, 1, Precision::fp8());
    return run(std::move(job), 3);
  };
  if (!needs_gpus(cuda_device_count()) || !computes(Precision::fp8())) return;
  CHECK((record(braided_on_gpus({2, 2})) == record({1, 2})));
}

TEST_CASE("evaluations and steps that begin early go with braids on GPUs", "[gpu][braids]") {
  if (!needs_gpus(cuda_device_count())) return;
  const auto losses = [](const Layout& layout, bool early) {
    TrainJob job = small_job(layout);
    on_gpus(job, 1, Precision::bf16());
    job.evaluation = split_dataset(job.dataset, 0.1, 3).evaluation;
    job.post_validation = early;
    Trainer trainer(std::move(job));
    std::vector<double> all;
    for (int step = 0; step < 3; ++step) {
      if (step != 1) all.push_back(trainer.evaluate()->loss);
      all.push_back(trainer.step().loss);
    }
    return all;
  };
  const auto expected = losses({2, 2}, false);
  CHECK(losses(braided_on_gpus({2, 2}), false) == expected);
  CHECK(losses(braided_on_gpus({2, 2}), true) == expected);
}

TEST_CASE("braids on GPUs give the bits of one stage in every layout", "[gpu][braids]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16()}) {
    for (const Layout& layout :
         {Layout{1, 2}, Layout{4, 2}, Layout{2, 4}, Layout{.pp = 2, .tp = 2, .sequence_parallel = false},
          Layout{.pp = 2, .tp = 2, .recompute = Recompute::selective}, Layout{.pp = 2, .tp = 2, .recompute = Recompute::full},
          Layout{.pp = 2, .tp = 2, .dp = 2, .zero = 1}, Layout{.pp = 2, .tp = 2, .dp = 2, .zero = 2},
          Layout{.pp = 2, .tp = 2, .loss_chunks = 3}, Layout{.pp = 2, .tp = 2, .offload = true, .gradients = true}}) {
      Layout one = layout;
      one.offload = one.gradients = false;
      one.pp = 1, one.recompute = Recompute::none, one.zero = 0;
      ModelConfig config = half_config();
      config.kv_heads = layout.tp == 4 ? 4 : 2;
      TrainJob plain = random_job(config, 128, 8 * layout.dp, one),
               braids = random_job(config, 128, 8 * layout.dp, braided_on_gpus(layout));
      if (!on_gpus(plain, 1, precision)) return;
      on_gpus(braids, 1, precision);
      INFO(numbers_name(precision) << ", " << to_string(layout));
      CHECK((run(std::move(braids), 3) == run(std::move(plain), 3)));
    }
  }
}

TEST_CASE("every kind of braid gives the same bits on GPUs", "[gpu][braids]") {
  const std::string every_kind =
      "schedule: hand\nmicrobatches: 8\n"
      "stage 0: F0+F1 F2 F3+I0 F4+W0 F5+B1 F6+B2 F7+B3 B4 B5 B6 B7\n"
      "stage 1: F0 F1+B0 F2+I1 F3+W1 F4+B2 F5+B3 F6+B4 F7+B5 B6 B7\n";
  for (const Precision& precision : {Precision::fp32(), Precision::bf16()}) {
    TrainJob plain = small_job({2, 2}), braids = small_job({2, 2});
    if (!on_gpus(plain, 1, precision)) return;
    on_gpus(braids, 1, precision);
    braids.layout.plan = std::make_shared<const schedules::Plan>(schedules::parse_plan(every_kind, "plan.txt"));
    CHECK((run(std::move(braids), 3) == run(std::move(plain), 3)));
  }
}

TEST_CASE("a failure among braids on GPUs ends the run with its cause named and nothing left running", "[gpu][braids]") {
  if (!needs_gpus(cuda_device_count())) return;
  for (const bool large : {false, true}) {
    const auto make = [large] {
      TrainJob job = large ? large_job(braided_on_gpus({2, 2, 1, 2})) : small_job(braided_on_gpus({2, 2}));
      on_gpus(job, 1, Precision::bf16());
      return job;
    };
    INFO("large " << large);
    check_failing_braids(make, std::chrono::milliseconds(1000));
    check_throwing_braids(make);
  }
}

namespace {

// One of two ranks that share GPUs, with the tensors that two actions of a braid sum and gather.
struct BraidRank {
  static constexpr std::int64_t rows = 512, cols = 64;

  std::unique_ptr<Device> device;
  std::unique_ptr<Stream> stream;
  std::unique_ptr<Group> group;
  std::unique_ptr<Braid> braid;
  std::unique_ptr<BraidGroup> braided;
  Buffer memory;
  Tensor shard[2], full[2];

  void make(int rank) {
    device = make_cuda_device(rank % cuda_device_count());
    stream = device->make_stream("rank " + std::to_string(rank));
    const std::int64_t shard_bytes = rows / 2 * cols * 4;
    memory = device->allocate(static_cast<std::size_t>(6 * shard_bytes), "tensors of a braid");
    stream->zero({memory.data(), {static_cast<std::int64_t>(memory.bytes() / 4)}, DType::f32});
    stream->synchronize();
    auto* at = static_cast<char*>(memory.data());
    for (int action = 0; action < 2; ++action) {
      shard[action] = {at, {rows / 2, cols}, DType::f32};
      full[action] = {at + shard_bytes, {rows, cols}, DType::f32};
      at += 3 * shard_bytes;
    }
  }
  // Runs one action: gathers, in pieces or by kernels, until it has done so `calls` times.
  void gathers(int action, int calls, bool in_pieces) {
    for (int call = 0; call < calls; ++call) {
      if (!in_pieces) {
        braided->all_gather(*stream, shard[action], full[action], RowSplit(rows, 2));
        continue;
      }
      braided->in_pieces()->gather(*stream, shard[action], full[action], RowSplit(rows, 2), [](std::int64_t, std::int64_t) {},
                                   {});
    }
  }
};

}  // namespace

TEST_CASE("aborting a group of GPUs ends both actions of a braid that wait for a rank", "[gpu][braids]") {
  if (!needs_gpus(cuda_device_count())) return;
  for (const bool in_pieces : {false, true}) {
    for (const int calls_of_other : {0, 1, 2, 5}) {
      BraidRank ranks[2];
      for (int rank = 0; rank < 2; ++rank) ranks[rank].make(rank);
      auto groups = make_cuda_groups({ranks[0].device.get(), ranks[1].device.get()});
      for (int rank = 0; rank < 2; ++rank) {
        ranks[rank].group = std::move(groups[static_cast<std::size_t>(rank)]);
        ranks[rank].braid = std::make_unique<Braid>(*ranks[rank].device, "braid");
        ranks[rank].braided = std::make_unique<BraidGroup>(*ranks[rank].group, *ranks[rank].braid);
      }
      INFO("in pieces " << in_pieces << ", the other rank comes to " << calls_of_other);
      std::thread first(
          [&] { ranks[0].braid->run([&] { ranks[0].gathers(0, 8, in_pieces); }, [&] { ranks[0].gathers(1, 8, in_pieces); }); });
      std::thread second([&] {
        const int half = calls_of_other / 2;
        ranks[1].braid->run([&] { ranks[1].gathers(0, calls_of_other - half, in_pieces); },
                            [&] { ranks[1].gathers(1, half, in_pieces); });
      });
      std::this_thread::sleep_for(std::chrono::milliseconds(30));
      ranks[1].braided->abort(std::make_exception_ptr(Error(ErrorKind::aborted, "rank 1 is gone")));
      first.join();
      second.join();
      // Kernels wait on the braid's stream; a transfer in pieces makes the host wait.
      Stream& waiting = in_pieces ? *ranks[0].stream : ranks[0].braid->stream();
      CHECK_THROWS_WITH(waiting.synchronize(), "rank 1 is gone");
      for (BraidRank& rank : ranks) {
        for (Stream* stream : {rank.stream.get(), &rank.braid->stream()}) {
          try {
            stream->synchronize();
          } catch (const Error&) {
          }
        }
        if (PiecewiseTransfer* transfer = rank.group->in_pieces()) transfer->wait_until_idle();
      }
    }
  }
}
