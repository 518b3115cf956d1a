#include "actors/training/input/step_samples.hpp"

#include "actors/golden_run.hpp"
#include "catch.hpp"
#include "model/families/family.hpp"
#include "model/weights/weights.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

// Samples of 3 to 150 ids; in every other sample only some labels count.
class UnevenData final : public Dataset {
 public:
  explicit UnevenData(bool isolates = false, std::int64_t sequence = 150) : Dataset(sequence), isolates_(isolates) {}
  std::int64_t size() const override { return 40; }
  std::uint64_t content() const override { return 0; }
  SampleSize measure(std::int64_t index) const override {
    const std::int64_t ids = length(index);
    return {ids, ids - ids / 3};
  }
  bool isolates_documents() const override { return isolates_; }
  void read(std::int64_t index, Sample& sample) const override {
    const std::int64_t ids = length(index);
    sample.ids.resize(static_cast<std::size_t>(ids));
    for (std::int64_t i = 0; i < ids; ++i)
      sample.ids[static_cast<std::size_t>(i)] = static_cast<std::int32_t>((index * 5 + i * i) % 29);
    sample.labels = sample.ids;
    std::rotate(sample.labels.begin(), sample.labels.begin() + 1, sample.labels.end());
    std::fill_n(sample.labels.begin(), ids / 3, not_counted);
    sample.documents.clear();
    if (isolates_) sample.documents = {0, 2};
  }

 private:
  static std::int64_t length(std::int64_t index) { return 3 + index * 29 % 148; }
  bool isolates_;
};

TrainJob uneven_job(const Layout& layout, std::int64_t sequence = 150) {
  ModelConfig config = family_config(Family::llama);
  config.hidden = 8;
  config.layers = 3;
  config.heads = config.kv_heads = 2;
  config.head_dim = 4;
  config.intermediate = 12;
  config.vocabulary = 257;
  config.max_positions = 256;
  config.init_std = 0.3;
  TrainJob job = random_job(config, 8, 8, layout);
  job.dataset = std::make_shared<UnevenData>(false, sequence);
  return job;
}

void check_close_samples(const RunRecord& one, const RunRecord& other) {
  REQUIRE(one.loss.size() == other.loss.size());
  CHECK(one.tokens == other.tokens);
  for (std::size_t step = 0; step < one.loss.size(); ++step) {
    INFO("step " << step + 1);
    CHECK(std::abs(one.loss[step] / other.loss[step] - 1) < 1e-5);
    CHECK(std::abs(one.grad_norm[step] / other.grad_norm[step] - 1) < 1e-4);
  }
}

}  // namespace

TEST_CASE("a step is as long as its longest sample, rounded up, and counts the labels that count") {
  const auto data = std::make_shared<UnevenData>();
  const StepSamples one(data, {1, 4, 2}, true, 3), shared(data, {2, 4, 1}, true, 3);
  std::int64_t shortest = 1000, longest = 0;
  for (std::int64_t step = 1; step <= 10; ++step) {
    std::int64_t ids = 0, counted = 0;
    for (const std::int64_t index : one.sampler().global_batch(step - 1)) {
      ids = std::max(ids, data->measure(index).ids);
      counted += data->measure(index).counted;
    }
    const StepSize size = one.size(step);
    CHECK(size.sequence == std::min<std::int64_t>((ids + 63) / 64 * 64, 150));
    CHECK(size.counted == counted);
    CHECK(shared.size(step).sequence == size.sequence);
    CHECK(shared.size(step).counted == size.counted);
    shortest = std::min(shortest, size.sequence);
    longest = std::max(longest, size.sequence);
  }
  CHECK(shortest == 128);
  CHECK(longest == 150);
}

TEST_CASE("padding that does not count follows the ids of a sample") {
  const auto data = std::make_shared<UnevenData>();
  const StepSamples samples(data, {1, 2, 2}, false, 0);
  std::vector<std::int32_t> ids(2 * 128), labels(2 * 128);
  samples.read({1, 0, 1}, 128, ids, labels);
  for (std::size_t row = 0; row < 2; ++row) {
    Sample sample;
    data->read(2 + static_cast<std::int64_t>(row), sample);
    for (std::size_t i = 0; i < 128; ++i) {
      CHECK(ids[row * 128 + i] == (i < sample.ids.size() ? sample.ids[i] : 0));
      CHECK(labels[row * 128 + i] == (i < sample.ids.size() ? sample.labels[i] : not_counted));
    }
  }
}

TEST_CASE("each token knows where its document begins, and padding is a document of its own") {
  const StepSamples samples(std::make_shared<UnevenData>(true), {1, 1, 2}, false, 0);
  std::vector<std::int32_t> begins(2 * 64);
  samples.read_documents({1, 0, 0}, 64, begins);  // of 3 and 32 ids
  CHECK(std::vector(begins.begin(), begins.begin() + 5) == std::vector<std::int32_t>{0, 0, 2, 3, 3});
  CHECK(begins[63] == 3);
  CHECK(std::vector(begins.begin() + 64, begins.begin() + 68) == std::vector<std::int32_t>{0, 0, 2, 2});
  CHECK(begins[64 + 31] == 2);
  CHECK(begins[64 + 32] == 32);
  CHECK(begins.back() == 32);
}

TEST_CASE("samples of different length, some labels of which count, give the same bits at every pp, schedule and order") {
  const RunRecord reference = run(uneven_job({}), 4);
  std::int64_t counted = 0;
  for (const std::int64_t tokens : reference.tokens) counted += tokens;
  CHECK(counted < 4 * 8 * 150 * 2 / 3);
  for (const Layout& layout :
       {Layout{.pp = 2}, Layout{.pp = 3, .schedule = "zb-h1"}, Layout{.pp = 2, .schedule = "interleaved", .chunks = 2},
        Layout{.pp = 2, .order = schedules::Order::ready, .recompute = Recompute::full}}) {
    INFO(to_string(layout));
    CHECK(run(uneven_job(layout), 4) == reference);
  }
}

TEST_CASE("samples of different length give the same numbers however batch and model are divided") {
  const RunRecord reference = run(uneven_job({}), 3);
  for (const Layout& layout :
       {Layout{.dp = 2}, Layout{.microbatch = 4}, Layout{.pp = 2, .tp = 2}, Layout{.tp = 2, .sequence_parallel = false},
        Layout{.pp = 2, .tp = 2, .dp = 2, .microbatch = 2}}) {
    INFO(to_string(layout));
    check_close_samples(run(uneven_job(layout), 3), reference);
  }
}

TEST_CASE("padding changes no number") {
  TrainJob longer = uneven_job({}, 256);  // every step is now rounded up to a multiple of 64
  check_close_samples(run(std::move(longer), 3), run(uneven_job({}), 3));
}
