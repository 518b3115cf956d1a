// Runs whose frozen matrices are kept in fewer bits: they compute what a run of the dequantised weights computes.
#include <algorithm>
#include <string>

#include "actors/golden_run.hpp"
#include "actors/quantised_base.hpp"
#include "actors/training/run/job_memory.hpp"
#include "actors/training/run/make_train_job.hpp"
#include "catch.hpp"
#include "core/error.hpp"
#include "paths.hpp"

using namespace pipetrain;
using namespace pipetrain::test;
using Catch::Contains;

namespace {

constexpr WeightForm forms[] = {WeightForm::bf16, WeightForm::fp8, WeightForm::nf4, WeightForm::nf4_scales};

MemoryUse quantised_memory_of(const TrainJob& job) {
  MemoryUse all;
  for (const DeviceMemory& device : estimate_job(job).devices) all += device.use;
  return all;
}

}  // namespace

TEST_CASE("a base of fewer bits gives the bits of a run of its dequantised weights", "[quantisation]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16()}) {
    for (const WeightForm form : forms) {
      INFO("form " << static_cast<int>(form) << ", 16 bits " << (precision == Precision::bf16()));
      const RunRecord expected = run(dequantised_job(form, precision), 3),
                      own = run(base_job({1, 1, 2, 1}, form, precision), 3);
      CHECK(own.loss == expected.loss);
      CHECK(own.grad_norm == expected.grad_norm);
      CHECK((own == expected));
      CHECK(own.loss[0] != own.loss[2]);
    }
  }
}

TEST_CASE("a base of fewer bits gives the same bits in every layout", "[quantisation]") {
  for (const WeightForm form : {WeightForm::nf4, WeightForm::fp8}) {
    const RunRecord expected = run(base_job({1, 1, 2, 1}, form), 2);
    for (Layout layout : {Layout{2, 1, 2, 1}, Layout{4, 1, 2, 1, "zb-h1"}, Layout{2, 1, 2, 1, "zb-v", 2},
                          Layout{2, 1, 2, 1, "dualpipe-v", 2}, Layout{2, 1, 2, 1, "interleaved", 2}}) {
      for (layout.zero = 0; layout.zero <= 3; ++layout.zero) {
        layout.recompute = layout.zero == 1 ? Recompute::full : layout.zero == 2 ? Recompute::selective : Recompute::none;
        INFO("form " << static_cast<int>(form) << ", " << to_string(layout));
        CHECK((run(base_job(layout, form), 2) == expected));
      }
    }
    Layout outside{2, 1, 2, 1};
    outside.offload = outside.parameters = outside.gradients = true;
    CHECK((run(base_job(outside, form), 2) == expected));
  }
}

TEST_CASE("adapters with magnitudes on a base of fewer bits have the bits of a run of its dequantised weights",
          "[quantisation][adapters]") {
  for (const WeightForm form : {WeightForm::nf4, WeightForm::fp8}) {
    TrainJob plain = golden_adapter_job("llama3_dora", {1, 1, 1, 2});
    plain.initial.weights = std::make_shared<DequantisedWeights>(plain.initial.weights, form);
    const RunRecord expected = run(plain, 3);
    for (const Layout& layout : {Layout{1, 1, 1, 2}, Layout{4, 1, 1, 2, "zb-h1"}, Layout{2, 1, 1, 2, "zb-v", 2}}) {
      TrainJob job = golden_adapter_job("llama3_dora", layout);
      job.config.base_form = form;
      INFO("form " << static_cast<int>(form) << ", " << to_string(layout));
      CHECK((run(job, 3) == expected));
    }
    CHECK(expected.loss != run(golden_adapter_job("llama3_dora", {1, 1, 1, 2}), 3).loss);
  }
}

