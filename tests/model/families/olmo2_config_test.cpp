// OLMo 2's config.json, and the tensors of its norms.
#include "model/families/config_fixture.hpp"
#include "model/parameters/parameters.hpp"
#include "model/weights/weights_fixture.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

TEST_CASE("an OLMo 2 has norms after attention and MLP alone, and over all queries and all keys", "[families]") {
  const ModelConfig model = parse_config(golden_config("olmo2_tiny"));
  CHECK_FALSE(model.input_norms);
  CHECK(model.output_norms);
  CHECK(model.projection_norms);
  CHECK_FALSE(model.head_norms);
  CHECK(model.biases == Biases{.qkv = true, .attention_out = true});
  std::vector<std::string> norms;
  for (const std::string& name : tensor_names(first_layers(model, 1)))
    if (name.find("norm") != std::string::npos) norms.push_back(name);
  const std::string layer = "model.layers.0.";
  CHECK(norms == std::vector<std::string>{layer + "self_attn.q_norm.weight", layer + "self_attn.k_norm.weight",
                                          layer + "post_attention_layernorm.weight",
                                          layer + "post_feedforward_layernorm.weight", "model.norm.weight"});
}

TEST_CASE("each rank has the norms' weights of its own heads, and copies of them where it has copies of heads", "[families]") {
  const ModelConfig model = parse_config(golden_config("olmo2_tiny"));  // 4 heads and 2 key-value heads of 8
  for (const int rank : {0, 3}) {
    for (const Parameter& parameter : layout_parameters(model, {blocks_of(model)}, rank, 4).parameters) {
      if (parameter.name != "model.layers.1.self_attn.k_norm.weight") continue;
      CHECK(parameter.full == Shape{16});
      CHECK(parameter.local == Shape{8});
      CHECK(parameter.begin == rank / 2 * 8);
      CHECK(parameter.copies == 2);
      CHECK(parameter.copy == rank % 2);
    }
  }
}

TEST_CASE("an OLMo 2 has Hugging Face's defaults", "[families]") {
  json config = golden_config("olmo2_tiny");
  for (const char* key : {"pad_token_id", "bos_token_id", "eos_token_id", "attention_bias"}) config.erase(key);
  const ModelConfig model = parse_config(config);
  CHECK(model.pad_id == 1);
  CHECK(model.untrained_row == 1);
  CHECK_FALSE(model.bos_id);
  CHECK(model.eos_ids.empty());
  CHECK(model.biases == Biases{});
  CHECK(round_trip(model) == model);
  config["pad_token_id"] = nullptr;
  CHECK_FALSE(parse_config(config).untrained_row);
  CHECK(round_trip(parse_config(config)) == parse_config(config));
}

TEST_CASE("an OLMo 2 with keys of other models is refused by the key", "[families]") {
  const json config = golden_config("olmo2_tiny");
  CHECK(config_error(config, "clip_qkv", 8.0).starts_with("\"clip_qkv\" is 8.0; it must be 0, or absent"));
  CHECK(config_error(config, "mlp_bias", true).starts_with("\"mlp_bias\" is not known"));
  CHECK(config_error(config, "sliding_window", 9).starts_with("\"sliding_window\" is 9; "));
  CHECK(config_error(config, "num_key_value_heads", 3).starts_with("\"num_key_value_heads\" is 3; it must be a divisor"));
  CHECK(config_error(config, "rms_norm_eps", "remove").starts_with("key \"rms_norm_eps\" is missing; a OLMo 2 model needs it"));
}

}  // namespace
}  // namespace pipetrain
