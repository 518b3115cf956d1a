// Ranks that share sequences follow the golden trajectories, with equal bits over pp, schedules and orders at equal cp.
#include <cmath>
#include <memory>

#include "actors/training/checkpoint/checkpoint.hpp"
#include "actors/training/checkpoint/checkpoint_folder.hpp"
#include "actors/training/job/combinations.hpp"
#include "actors/training/job/job_plan.hpp"
#include "actors/training/rank/stage_memory.hpp"
#include "actors/training/rank/transformer_compute.hpp"
#include "actors/training/run/job_memory.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "data/samples/split.hpp"
#include "golden_run.hpp"
#include "model/config/zero.hpp"
#include "model/families/family.hpp"
#include "schedules/builders/builders.hpp"
#include "schedules/plan/validate.hpp"
#include "temp_folder.hpp"
#include "tiny_run.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using schedules::Order;

namespace {

Layout with_ring(int cp, Layout layout) {
  layout.cp = cp;
  return layout;
}

// Rows whose lengths make steps of 64, 128 and 192 tokens.
class Rows final : public Dataset {
 public:
  Rows() : Dataset(192) {}
  std::int64_t size() const override { return 60; }
  std::uint64_t content() const override { return 0; }
  SampleSize measure(std::int64_t index) const override { return {length(index), length(index)}; }
  void read(std::int64_t index, Sample& sample) const override {
    sample = {};
    for (std::int64_t i = 0; i < length(index); ++i) {
      sample.ids.push_back(static_cast<std::int32_t>((index * 7 + i * i * 3) % 259));
      sample.labels.push_back(static_cast<std::int32_t>((index * 11 + i * 5) % 259));
    }
  }

 private:
  static std::int64_t length(std::int64_t index) { return 20 + 40 * (index % 5) + index % 7; }
};

ModelConfig small_ring_config(Family family = Family::llama) {
  ModelConfig config = family_config(family);
  config.hidden = 32;
  config.layers = 2;
  config.heads = 4;
  config.kv_heads = family == Family::llama ? 2 : 4;
  config.head_dim = 8;
  config.intermediate = 48;
  config.vocabulary = 259;
  config.max_positions = 256;
  config.init_std = 0.08;
  return config;
}

}  // namespace

namespace {

void check_ring_trajectory(const std::string& name, const std::vector<Layout>& layouts) {
  const Reference reference = golden_reference(name);
  const auto steps = static_cast<std::int64_t>(reference.loss.size());
  for (const Layout& layout : layouts) {
    INFO(name << " " << to_string(layout));
    const RunRecord first = run(golden_job(name, layout), steps);
    check_golden(first, reference);
    Layout other = layout;
    other.pp = 2;
    CHECK((run(golden_job(name, other), steps) == first));
    other.schedule = "zb-v";
    other.chunks = 2;
    CHECK((run(golden_job(name, other), steps) == first));
  }
}

}  // namespace

TEST_CASE("ranks that share sequences follow the golden trajectory, to the bit the same over pp and schedules", "[golden]") {
  check_ring_trajectory("llama3_tiny", {with_ring(2, {1, 2, 2, 1})});
  check_ring_trajectory("gpt2_tiny", {with_ring(4, {1, 1, 2, 4})});
  check_ring_trajectory("llama2_tiny", {with_ring(4, {1, 2, 1, 1})});
}

TEST_CASE("ranks that share sequences in further layouts follow the golden trajectory", "[golden][slow]") {
  for (const std::string name : {"llama2_tiny", "llama3_tiny", "gpt2_tiny"})
    check_ring_trajectory(
        name, {with_ring(2, {1, 1, 1, 2}), with_ring(2, {1, 2, 2, 1}), with_ring(4, {1, 1, 2, 4}), with_ring(4, {1, 2, 1, 1})});
}

TEST_CASE("every schedule and order gives the bits of 1f1b where ranks share sequences") {
  for (const Family family : {Family::llama, Family::gpt2}) {
    const int dp = family == Family::gpt2 ? 2 : 1;
    TinyRun tiny{.family = family, .tied = family == Family::gpt2, .microbatches = 3};
    tiny.layout = with_ring(2, {1, 1, dp, 2});
    const RunRecord reference = run(tiny);
    for (const auto& schedule : schedules::all_schedules()) {
      for (const auto order : {Order::planned, Order::ready}) {
        if (order == Order::ready && !schedule.has_ready_rule) continue;
        tiny.layout = with_ring(2, {2, 1, dp, 2, std::string(schedule.name), schedule.default_chunks, order});
        INFO(to_string(tiny));
        CHECK((run(tiny) == reference));
      }
    }
  }
}

