// The modules that adapters are added to, and the targets that are refused.
#include "model/families/adapter_tensors.hpp"

#include "catch.hpp"

using namespace pipetrain;
using Catch::Contains;

namespace {

ModelConfig adapted(const char* preset, const std::vector<std::string>& targets) {
  ModelConfig config = preset_config(preset);
  config.adapter = {.rank = 4, .alpha = 8, .targets = targets};
  config.trained = {false, false, false};
  return config;
}

std::string fault_of(const ModelConfig& config) {
  const auto fault = find_target_fault(config);
  return fault ? fault->target + ": " + fault->why : "none";
}

}  // namespace

TEST_CASE("each expert's matrices have adapters of their own under the expert's name", "[adapters]") {
  const ModelConfig config = adapted("mixtral-8x7b", {"w1", "w2"});
  CHECK(fault_of(config) == "none");
  CHECK(adapts_experts(config));
  std::vector<std::string> names;
  for (const TensorSpec& tensor : block_tensors(config, {BlockKind::experts, 3}))
    if (is_of_adapter(tensor.role)) names.push_back(tensor.name);
  CHECK(names.size() == 8 * 2 * 2);
  CHECK(names.front() == "model.layers.3.block_sparse_moe.experts.0.w1.lora_A.weight");
  CHECK(names.back() == "model.layers.3.block_sparse_moe.experts.7.w2.lora_B.weight");
  CHECK_FALSE(adapts_experts(adapted("mixtral-8x7b", {"q_proj"})));
}

TEST_CASE("shared experts, latent attention and the head have adapters where targets name them", "[adapters]") {
  const auto names_of = [](const ModelConfig& config, const Block& block) {
    std::vector<std::string> names;
    for (const TensorSpec& tensor : block_tensors(config, block))
      if (is_of_adapter(tensor.role) && tensor.name.ends_with("lora_A.weight")) names.push_back(module_of(tensor.name));
    return names;
  };
  const auto named = [](const char* module) { return std::string("model.layers.3.") + module + ".lora_A"; };
  const ModelConfig all = adapted("deepseek-v3", {});
  CHECK(fault_of(all) == "none");
  CHECK(names_of(all, {BlockKind::attention, 3}) ==
        std::vector{named("self_attn.q_a_proj"), named("self_attn.kv_a_proj_with_mqa"), named("self_attn.q_b_proj"),
                    named("self_attn.kv_b_proj"), named("self_attn.o_proj")});
  CHECK(names_of(all, {BlockKind::experts, 3}).size() == 3 * (256 + 1));
  CHECK(names_of(all, {BlockKind::head, 0}).empty());
  const ModelConfig head = adapted("deepseek-v3", {"shared_experts.down_proj", "lm_head"});
  CHECK(names_of(head, {BlockKind::head, 0}) == std::vector<std::string>{"lm_head.lora_A"});
  CHECK(names_of(head, {BlockKind::experts, 3}) == std::vector{named("mlp.shared_experts.down_proj")});
  CHECK_FALSE(adapts_experts(head));
  ModelConfig trained = head;
  trained.trained.head = true;
  CHECK_THAT(fault_of(trained), Contains("the head is trained whole"));
  CHECK_THAT(fault_of(adapted("qwen3-0.6b", {"lm_head"})), Contains("lm_head: names no matrix"));
  ModelConfig scaled = adapted("deepseek-v3", {"kv_b_proj"});
  scaled.adapter.magnitudes = true;
  CHECK_THAT(fault_of(scaled), Contains("of latent attention and of the head have no magnitudes"));
}

TEST_CASE("adapters of experts that are not built are refused by name", "[adapters]") {
  CHECK(fault_of(adapted("qwen3-30b-a3b", {})) == "none");
  CHECK_THAT(fault_of(adapted("qwen3-30b-a3b", {"experts.3.gate_proj"})), Contains("gives the experts of a layer different"));
  ModelConfig unequal = adapted("qwen3-30b-a3b", {"gate_proj"});
  unequal.adapter.ranks["experts.3.gate_proj"] = 2;
  CHECK_THAT(fault_of(unequal), Contains("gives the experts of a layer different adapters"));
  ModelConfig scaled = adapted("qwen3-30b-a3b", {"gate_proj"});
  scaled.adapter.magnitudes = true;
  CHECK_THAT(fault_of(scaled), Contains("adapters of experts, of latent attention and of the head have no magnitudes"));
  CHECK_THAT(fault_of(adapted("qwen3-30b-a3b", {"gate"})), Contains("gate: names no matrix of the model"));
}
