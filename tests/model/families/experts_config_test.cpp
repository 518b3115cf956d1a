// The keys of config.json that say which layers are routed, to how many experts, and with which losses.
#include "model/costs.hpp"
#include "model/families/config_fixture.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

std::vector<bool> routed(const ModelConfig& config) {
  std::vector<bool> layers;
  for (std::int64_t layer = 0; layer < config.layers; ++layer) layers.push_back(config.experts.routes(layer));
  return layers;
}

TEST_CASE("families with experts read their number, their size and how their weights are made", "[families][experts]") {
  const ModelConfig mixtral = parse_config(golden_config("mixtral_tiny"));
  CHECK(mixtral.experts == Experts{.count = 8, .chosen = 2, .intermediate = 48, .normalised = true});
  CHECK(mixtral.router_losses == RouterLossSettings{});
  const ModelConfig qwen3 = parse_config(golden_config("qwen3_moe_tiny"));
  CHECK(qwen3.experts == Experts{.count = 16, .chosen = 4, .intermediate = 24, .normalised = true, .dense_layers = {1}});
  CHECK(qwen3.router_losses == RouterLossSettings{.balance = 0.02});
  CHECK(qwen3.intermediate == 88);
  const ModelConfig qwen2 = parse_config(golden_config("qwen2_moe_tiny"));
  CHECK(qwen2.experts.shared_intermediate == 24);
  CHECK(qwen2.biases.qkv);
  const ModelConfig olmoe = parse_config(golden_config("olmoe_tiny"));
  CHECK(olmoe.projection_norms);
  CHECK(olmoe.experts == Experts{.count = 8, .chosen = 3, .intermediate = 32, .normalised = false});
}

TEST_CASE("every step-th layer is routed, except those that are listed", "[families][experts]") {
  json config = golden_config("qwen3_moe_tiny");
  CHECK(routed(parse_config(config)) == std::vector<bool>{true, false, true, true});
  config["mlp_only_layers"] = nullptr;
  config["decoder_sparse_step"] = 2;
  CHECK(routed(parse_config(config)) == std::vector<bool>{false, true, false, true});
  config["decoder_sparse_step"] = 5;  // a model without a routed layer
  CHECK(parse_config(config).routed_layers() == 0);
}

TEST_CASE("transformers' two keys for the number of experts mean the same", "[families][experts]") {
  for (const auto& [name, key, other] :
       {std::tuple{"mixtral_tiny", "num_local_experts", "num_experts"}, {"olmoe_tiny", "num_experts", "num_local_experts"}}) {
    json config = golden_config(name);
    const ModelConfig expected = parse_config(config);
    config[other] = config.at(key);
    config.erase(key);
    CHECK(parse_config(config) == expected);
  }
}

TEST_CASE("keys of experts that cannot be have their line", "[families][experts]") {
  const json config = golden_config("qwen3_moe_tiny");
  CHECK(config_error(config, "num_experts_per_tok", 17) ==
        "\"num_experts_per_tok\" is 17; it must be at most the number of experts (16)");
  CHECK(config_error(config, "mlp_only_layers", {4}) == "\"mlp_only_layers\" is [4]; it must be a list of layers from 0 to 3");
  CHECK(config_error(config, "router_aux_loss_coef", -1) ==
        "\"router_aux_loss_coef\" is -1; it must be a number of at least 0");
  CHECK(config_error(config, "n_group", 4).starts_with("\"n_group\" is not known"));
  CHECK(config_error(golden_config("mixtral_tiny"), "router_jitter_noise", 0.1) ==
        "\"router_jitter_noise\" is 0.1; it must be 0, or absent (noise in front of the router is not built)");
}

TEST_CASE("FLOPs count the experts that a token chooses, parameters all", "[families][experts]") {
  const ModelConfig config = preset_config("qwen3-30b-a3b");
  ModelConfig dense = config;
  dense.experts = {};
  dense.intermediate = 8 * 768;
  const std::int64_t routers = 48 * 128 * 2048;
  CHECK(matmul_parameter_count(config) == matmul_parameter_count(dense) + routers);
  CHECK(parameter_count(config) == parameter_count(dense) + routers + 48LL * 120 * 3 * 768 * 2048);
  const Block block{BlockKind::experts, 0};
  CHECK(block_flops_per_token(config, block, 4096) == 6.0 * (8 * 3 * 768 * 2048 + 128 * 2048));
  CHECK(block_recompute_flops_per_token(config, block, 4096, Recompute::full) == 2.0 * (8 * 2 * 768 * 2048 + 128 * 2048));
}

}  // namespace
}  // namespace pipetrain