TEST_CASE("recomputation, threads, ZeRO and sequence parallelism keep the bits where ranks share sequences") {
  for (const int precision : {0, 1, 2}) {
    TinyRun tiny{.sequence = 16, .precision = precision};
    tiny.layout = with_ring(precision == 0 ? 4 : 2, {1, 1, 2});
    const RunRecord reference = run(tiny);
    for (const Recompute mode : {Recompute::selective, Recompute::full}) {
      for (const std::string schedule : {"1f1b", "zb-h1"}) {
        TinyRun other = tiny;
        other.layout.pp = 2;
        other.layout.threads = 3;
        other.layout.schedule = schedule;
        other.layout.recompute = mode;
        INFO(to_string(other));
        CHECK((run(other) == reference));
      }
    }
    for (int zero = 1; zero <= most_zero_stages; ++zero) {
      for (const int dp : {1, 2}) {
        TinyRun other = tiny;
        other.layout.dp = dp;
        const RunRecord whole = run(other);
        other.layout.zero = zero;
        INFO(to_string(other));
        CHECK((run(other) == whole));
        other.layout.pp = 2;
        CHECK((run(other) == whole));
      }
    }
  }
  TinyRun tiny{.layout = with_ring(2, {1, 2})};
  tiny.layout.sequence_parallel = false;
  const RunRecord reference = run(tiny);
  tiny.layout.pp = 2;
  CHECK((run(tiny) == reference));
}

TEST_CASE("offloading gives the same bits when ranks share sequences") {
  const Layout plain = with_ring(2, {4, 1, 1, 1, "gpipe"});
  const RunRecord inside = run(golden_job("llama3_tiny", plain), 2);
  for (const bool weights : {false, true}) {
    Layout layout = plain;
    layout.activations = weights ? 0 : 1;
    layout.offload = layout.parameters = layout.gradients = weights;
    INFO(to_string(layout));
    CHECK((run(golden_job("llama3_tiny", layout), 2) == inside));
  }
}

TEST_CASE("a checkpoint does not depend on cp, and another cp resumes from it") {
  const TempFolder folder;
  const auto job_from = [](const std::filesystem::path& checkpoint, const Layout& layout) {
    TrainJob job = golden_job("llama3_tiny", layout);
    if (checkpoint.empty()) return job;
    const CheckpointManifest manifest = verify_checkpoint(checkpoint);
    job.initial = open_checkpoint(checkpoint, manifest, job.config);
    job.steps_done = manifest.state.step;
    return job;
  };
  const RunRecord whole = run(golden_job("llama3_tiny", {}), 6);
  for (const Layout& from : {with_ring(1, {2}), with_ring(2, {1, 2}),
                             with_ring(4, {1, 1, 1, 1, "1f1b", 1, Order::planned, true, 1, Recompute::none, 3})}) {
    const auto place = folder.path() / std::to_string(from.cp);
    Trainer trainer(job_from({}, from));
    for (int step = 0; step < 3; ++step) trainer.step();
    trainer.start_checkpoint(place).get();
    for (const Layout& to : {with_ring(1, {}), with_ring(2, {2}), with_ring(4, {1, 1, 2})}) {
      INFO(to_string(from) << " to " << to_string(to));
      const RunRecord rest = run(job_from(checkpoint_path(place, 3), to), 3);
      for (std::size_t step = 0; step < 3; ++step) CHECK(std::abs(rest.loss[step] / whole.loss[step + 3] - 1) <= 2e-5);
    }
  }
}

TEST_CASE("an evaluation finds the same loss at every cp") {
  std::optional<double> whole;
  for (const int cp : {1, 2, 4}) {
    TinyRun tiny{.microbatches = 4, .layout = with_ring(cp, {2, 1, 2})};
    TrainJob job = job_of(tiny);
    job.evaluation = split_dataset(job.dataset, 0.02, 3).evaluation;
    Trainer trainer(job);
    const double loss = trainer.evaluate()->loss;
    if (!whole) whole = loss;
    CHECK(loss == Approx(*whole).epsilon(2e-6));
  }
}

