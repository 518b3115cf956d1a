// Frozen matrices of fewer bits on GPUs: a run computes what a run of the dequantised weights computes.
#include <optional>

#include "actors/cuda/gpu_job.hpp"
#include "actors/quantised_base.hpp"
#include "catch.hpp"

namespace pipetrain::test {
namespace {

std::optional<RunRecord> run_base_on_gpu(TrainJob job, const Precision& precision) {
  if (!on_gpus(job, 1, precision)) return std::nullopt;
  return run(std::move(job), 3);
}

}  // namespace

TEST_CASE("a base of fewer bits gives the bits of a run of its dequantised weights on one GPU, at every pp",
          "[gpu][quantisation]") {
  for (const Precision& precision : {Precision::fp32(), Precision::bf16()}) {
    for (const WeightForm form : {WeightForm::bf16, WeightForm::fp8, WeightForm::nf4, WeightForm::nf4_scales}) {
      INFO("form " << static_cast<int>(form) << ", 16 bits " << (precision == Precision::bf16()));
      TrainJob plain = base_job({1, 1, 1, 2}, WeightForm::plain);
      plain.initial.weights = std::make_shared<DequantisedWeights>(plain.initial.weights, form);
      const auto expected = run_base_on_gpu(std::move(plain), precision);
      if (!expected) return;
      Layout recomputed{2, 1, 1, 2, "zb-v", 2};
      recomputed.recompute = Recompute::full;
      for (const Layout& layout : {Layout{1, 1, 1, 2}, Layout{2, 1, 1, 2, "zb-h1"}, recomputed}) {
        INFO(to_string(layout));
        CHECK((*run_base_on_gpu(base_job(layout, form), precision) == *expected));
      }
    }
  }
}

}  // namespace pipetrain::test
