// Runs that train parts of the model only: frozen weights stay unchanged and take no memory for training, and the
// others are trained as if all were.
#include <algorithm>
#include <cmath>
#include <string>

#include "actors/golden_run.hpp"
#include "actors/several_blocks.hpp"
#include "actors/tiny_run.hpp"
#include "actors/training/run/job_memory.hpp"
#include "actors/training/run/make_train_job.hpp"
#include "actors/training/saved_run.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "core/half.hpp"
#include "model/costs.hpp"
#include "model/weights/full_tensors.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using Catch::Contains;

namespace {

constexpr TrainedParts blocks_only{.blocks = true, .embeddings = false, .head = false};
constexpr TrainedParts ends_only{.blocks = false, .embeddings = true, .head = true};

TrainJob frozen_job(const Layout& layout, const TrainedParts& trained = blocks_only, bool tied = false) {
  ModelConfig config = several_blocks_config(tied);
  config.trained = trained;
  return random_job(config, 16, 12, layout);
}

bool is_of_blocks(const std::string& name) {
  return name.find(".layers.") != std::string::npos || name.find(".h.") != std::string::npos;
}

// Checks that the frozen tensors, and no others, are unchanged, rounded by `round`.
template <class Round>
void check_frozen(const RunRecord& record, const TrainJob& job, Round round) {
  for (const auto& [name, drawn] : load_all(*job.initial.weights, job.config)) {
    INFO(name);
    std::vector<float> kept = drawn;
    std::transform(kept.begin(), kept.end(), kept.begin(), round);
    CHECK((record.weights.at(name) == kept) == (is_of_blocks(name) ? !job.config.trained.blocks : !job.config.trained.head));
  }
}

MemoryUse memory_of(const TrainJob& job) {
  MemoryUse all;
  for (const DeviceMemory& device : estimate_job(job).devices) all += device.use;
  return all;
}

}  // namespace

TEST_CASE("frozen embeddings and head stay as they are in every layout, with the same bits of the rest", "[groups]") {
  for (const TrainedParts& trained : {blocks_only, ends_only}) {
    const RunRecord expected = run(frozen_job({1, 1, 2, 1}, trained), 3);
    check_frozen(expected, frozen_job({}, trained), [](float value) { return value; });
    for (Layout layout : {Layout{2, 1, 2, 1}, Layout{4, 1, 2, 1, "zb-h1"}, Layout{2, 1, 2, 1, "zb-v", 2}}) {
      for (layout.zero = 0; layout.zero <= 3; ++layout.zero) {
        for (const bool offload : {false, true}) {
          layout.offload = layout.parameters = layout.gradients = offload;
          if (layout.zero == 2 && !offload) continue;
          INFO(to_string(trained) << ", " << to_string(layout));
          CHECK((run(frozen_job(layout, trained), 3) == expected));
        }
      }
    }
    const RunRecord split = run(frozen_job({1, 2, 1, 1}, trained), 3);
    check_frozen(split, frozen_job({}, trained), [](float value) { return value; });
    CHECK((run(frozen_job({2, 2, 1, 1, "zb-h1"}, trained), 3) == split));
  }
}

TEST_CASE("a frozen table that is tied stays on both stages that have it", "[groups]") {
  const RunRecord expected = run(frozen_job({1, 1, 2, 1}, blocks_only, true), 3);
  check_frozen(expected, frozen_job({}, blocks_only, true), [](float value) { return value; });
  for (Layout layout : {Layout{2, 1, 2, 1}, Layout{2, 1, 2, 1, "zb-v", 2}}) {
    for (const int zero : {0, 3}) {
      layout.zero = zero;
      INFO(to_string(layout));
      CHECK((run(frozen_job(layout, blocks_only, true), 3) == expected));
    }
  }
}

