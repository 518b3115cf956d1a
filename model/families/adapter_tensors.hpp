// The tensors of adapters, under the names that PEFT gives them (github.com/huggingface/peft) without its prefix
// "base_model.model.".
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/config/adapter_roles.hpp"
#include "model/config/block.hpp"
#include "model/config/config.hpp"
#include "model/config/tensor_spec.hpp"

namespace pipetrain {

// Adds the adapters of the block's matrices, after all other tensors. `tensors`: those of the block without adapters.
void add_adapter_tensors(const ModelConfig& config, const Block& block, std::vector<TensorSpec>& tensors);

// The ends of the names of an adapter's tensors, after the module's.
inline constexpr std::string_view adapter_in_end = ".lora_A.weight", adapter_out_end = ".lora_B.weight",
                                  magnitude_end = ".lora_magnitude_vector";

// True when routed experts of the model have adapters.
bool adapts_experts(const ModelConfig& config);

// A target that names no module of the model that can have an adapter, or one whose adapters are not built.
struct TargetFault {
  std::string target, why;
};
std::optional<TargetFault> find_target_fault(const ModelConfig& config);

}  // namespace pipetrain
