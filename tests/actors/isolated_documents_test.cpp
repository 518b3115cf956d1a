// Documents that are packed into samples and isolated are trained on as if each were a sample.
#include <cmath>

#include "catch.hpp"
#include "golden_run.hpp"
#include "model/families/family.hpp"

using namespace pipetrain;
using namespace pipetrain::test;

namespace {

constexpr std::int64_t documents_a_sample = 3, document_sequence = 24;

std::int64_t length_of(std::int64_t document) { return 2 + document * 5 % 7; }

void append(std::int64_t document, Sample& sample) {
  for (std::int64_t i = 0; i < length_of(document); ++i) {
    sample.ids.push_back(static_cast<std::int32_t>((document * 7 + i * i * 3) % 29));
    sample.labels.push_back(static_cast<std::int32_t>((document * 11 + i * 5) % 29));
  }
}

// A dataset with several isolated documents a sample, or one.
class Documents final : public Dataset {
 public:
  explicit Documents(bool packed) : Dataset(document_sequence), each_(packed ? documents_a_sample : 1), packed_(packed) {}
  std::int64_t size() const override { return 240 / each_; }
  std::uint64_t content() const override { return 0; }
  bool isolates_documents() const override { return packed_; }
  SampleSize measure(std::int64_t index) const override {
    Sample sample;
    read(index, sample);
    return {std::ssize(sample.ids), std::ssize(sample.ids)};
  }
  void read(std::int64_t index, Sample& sample) const override {
    sample = {};
    for (std::int64_t i = 0; i < each_; ++i) {
      if (packed_) sample.documents.push_back(static_cast<std::int32_t>(sample.ids.size()));
      append(index * each_ + i, sample);
    }
  }

 private:
  std::int64_t each_;
  bool packed_;
};

TrainJob documents_job(Family family, bool packed, const Layout& layout) {
  ModelConfig config = family_config(family);
  config.hidden = 8;
  config.layers = 2;
  config.heads = config.kv_heads = 2;
  config.head_dim = 4;
  config.intermediate = 12;
  config.vocabulary = 257;
  config.max_positions = 32;
  config.init_std = 0.3;
  TrainJob job = random_job(config, document_sequence, packed ? 4 : 4 * documents_a_sample, layout);
  job.dataset = std::make_shared<Documents>(packed);
  job.samples.shuffle = false;
  return job;
}

}  // namespace

TEST_CASE("packed documents that are kept apart train as each alone, in every layout", "[documents]") {
  const Family family = GENERATE(Family::llama, Family::gpt2);
  const RunRecord alone = run(documents_job(family, false, {}), 3);
  const RunRecord one_stage = run(documents_job(family, true, {}), 3);
  for (const Layout& layout :
       {Layout{}, Layout{.pp = 3, .schedule = "zb-h1"}, Layout{.pp = 2, .recompute = Recompute::full},
        Layout{.pp = 2, .schedule = "interleaved", .chunks = 2, .order = schedules::Order::ready}, Layout{.pp = 2, .tp = 2},
        Layout{.slices = 3}, Layout{.pp = 2, .microbatch = 2, .recompute = Recompute::full, .slices = 5},
        Layout{.dp = 2, .microbatch = 2}, Layout{.tp = 2, .sequence_parallel = false, .recompute = Recompute::selective}}) {
    INFO(to_string(layout));
    const RunRecord packed = run(documents_job(family, true, layout), 3);
    CHECK(packed.tokens == alone.tokens);
    if (layout.tp == 1 && layout.dp == 1 && layout.slices == 1) CHECK(packed == one_stage);
    for (std::size_t step = 0; step < alone.loss.size(); ++step) {
      CHECK(std::abs(packed.loss[step] / alone.loss[step] - 1) < 1e-5);
      CHECK(std::abs(packed.grad_norm[step] / alone.grad_norm[step] - 1) < 1e-4);
    }
  }
}