TEST_CASE("a step trains the parts that are not frozen as a step of all parts does", "[groups]") {
  for (const Family family : {Family::llama, Family::gpt2}) {
    const auto job = [&](const TrainedParts& trained) {
      TrainJob made = job_of({.family = family, .layers = 2, .dropout = 0.1});
      made.clip_norm = 0;  // the norm of all parts would scale more
      made.config.trained = trained;
      return made;
    };
    const RunRecord all = run(job({}), 1), blocks = run(job(blocks_only), 1), ends = run(job(ends_only), 1);
    for (const auto& [name, values] : all.weights) {
      INFO(name);
      CHECK(((is_of_blocks(name) ? blocks : ends).weights.at(name) == values));
    }
    const double squares = std::pow(blocks.grad_norm[0], 2) + std::pow(ends.grad_norm[0], 2);
    CHECK(std::sqrt(squares) == Approx(all.grad_norm[0]).epsilon(1e-12));
    CHECK(blocks.grad_norm[0] < all.grad_norm[0]);
    CHECK(blocks.loss == all.loss);
  }
}

TEST_CASE("frozen weights of a run in bf16 are the drawn ones, rounded, in every layout", "[groups]") {
  const auto job = [](const Layout& layout) {
    TrainJob made = frozen_job(layout);
    made.numerics.precision = Precision::bf16();
    return made;
  };
  const RunRecord expected = run(job({1, 1, 2, 1}), 2);
  check_frozen(expected, job({}), [](float value) { return from_bf16(to_bf16(value)); });
  for (Layout layout : {Layout{2, 1, 2, 1}, Layout{2, 1, 2, 1, "zb-h1"}}) {
    for (layout.zero = 0; layout.zero <= 3; layout.zero += 3) CHECK((run(job(layout), 2) == expected));
  }
}

TEST_CASE("frozen weights take neither gradients nor optimizer states, and in bf16 no master weights", "[groups]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16()}) {
    TrainJob all = frozen_job({}, {}), frozen = frozen_job({});
    all.numerics.precision = frozen.numerics.precision = precision;
    // The head's rows are padded to whole vectors.
    const std::size_t hidden = 128, ends = 2 * 1152 * hidden + hidden;
    const MemoryUse before = memory_of(all), after = memory_of(frozen);
    CHECK(before.gradients - after.gradients == ends * 4);
    CHECK(before.optimizer - after.optimizer == ends * 8);
    CHECK(before.parameters - after.parameters == (precision == Precision::bf16() ? ends * 4 : 0));
    CHECK(before.activations >= after.activations);
    CHECK(memory_of(frozen_job({1, 1, 2, 1})).gradients == 2 * memory_of(frozen_job({})).gradients);
  }
}

TEST_CASE("a run with frozen parts resumes from a checkpoint to the bit, and only with the parts that it trained", "[groups]") {
  const RunRecord whole = run(frozen_job({2, 1, 1, 1}), 4);
  const TempFolder folder;
  Trainer first(frozen_job({2, 1, 1, 1}));
  for (int step = 0; step < 2; ++step) first.step();
  first.start_checkpoint(folder.path()).get();
  const std::filesystem::path checkpoint = checkpoint_path(folder.path(), 2);
  Layout sharded{2, 1, 2, 1};
  sharded.zero = 3;
  CHECK((run(test::continued_job(checkpoint, frozen_job({2, 1, 1, 1})), 2).weights == whole.weights));
  CHECK((run(test::continued_job(checkpoint, frozen_job({4, 1, 1, 1, "zb-h1"})), 2).weights == whole.weights));
  CHECK_NOTHROW(run(test::continued_job(checkpoint, frozen_job(sharded)), 1));
  CHECK_THROWS_WITH(test::continued_job(checkpoint, frozen_job({}, {})), Contains("it trained blocks"));
}

TEST_CASE("settings that leave nothing to train, or half of a tied table, are refused", "[groups]") {
  RunSettings settings;
  settings.model.layers = 1;
  settings.data.sequence_length = 8;
  settings.batch = {1, 1, 1};
  settings.length.steps = 1;
  std::vector<std::string> notes;
  settings.model.trained = {false, false, false};
  CHECK_THROWS_WITH(make_train_job(settings, notes), Contains("nothing is left to train"));
  settings.model.name = "gpt2";
  settings.model.trained = {true, false, true};
  CHECK_THROWS_WITH(make_train_job(settings, notes), Contains("freeze both or neither"));
  settings.model.name = "tiny";
  settings.model.trained = blocks_only;
  CHECK(make_train_job(settings, notes).config.trained == blocks_only);
}
