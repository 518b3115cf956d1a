// DeepSeek's config.json: latent attention, groups of experts, and the keys of the makers' own programs.
#include <cmath>

#include "model/families/config_fixture.hpp"
#include "model/rotation/rotary_table.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

TEST_CASE("DeepSeek's attention has the sizes of its latent vectors and heads", "[families]") {
  json config = golden_config("deepseek_v2_tiny");
  const LatentAttention sizes{.query_rank = 0, .key_value_rank = 12, .plain = 10, .rotated = 6, .value = 8};
  CHECK(parse_config(config).latent == sizes);
  CHECK(parse_config(config).head_dim == 16);
  CHECK(parse_config(config).rope.interleaved);
  config.erase("q_lora_rank");
  CHECK(parse_config(config).latent->query_rank == 1536);
  CHECK(config_error(config, "num_key_value_heads", 2) ==
        "\"num_key_value_heads\" is 2; it must be num_attention_heads (4), or absent");
  CHECK(config_error(config, "qk_rope_head_dim", 5).starts_with("\"qk_rope_head_dim\" is 5; it must be even"));
  CHECK(config_error(config, "attention_bias", true).starts_with("\"attention_bias\" is true; it must be false"));
  CHECK(config_error(config, "kv_lora_rank", "remove").starts_with("key \"kv_lora_rank\" is missing"));
}

TEST_CASE("DeepSeek-V2 chooses from groups where topk_method says so, and DeepSeek-V3 always", "[families][experts]") {
  json config = golden_config("deepseek_v2_groups_tiny");
  CHECK(parse_config(config).experts.scores == RouterScores{.groups = 4, .chosen_groups = 2, .scale = 2.5});
  CHECK(parse_config(config).experts.shared_intermediate == 32);
  CHECK_FALSE(parse_config(config).experts.shared_gate);
  CHECK(parse_config(config).experts.dense_layers == std::vector<std::int64_t>{0});
  CHECK(config_error(config, "n_group", 3) == "\"n_group\" is 3; it must be a divisor of the number of experts (8)");
  CHECK(config_error(config, "topk_group", 5) == "\"topk_group\" is 5; it must be at most the number of groups (4)");
  CHECK(config_error(config, "topk_group", 1) ==
        "\"num_experts_per_tok\" is 3; it must be at most the experts of the chosen groups (2)");
  CHECK(config_error(config, "norm_topk_prob", true).starts_with("\"norm_topk_prob\" is true; it must be false"));
  CHECK(config_error(config, "scoring_func", "sigmoid").starts_with("\"scoring_func\" is \"sigmoid\"; it must be \"softmax\""));
  config["topk_method"] = "greedy";
  CHECK(parse_config(config).experts.scores == RouterScores{.scale = 2.5});
  const ModelConfig v3 = parse_config(golden_config("deepseek_v3_tiny"));
  const RouterScores scores{.sigmoid = true, .groups = 4, .chosen_groups = 2, .pairs = true, .scale = 2.5, .corrected = true};
  CHECK(v3.experts.scores == scores);
  CHECK(v3.experts.normalised);
}

TEST_CASE("keys of DeepSeek's own training programs change nothing", "[families]") {
  json config = golden_config("deepseek_v2_tiny");
  const ModelConfig model = parse_config(config);
  config["aux_loss_alpha"] = 0.001;
  config["seq_aux"] = true;
  config["ep_size"] = 1;
  config["moe_layer_freq"] = 1;
  CHECK(parse_config(config) == model);
  CHECK(config_error(config, "moe_layer_freq", 2).starts_with("\"moe_layer_freq\" is 2; it must be 1"));
}

TEST_CASE("yarn changes the scores of latent attention by the square of its magnitude", "[families][rotary]") {
  ModelConfig config = parse_config(golden_config("deepseek_v2_tiny"));
  const double magnitude = 0.1 * 0.707 * std::log(4.0) + 1;
  CHECK(score_scale(config) == Approx(magnitude * magnitude / 4));
  config.rope.scaling.mscale_all_dim.reset();
  CHECK(score_scale(config) == 0);
}

}  // namespace
}  // namespace pipetrain