TEST_CASE("steps of shorter rows are shared as those of long ones") {
  for (const Family family : {Family::llama, Family::gpt2}) {
    const ModelConfig config = small_ring_config(family);
    std::optional<RunRecord> whole;
    for (const auto& [cp, slices] : {std::pair{1, 1}, {2, 1}, {3, 1}, {1, 4}, {2, 4}}) {
      Layout layout = with_ring(cp, {2});
      layout.slices = slices;
      TrainJob job = random_job(config, 192, 2, layout);
      job.dataset = std::make_shared<Rows>();
      const RunRecord record = run(job, 5);
      if (!whole) whole = record;
      CHECK(record.tokens == whole->tokens);
      for (std::size_t step = 0; step < record.loss.size(); ++step) {
        INFO("cp " << cp << ", " << slices << " slices, step " << step + 1);
        CHECK(std::abs(record.loss[step] / whole->loss[step] - 1) <= 2e-5);
        CHECK(std::abs(record.grad_norm[step] / whole->grad_norm[step] - 1) <= 2e-4);
      }
    }
  }
}

TEST_CASE("the rank with a sequence's last token scores its class", "[golden]") {
  for (const std::string name : {"gpt2_classify_tiny", "llama_classify_tiny", "olmo2_classify_tiny"}) {
    const Reference reference = golden_reference(name);
    for (const int cp : {1, 2}) {
      TrainJob job = golden_job(name, with_ring(cp, {2, 2, 1, 2}));
      if (cp > 1 && job.dataset->sequence_length() % (2 * cp) != 0) continue;
      INFO(name << " cp " << cp);
      check_golden(run(job, 6), reference);
      job.evaluation = job.dataset;
      const auto one = Trainer(golden_job(name, {})).evaluate();
      TrainJob plain = golden_job(name, {});
      plain.evaluation = plain.dataset;
      const auto evaluation = *Trainer(job).evaluate(), expected = *Trainer(plain).evaluate();
      CHECK(evaluation.loss == Approx(expected.loss).epsilon(2e-6));
      CHECK(evaluation.accuracy == expected.accuracy);
      CHECK(evaluation.f1 == expected.f1);
      CHECK_FALSE(one);
    }
  }
}

TEST_CASE("ranks that share sequences drop what one rank drops, and keep documents apart") {
  for (const Family family : {Family::llama, Family::gpt2}) {
    for (const bool isolated : {false, true}) {
      for (const double dropout : {0.0, 0.3}) {
        if (!isolated && dropout == 0) continue;
        TinyRun tiny{.family = family, .sequence = 24, .dropout = dropout, .isolated = isolated};
        tiny.layout.microbatch = 2;
        const RunRecord whole = run(tiny);
        for (const Layout& layout :
             {with_ring(2, {1, 1, 1, 2}), with_ring(3, {1, 1, 1, 2}), with_ring(2, {1, 2, 1, 2}), with_ring(4, {1, 2, 1, 2})}) {
          tiny.layout = layout;
          INFO(to_string(tiny));
          const RunRecord shared = run(tiny);
          CHECK(std::abs(shared.loss[0] / whole.loss[0] - 1) <= 2e-6);
          CHECK(std::abs(shared.grad_norm[0] / whole.grad_norm[0] - 1) <= 2e-5);
          CHECK(std::abs(shared.loss[1] / whole.loss[1] - 1) <= 2e-4);
          for (const std::string schedule : {"1f1b", "zb-h1"}) {
            TinyRun deep = tiny;
            deep.layout.pp = 2;
            deep.layout.schedule = schedule;
            deep.layout.recompute = Recompute::full;
            CHECK((run(deep) == shared));
          }
        }
      }
    }
  }
}

namespace {

struct SharedSlices {
  int cp, slices, tp;
};

void check_shared_slices(const std::vector<SharedSlices>& layouts) {
  for (const Family family : {Family::llama, Family::gpt2}) {
    for (const bool isolated : {false, true}) {
      for (const double dropout : {0.0, 0.3}) {
        for (const int precision : {0, 1}) {
          if (precision > 0 && (family == Family::gpt2 || isolated != (dropout > 0))) continue;
          TinyRun tiny{
              .family = family, .layers = 4, .sequence = 24, .dropout = dropout, .isolated = isolated, .precision = precision};
          tiny.layout.microbatch = 2;
          const RunRecord whole = run(tiny);
          const double tolerance = precision == 0 ? 2e-6 : 5e-3;
          for (const auto& [cp, slices, tp] : layouts) {
            tiny.layout = with_ring(cp, {1, tp, 1, 2});
            tiny.layout.slices = slices;
            INFO(to_string(tiny));
            const RunRecord shared = run(tiny);
            CHECK(std::abs(shared.loss[0] / whole.loss[0] - 1) <= tolerance);
            CHECK(std::abs(shared.grad_norm[0] / whole.grad_norm[0] - 1) <= 10 * tolerance);
            CHECK(std::abs(shared.loss[1] / whole.loss[1] - 1) <= 100 * tolerance);
            TinyRun deep = tiny;
            deep.layout.pp = 2, deep.layout.threads = 2;
            for (const Recompute again : {Recompute::selective, Recompute::full}) {
              deep.layout.recompute = again;
              CHECK((run(deep) == shared));
            }
            deep.layout.schedule = "interleaved", deep.layout.chunks = 2;
            CHECK((run(deep) == shared));
          }
        }
      }
    }
  }
}

}  // namespace

