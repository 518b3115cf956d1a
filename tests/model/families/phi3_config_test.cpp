// The config.json of Phi-3 and Phi-4, and their fused tensors.
#include "model/costs.hpp"
#include "model/families/config_fixture.hpp"
#include "model/parameters/parameters.hpp"
#include "model/weights/weights_fixture.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

TEST_CASE("a Phi's window is that of all layers, and a part of each head rotates", "[families]") {
  json config = golden_config("phi3_tiny");
  const ModelConfig model = parse_config(config);
  CHECK(windowed(model) == std::vector<bool>(4, true));
  CHECK(model.window == 9);
  CHECK(model.rope.rotated_columns(model.head_dim) == 6);
  config.erase("sliding_window");
  CHECK(parse_config(config).window == 0);
  config["resid_pdrop"] = 0.1;
  config["embd_pdrop"] = 0.2;
  const ModelConfig drops = parse_config(config);
  CHECK(drops.dropout.residual == 0.1);
  CHECK(drops.dropout.embedding == 0);
  CHECK(round_trip(drops) == drops);
}

TEST_CASE("a Phi's longrope has the original context of outside its settings, which is 4096 where it is absent", "[families]") {
  json config = golden_config("phi3_longrope_tiny");
  const ModelConfig model = parse_config(config);
  CHECK(model.rope.scaling.kind == RopeScaling::Kind::longrope);
  CHECK(model.rope.scaling.original_max_positions == 16);
  CHECK(model.rope.scaling.factor == 8);
  CHECK(model.rope.scaling.long_factors.size() == 3);
  CHECK(round_trip(model) == model);
  for (const char* name : {"su", "yarn"}) {
    config["rope_parameters"]["rope_type"] = name;
    CHECK(parse_config(config) == model);
  }
  config.erase("original_max_position_embeddings");
  CHECK(config_error(config).starts_with(
      "\"rope_parameters.original_max_position_embeddings\" is 16; it must be 4096, which holds where"));
  config["rope_parameters"].erase("original_max_position_embeddings");
  CHECK(parse_config(config).rope.scaling.original_max_positions == 4096);
  config["original_max_position_embeddings"] = 16;
  json settings = config["rope_parameters"];
  config.erase("rope_parameters");
  settings["type"] = settings["rope_type"], settings.erase("rope_type");
  config["rope_theta"] = settings["rope_theta"], settings.erase("rope_theta");
  config["partial_rotary_factor"] = settings["partial_rotary_factor"], settings.erase("partial_rotary_factor");
  config["rope_scaling"] = settings;  // as Phi-3's own files have it
  CHECK(parse_config(config) == model);
}

TEST_CASE("what a Phi cannot have is refused by its key", "[families]") {
  const json config = golden_config("phi3_longrope_tiny");
  for (const char* key : {"attention_bias", "mlp_bias", "lm_head_bias"}) {
    CHECK(config_error(config, key, false).empty());
    CHECK(config_error(config, key, true).starts_with("\"" + std::string(key) + "\" is true; it must be false"));
  }
  for (const char* key : {"full_attn_mod", "interpolate_factor"}) {
    CHECK(config_error(config, key, 1).empty());
    CHECK(config_error(config, key, 2).starts_with("\"" + std::string(key) + "\" is 2; it must be 1, or absent"));
  }
  json other = config;
  other["rope_parameters"]["rope_type"] = "linear";
  CHECK(config_error(other) == "\"rope_parameters.rope_type\" is \"linear\"; it must be \"default\" or \"longrope\"");
  other = config;
  other["rope_parameters"]["long_factor"] = {1.0, 2.0};
  CHECK(config_error(other).find("it must be a list of 3 numbers above 0, one for each rotated pair") != std::string::npos);
  CHECK(config_error(config, "embd_pdrop", 2).starts_with("\"embd_pdrop\" is 2; it must be a number from 0 to below 1"));
  CHECK(config_error(config, "hidden_size", "remove").starts_with("key \"hidden_size\" is missing; a Phi-3 model needs it"));
}

TEST_CASE("a Phi's query, key and value are slices of one tensor, and gate and up of another", "[families]") {
  const ModelConfig model = small_config(false, Family::phi3);  // 8 heads and 4 key-value heads of 4
  std::vector<std::int64_t> begins, sizes;
  for (const Parameter& parameter : layout_parameters(model, {blocks_of(model)}, 1, 2).parameters) {
    const bool is_gate_up = parameter.name == "model.layers.0.mlp.gate_up_proj.weight";
    if (!is_gate_up && parameter.name != "model.layers.0.self_attn.qkv_proj.weight") continue;
    CHECK(parameter.full == (is_gate_up ? Shape{48, 32} : Shape{64, 32}));
    begins.push_back(parameter.begin);
    sizes.push_back(parameter.local[0]);
  }
  CHECK(begins == std::vector<std::int64_t>{16, 32 + 8, 48 + 8, 12, 24 + 12});
  CHECK(sizes == std::vector<std::int64_t>{16, 8, 8, 12, 12});
  const std::vector<std::string> names = tensor_names(first_layers(model, 1));
  CHECK(names == std::vector<std::string>{"model.embed_tokens.weight", "model.layers.0.input_layernorm.weight",
                                          "model.layers.0.self_attn.qkv_proj.weight", "model.layers.0.self_attn.o_proj.weight",
                                          "model.layers.0.post_attention_layernorm.weight",
                                          "model.layers.0.mlp.gate_up_proj.weight", "model.layers.0.mlp.down_proj.weight",
                                          "model.norm.weight", "lm_head.weight"});
}

}  // namespace
}  // namespace pipetrain
