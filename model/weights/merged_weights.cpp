#include "model/weights/merged_weights.hpp"

#include <cassert>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "model/config/adapter_roles.hpp"
#include "model/families/adapter_tensors.hpp"

namespace pipetrain {
namespace {

class MergedWeights : public WeightSource {
 public:
  MergedWeights(const ModelConfig& config, std::shared_ptr<const WeightSource> base,
                std::shared_ptr<const WeightSource> trained)
      : base_(std::move(base)), trained_(std::move(trained)), has_magnitudes_(config.adapter.magnitudes) {
    for (const Block& block : blocks_of(config)) {
      const auto tensors = block_tensors(config, block);
      const auto modules = adaptable_modules(config.adapter, tensors);
      for (std::size_t i = 0; i < tensors.size(); ++i) {
        const TensorSpec& tensor = tensors[i];
        if (is_of_adapter(tensor.role)) continue;
        Origin& origin = origins_[tensor.name];
        origin.is_trained |= is_trained(tensor.group);
        origin.is_transposed = tensor.transposed;
        if (!modules[i]) continue;
        origin.module = modules[i]->name;
        origin.adapter = adapter_of(config.adapter, origin.module, block);
        // A tensor that holds several parts has all rows of its module.
        if (tensor.part.count == 1) origin.part = modules[i]->part;
      }
    }
  }

  void load(const Parameter& parameter, float* out) const override {
    assert(parameter.local == parameter.full);
    const Origin& origin = origins_.at(parameter.name);
    (origin.is_trained ? *trained_ : *base_).load(parameter, out);
    if (!origin.adapter) return;
    add_adapter(parameter, origin, out);
    if (has_magnitudes_) scale_rows(parameter, origin, out);
  }

 private:
  struct Origin {
    bool is_trained = false, is_transposed = false;
    std::string module = {};
    std::optional<ModuleAdapter> adapter = {};
    TensorPart part = {};  // the tensor's rows of the module's
  };

  std::vector<float> load_trained(const std::string& name, const Shape& shape) const {
    Parameter whole;
    whole.name = name;
    whole.full = whole.local = shape;
    whole.group = ParameterGroup::adapter;
    std::vector<float> values(static_cast<std::size_t>(shape.elements()));
    trained_->load(whole, values.data());
    return values;
  }

  void add_adapter(const Parameter& parameter, const Origin& origin, float* out) const {
    const bool transposed = origin.is_transposed;
    const std::int64_t outputs = parameter.full[transposed ? 1 : 0], inputs = parameter.full[transposed ? 0 : 1];
    const std::int64_t rank = origin.adapter->rank;
    const auto first = load_trained(origin.module + std::string(adapter_in_end), {rank, inputs});
    const auto second = load_trained(origin.module + std::string(adapter_out_end), {origin.part.count * outputs, rank});
    const float* const own = second.data() + origin.part.index * outputs * rank;
    const auto scale = static_cast<float>(origin.adapter->scale);
    std::vector<float> row(static_cast<std::size_t>(inputs));
    for (std::int64_t i = 0; i < outputs; ++i) {
      row.assign(row.size(), 0);
      for (std::int64_t r = 0; r < rank; ++r) {
        const float factor = own[i * rank + r];
        const float* const from = first.data() + r * inputs;
        for (std::int64_t k = 0; k < inputs; ++k) row[static_cast<std::size_t>(k)] += factor * from[k];
      }
      for (std::int64_t k = 0; k < inputs; ++k)
        out[transposed ? k * outputs + i : i * inputs + k] += scale * row[static_cast<std::size_t>(k)];
    }
  }

  // Gives each row the norm that is its magnitude.
  void scale_rows(const Parameter& parameter, const Origin& origin, float* out) const {
    const bool transposed = origin.is_transposed;
    const std::int64_t outputs = parameter.full[transposed ? 1 : 0], inputs = parameter.full[transposed ? 0 : 1];
    const auto magnitudes = load_trained(origin.module + std::string(magnitude_end), {outputs});
    for (std::int64_t i = 0; i < outputs; ++i) {
      const auto element = [&](std::int64_t k) -> float& { return out[transposed ? k * outputs + i : i * inputs + k]; };
      double squares = 0;
      for (std::int64_t k = 0; k < inputs; ++k) squares += static_cast<double>(element(k)) * element(k);
      const auto factor = static_cast<float>(magnitudes[static_cast<std::size_t>(i)] / std::sqrt(squares));
      for (std::int64_t k = 0; k < inputs; ++k) element(k) *= factor;
    }
  }

  std::shared_ptr<const WeightSource> base_, trained_;
  bool has_magnitudes_;
  std::map<std::string, Origin> origins_;
};

}  // namespace

std::unique_ptr<WeightSource> merged_weights(const ModelConfig& config, std::shared_ptr<const WeightSource> base,
                                             std::shared_ptr<const WeightSource> trained) {
  return std::make_unique<MergedWeights>(config, std::move(base), std::move(trained));
}

}  // namespace pipetrain
