// Runs of a small model whose blocks are frozen and kept in fewer bits, and the runs of their dequantised weights.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "actors/golden_run.hpp"
#include "actors/several_blocks.hpp"
#include "model/quantisation/quantise.hpp"
#include "model/weights/weights.hpp"

namespace pipetrain::test {

// Gives the matrices of attention and MLP as a form keeps them, in f32.
class DequantisedWeights final : public WeightSource {
 public:
  DequantisedWeights(std::shared_ptr<const WeightSource> source, WeightForm form) : source_(std::move(source)), form_(form) {}

  void load(const Parameter& parameter, float* out) const override {
    if (!is_quantisable(parameter.role)) return source_->load(parameter, out);
    const Parameter whole = whole_matrix(parameter);
    std::vector<float> values(static_cast<std::size_t>(whole.local.elements()));
    source_->load(whole, values.data());
    const QuantisedLayout layout = quantised_layout_of(parameter, form_);
    std::vector<std::byte> bytes(layout.bytes);
    quantise(layout, values, bytes.data());
    read_values({layout, bytes.data()}, 0, parameter.local.elements(), out);
  }

 private:
  std::shared_ptr<const WeightSource> source_;
  WeightForm form_;
};

inline ModelConfig base_config() {
  ModelConfig config = several_blocks_config();
  config.intermediate = 512;
  config.trained = {.blocks = false, .embeddings = true, .head = true};
  return config;
}

inline TrainJob base_job(const Layout& layout, WeightForm form, const Precision& precision = Precision::fp32()) {
  ModelConfig config = base_config();
  config.base_form = form;
  TrainJob job = random_job(config, 16, 12, layout);
  job.numerics.precision = precision;
  return job;
}

// A run of the dequantised weights of the form.
inline TrainJob dequantised_job(WeightForm form, const Precision& precision) {
  TrainJob job = base_job({1, 1, 2, 1}, WeightForm::plain, precision);
  job.initial.weights = std::make_shared<DequantisedWeights>(job.initial.weights, form);
  return job;
}

}  // namespace pipetrain::test