TEST_CASE("slices of what ranks share give what whole sequences give, to the bit the same over pp and recomputation") {
  check_shared_slices({{2, 6, 2}});
}

TEST_CASE("slices of what more or fewer ranks share give what whole sequences give", "[slow]") {
  check_shared_slices({{2, 2, 1}, {3, 4, 1}, {4, 3, 1}});
}

TEST_CASE("the more ranks share sequences, the less each takes for activations, as estimated") {
  std::size_t before = 0;
  for (const int cp : {1, 2, 4}) {
    const TrainJob job = random_job(small_ring_config(), 256, 4, with_ring(cp, {2}));
    const auto estimated = estimate_job(job).devices;
    const auto taken = Trainer(job).memory();
    REQUIRE(estimated.size() == static_cast<std::size_t>(2 * cp));
    REQUIRE(taken.size() == estimated.size());
    for (std::size_t rank = 0; rank < taken.size(); ++rank) {
      CHECK(taken[rank].use.total() == estimated[rank].use.total());
      CHECK(taken[rank].rank == estimated[rank].rank);
    }
    const std::size_t activations = taken.front().use.activations;
    if (before > 0) CHECK(static_cast<double>(activations) < 0.52 * static_cast<double>(before));
    before = activations;
  }
  Layout sliced = with_ring(2, {2});
  sliced.slices = 4;
  const TrainJob job = random_job(small_ring_config(), 256, 4, sliced);
  const auto estimated = estimate_job(job).devices;
  const auto taken = Trainer(job).memory();
  for (std::size_t rank = 0; rank < taken.size(); ++rank) CHECK(taken[rank].use.total() == estimated[rank].use.total());
}

TEST_CASE("layouts are estimated like runs whose ranks share sequences") {
  for (const int cp : {1, 2, 4}) {
    const TrainJob job = random_job(small_ring_config(), 256, 4, with_ring(cp, {}));
    const schedules::Plan plan = *build_plan(job);
    const auto needs = validate(plan, Order::planned, TransformerCompute::slot_life());
    JobSettings settings;
    settings.layout.cp = cp;
    settings.numerics = job.numerics;
    const StageMemory memory(job.config, {1, 256 / cp}, settings);
    const auto blocks = parts_of(job, plan.placement);
    CHECK(memory.estimate(blocks, plan.microbatches, needs.front(), plan.stages.front()).total() ==
          estimate_job(job).devices.front().use.total());
  }
}

TEST_CASE("settings that exclude shared sequences are refused by name") {
  const auto job_with = [](int cp, const std::function<void(TinyRun&)>& change) {
    TinyRun tiny{.sequence = 12, .layout = with_ring(cp, {})};
    change(tiny);
    return job_of(tiny);
  };
  CHECK(refusal(job_with(2, [](TinyRun&) {})) == "none");
  CHECK(refusal(job_with(4, [](TinyRun&) {})) ==
        "cp 4: sequences of 12 tokens cannot be cut into 2 x 4 equal chunks; use a seq-len that is a multiple of 8");
  const auto on_gpu = [&](const std::function<void(TinyRun&)>& change) {
    TrainJob job = job_with(2, change);
    job.devices = {.kind = DeviceKind::cuda, .gpus = {0, 0}};
    try {
      check_combinations(features_of(job));
    } catch (const Error& error) {
      return std::string(error.what());
    }
    return std::string("none");
  };
  CHECK(on_gpu([](TinyRun&) {}) == "none");
  CHECK_THAT(on_gpu([](TinyRun& tiny) { tiny.dropout = 0.1; }),
             Catch::Contains("GPUs do not share sequences with dropout yet"));
  CHECK_THAT(on_gpu([](TinyRun& tiny) { tiny.isolated = true; }),
             Catch::Contains("GPUs do not share sequences of isolated documents yet"));
  const auto sliced = [](TinyRun& tiny) { tiny.layout.slices = 2; };
  CHECK_THAT(on_gpu([&](TinyRun& tiny) { tiny.sequence = 16, sliced(tiny); }),
             Catch::Contains("cp 2: GPUs do not share sequences in slices yet"));
  CHECK(refusal(job_with(2, sliced)) ==
        "cp 2: sequences of 12 tokens cannot be cut into 2 x 2 x 2 equal chunks; use a seq-len that is a multiple of 8");
}
