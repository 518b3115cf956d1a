#include "model/weights/peft/peft_parameters.hpp"

#include <fmt/format.h>

#include <string_view>

#include "model/config/adapter_roles.hpp"
#include "model/families/adapter_tensors.hpp"
#include "model/families/family.hpp"

namespace pipetrain {
namespace {

constexpr std::string_view inner_parameter = ".gate_up_proj", outer_parameter = ".down_proj";

// Returns PEFT's name of the tensor: `parameter` is "model.layers.3.mlp.experts.down_proj", and `end` that of the adapter's
// tensor.
std::string wrapped_name(const Adapter& adapter, const std::string& parameter, std::string_view end, std::int64_t layer) {
  const bool is_inner = parameter.ends_with(inner_parameter);
  const std::string module = parameter.substr(0, parameter.rfind('.'));
  // adapter_of() takes the module of an expert, whichever.
  const std::string other = fmt::format("{}.0{}", module, outer_parameter);
  const bool is_wrapped = is_inner && adapter_of(adapter, other, layer).has_value();
  return fmt::format("{}{}{}", module, is_wrapped ? ".base_layer" : "", end);
}

}  // namespace

std::int64_t PeftPlace::index_of(std::int64_t i) const {
  if (!is_second) return expert * one.elements() + i;
  const std::int64_t rank = one[1], half = one[0] / 2, row = i / rank, column = i % rank;
  const std::int64_t own = alternates ? row % half * 2 + row / half : row;
  return (own * rank + column) * experts + expert;
}

PeftPlaces::PeftPlaces(const ModelConfig& config) {
  if (config.adapter.parameters.empty()) return;
  const std::int64_t experts = config.experts.count;
  for (const Block& block : blocks_of(config)) {
    if (block.kind != BlockKind::experts) continue;
    for (const TensorSpec& tensor : block_tensors(config, block)) {
      if (!is_of_adapter(tensor.role) || tensor.expert < 0) continue;
      const bool is_second = tensor.name.ends_with(adapter_out_end);
      const std::string_view end = is_second ? adapter_out_end : adapter_in_end;
      const std::string parameter = parameter_of(tensor.name.substr(0, tensor.name.size() - end.size())).value();
      const Shape& one = tensor.shape;
      places_.emplace(tensor.name,
                      PeftPlace{.tensor = wrapped_name(config.adapter, parameter, end, block.layer),
                                .shape = is_second ? Shape{one[0], one[1] * experts} : Shape{one[0] * experts, one[1]},
                                .one = one,
                                .expert = tensor.expert,
                                .experts = experts,
                                .is_second = is_second,
                                .alternates = parameter.ends_with(inner_parameter) && spec_of(config.family).experts->stacked});
    }
  }
}

const PeftPlace* PeftPlaces::find(const std::string& tensor) const {
  const auto found = places_.find(tensor);
  return found == places_.end() ? nullptr : &found->second;
}

}  // namespace pipetrain