TEST_CASE("tensor-parallel ranks have the values of the whole matrices", "[quantisation]") {
  for (const WeightForm form : forms) {
    INFO("form " << static_cast<int>(form));
    const RunRecord whole = run(base_job({}, form), 2), split = run(base_job({1, 2, 1, 1}, form), 2);
    for (const auto& [name, values] : whole.weights) {
      INFO(name);
      if (name.find(".layers.") != std::string::npos) CHECK((split.weights.at(name) == values));
    }
    for (std::size_t step = 0; step < 2; ++step) CHECK(split.loss[step] == Approx(whole.loss[step]).epsilon(2e-5));
    CHECK((run(base_job({2, 2, 1, 1, "zb-h1"}, form), 2) == split));
    if (form == WeightForm::nf4) CHECK((run(base_job({2, 2, 1, 1, "dualpipe-v", 2}, form), 2) == split));
  }
}

TEST_CASE("the estimate of memory knows the bytes of a base of fewer bits", "[quantisation]") {
  const std::size_t matrices = 2 * (128 * 256 + 128 * 128 + 3 * 128 * 512);  // elements of two layers
  const std::size_t plain = quantised_memory_of(base_job({}, WeightForm::plain)).parameters;
  const auto bytes = [&](WeightForm form) {
    return static_cast<double>(quantised_memory_of(base_job({}, form)).parameters) - static_cast<double>(plain - matrices * 4);
  };
  const auto count = static_cast<double>(matrices);
  CHECK(bytes(WeightForm::bf16) == Approx(count * 2).epsilon(0.001));
  CHECK(bytes(WeightForm::fp8) == Approx(count).epsilon(0.02));
  CHECK(bytes(WeightForm::nf4_scales) == Approx(count * (0.5 + 4.0 / 64)).epsilon(0.02));
  CHECK(bytes(WeightForm::nf4) == Approx(count * (0.5 + 1.0 / 64)).epsilon(0.1));
  // One block of the largest kind is dequantised.
  CHECK(quantised_memory_of(base_job({}, WeightForm::nf4)).workspace -
            quantised_memory_of(base_job({}, WeightForm::plain)).workspace ==
        3 * 128 * 512 * 4);
}

TEST_CASE("ranks that divide the inputs which share a scale are refused before anything runs", "[quantisation]") {
  ModelConfig config = base_config();
  config.intermediate = 1036;
  config.base_form = WeightForm::nf4;
  CHECK_THROWS_WITH(estimate_job(random_job(config, 16, 12, {1, 2, 1, 1})), Contains("use a smaller tp, or fp8"));
  CHECK_NOTHROW(estimate_job(random_job(config, 16, 12, {})));
}

TEST_CASE("base-precision needs frozen matrices, and a quantised folder keeps its form", "[quantisation]") {
  RunSettings settings;
  settings.model.layers = 1;
  settings.data.sequence_length = 8;
  settings.batch = {1, 1, 1};
  settings.length.steps = 1;
  std::vector<std::string> notes;
  settings.model.base_precision = BasePrecision::nf4;
  CHECK_THROWS_WITH(make_train_job(settings, notes), Contains("no matrix of attention and MLP is frozen"));
  settings.model.trained = {.blocks = false, .embeddings = true, .head = true};
  CHECK(make_train_job(settings, notes).config.base_form == WeightForm::nf4);
  settings.model.base_precision = BasePrecision::bf16;
  CHECK(make_train_job(settings, notes).config.base_form == WeightForm::bf16);
  settings.numerics.precision = Precision::bf16();
  CHECK(make_train_job(settings, notes).config.base_form == WeightForm::plain);  // they have that type anyway
  settings.model.name = test_data() + "/golden/bitsandbytes/nf4";
  settings.model.load_weights = true;
  settings.model.base_precision = BasePrecision::fp8;
  CHECK_THROWS_WITH(make_train_job(settings, notes), Contains("quantised to nf4 already"));
  settings.model.base_precision = {};
  settings.model.trained = {};
  CHECK_THROWS_WITH(make_train_job(settings, notes), Contains("train adapters on them"));
}
