// The configurations of families that are named as Llama is: what differs from Llama, read and written in every spelling.
#include <cmath>

#include "model/families/config_fixture.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

TEST_CASE("each family's configuration reads back as the same model", "[families]") {
  const auto name = GENERATE("qwen2_tiny", "qwen3_tiny", "llama_biases_yarn_tiny", "mistral_window_tiny", "gemma3_tiny",
                             "smollm3_tiny", "granite_tiny", "olmo2_tiny", "phi3_tiny", "phi3_longrope_tiny", "seed_oss_tiny",
                             "mixtral_tiny", "qwen2_moe_tiny", "qwen3_moe_tiny", "olmoe_tiny", "gpt_oss_tiny",
                             "deepseek_v2_tiny", "deepseek_v2_groups_tiny", "deepseek_v3_tiny");
  INFO(name);
  const ModelConfig config = parse_config(golden_config(name));
  CHECK(round_trip(config) == config);
}

TEST_CASE("families have the biases and norms that make them", "[families]") {
  CHECK(parse_config(golden_config("qwen2_tiny")).biases == Biases{.qkv = true});
  const ModelConfig qwen3 = parse_config(golden_config("qwen3_tiny"));
  CHECK(qwen3.head_norms);
  CHECK(qwen3.biases == Biases{});
  CHECK(qwen3.head_dim == 16);
  const ModelConfig llama = parse_config(golden_config("llama_biases_yarn_tiny"));
  CHECK(llama.biases == Biases{.qkv = true, .attention_out = true, .mlp = true});
  CHECK(llama.rope.scaling.kind == RopeScaling::Kind::yarn);
  CHECK(llama.rope.scaling.original_max_positions == 16);
  CHECK_FALSE(parse_config(golden_config("mistral_window_tiny")).head_norms);
}

TEST_CASE("a Mistral's layers are windowed all or none", "[families]") {
  json config = golden_config("mistral_window_tiny");
  CHECK(windowed(parse_config(config)) == std::vector<bool>(4, true));
  CHECK(parse_config(config).window == 9);
  config["sliding_window"] = nullptr;
  CHECK(windowed(parse_config(config)) == std::vector<bool>(4, false));
  config["sliding_window"] = 128;  // as many as there are positions
  CHECK(parse_config(config).window == 0);
  config.erase("sliding_window");
  CHECK(parse_config(config).window == 0);  // 4,096
  config["max_position_embeddings"] = 32768;
  CHECK(parse_config(config).window == 4096);
  CHECK(config_error(config, "sliding_window", 0).starts_with("\"sliding_window\" is 0; it must be a whole number"));
  CHECK(config_error(config, "layer_types", {"full_attention"}).starts_with("\"layer_types\" is not known"));
}

TEST_CASE("a Qwen's later layers are windowed where it says so", "[families]") {
  json config = golden_config(GENERATE("qwen2_tiny", "qwen3_tiny"));
  config["sliding_window"] = 16;
  config["max_window_layers"] = 1;
  config.erase("layer_types");
  CHECK(windowed(parse_config(config)) == std::vector<bool>(4, false));
  config["use_sliding_window"] = true;
  const ModelConfig model = parse_config(config);
  CHECK(windowed(model) == std::vector<bool>{false, true, true, true});
  CHECK(round_trip(model) == model);
  config["layer_types"] = {"sliding_attention", "full_attention", "sliding_attention", "full_attention"};
  const ModelConfig mixed = parse_config(config);
  CHECK(windowed(mixed) == std::vector<bool>{true, false, true, false});
  CHECK(round_trip(mixed) == mixed);
  CHECK(first_layers(mixed, 2).layer_types.size() == 2);
  CHECK(windowed(first_layers(mixed, 2)) == std::vector<bool>{true, false});
  CHECK(round_trip(first_layers(mixed, 2)) == first_layers(mixed, 2));
  CHECK(config_error(config, "layer_types", {"full_attention"}).find("a list of the types of the 4 layers") !=
        std::string::npos);
  CHECK(config_error(config, "layer_types", {"full_attention", "full_attention", "full_attention", "linear_attention"})
            .find("(other layers are not built)") != std::string::npos);
  CHECK(config_error(config, "use_sliding_window", false) ==
        "layer_types has layers within a window, and no key says of how many positions; add sliding_window");
}

TEST_CASE("the rotation of a type that no layer has changes nothing", "[families]") {
  json config = golden_config("gemma3_tiny");
  config["layer_types"] = std::vector<std::string>(4, "full_attention");
  const ModelConfig both = parse_config(config);
  CHECK(both.window == 0);
  CHECK_FALSE(both.windowed_rope.has_value());
  config["rope_parameters"].erase("sliding_attention");
  CHECK(parse_config(config) == both);
}

TEST_CASE("every kind of rotation is read inside and outside of its settings, and written in both spellings", "[families]") {
  json config = golden_config("llama_biases_yarn_tiny");
  config.erase("rope_parameters");
  config["rope_theta"] = 1e5;
  const json settings = GENERATE(
      json{{"type", "dynamic"}, {"factor", 2.0}}, json{{"rope_type", "linear"}, {"factor", 4.0}},
      json{{"rope_type", "yarn"}, {"factor", 4.0}, {"beta_fast", 16}, {"beta_slow", 2}, {"mscale", 0.7}, {"mscale_all_dim", 1}},
      json{{"rope_type", "yarn"}, {"original_max_position_embeddings", 32}, {"attention_factor", 1.25}, {"truncate", false}},
      json{{"rope_type", "longrope"},
           {"original_max_position_embeddings", 32},
           {"short_factor", {1.0, 1.5, 2.0, 2.5}},
           {"long_factor", {1.0, 3.0, 5.0, 7.0}}});
  config["rope_scaling"] = settings;
  const ModelConfig model = parse_config(config);
  CHECK(model.rope.theta == 1e5);
  CHECK(model.rope.scaling.kind != RopeScaling::Kind::none);
  CHECK(round_trip(model) == model);
  const json written = json::parse(hf_config_text(model));
  json old = written, recent = written;
  old.erase("rope_parameters");
  recent.erase("rope_theta"), recent.erase("rope_scaling");
  CHECK(parse_config(old) == model);
  CHECK(parse_config(recent) == model);
}

TEST_CASE("a part of a head rotates, as the settings or the file say", "[families]") {
  json config = golden_config("llama_biases_yarn_tiny");
  config["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 1e4}};
  config["partial_rotary_factor"] = 0.5;
  const ModelConfig model = parse_config(config);
  CHECK(model.rope.rotated_columns(model.head_dim) == 4);
  CHECK(round_trip(model) == model);
  config["rope_parameters"]["partial_rotary_factor"] = 0.75;
  CHECK(config_error(config).find("that outside of rope_parameters (0.5), or absent") != std::string::npos);
  config.erase("partial_rotary_factor");
  CHECK(parse_config(config).rope.rotated_columns(8) == 6);
}

TEST_CASE("settings of a rotation that cannot be are refused by their key", "[families]") {
  json config = golden_config("llama_biases_yarn_tiny");
  const auto error = [&](const json& settings) {
    config["rope_parameters"] = settings;
    return config_error(config);
  };
  CHECK(error({{"rope_type", "longrope"}, {"short_factor", {1, 1, 1, 1}}, {"long_factor", {1, 1}}}) ==
        "\"rope_parameters.long_factor\" is [1,1]; it must be a list of 4 numbers above 0, one for each rotated pair");
  CHECK(error({{"rope_type", "longrope"}, {"long_factor", {1, 1, 1, 1}}}).starts_with("key \"rope_parameters.short_factor\""));
  CHECK(error({{"rope_type", "yarn"}, {"factor", 2}, {"beta_fast", 1}, {"beta_slow", 2}})
            .starts_with("\"rope_parameters.beta_fast\" is 1; it must be at least beta_slow"));
  CHECK(error({{"rope_type", "yarn"}, {"factor", 2}, {"beta_slow", 40}})
            .starts_with("\"rope_parameters.beta_fast\" is absent; it must be at least beta_slow (40)"));
  config["original_max_position_embeddings"] = 8192;
  CHECK(error({{"rope_type", "yarn"}})
            .starts_with("\"original_max_position_embeddings\" is 8192; it must be at most the model's"));
  config.erase("original_max_position_embeddings");
  CHECK(error({{"rope_type", "proportional"}})
            .starts_with("\"rope_parameters.rope_type\" is \"proportional\"; it must be one of"));
  CHECK(error({{"rope_type", "dynamic"}}).starts_with("key \"rope_parameters.factor\" is missing"));
}

TEST_CASE("a Gemma 3 has rotations of its own for layers within a window, in the keys of transformers 4 and 5", "[families]") {
  json config = golden_config("gemma3_tiny");
  const ModelConfig model = parse_config(config);
  CHECK(windowed(model) == std::vector<bool>{true, true, false, true});
  CHECK(model.rope.theta == 1e6);
  REQUIRE(model.windowed_rope);
  CHECK(model.windowed_rope->theta == 1e4);
  CHECK(model.norm_offset == 1);
  CHECK(model.score_scale == 0);
  config.erase("rope_parameters");
  config["rope_theta"] = 1e6;
  config["rope_local_base_freq"] = 1e4;
  CHECK(parse_config(config) == model);
  config["query_pre_attn_scalar"] = 24;
  CHECK(parse_config(config).score_scale == 1 / std::sqrt(24.0));
  CHECK(round_trip(parse_config(config)) == parse_config(config));
  config.erase("layer_types");
  config["sliding_window_pattern"] = 2;
  CHECK(windowed(parse_config(config)) == std::vector<bool>{true, false, true, false});
  CHECK(config_error(config, "hidden_activation", "silu").starts_with("\"hidden_activation\" is \"silu\""));
  CHECK(config_error(config, "final_logit_softcapping", 30.0).starts_with("\"final_logit_softcapping\" is 30.0"));
  CHECK(config_error(config, "use_bidirectional_attention", true).starts_with("\"use_bidirectional_attention\" is true"));
}

TEST_CASE("a Qwen3 needs its head size", "[families]") {
  CHECK(config_error(golden_config("qwen3_tiny"), "head_dim", "remove") ==
        "key \"head_dim\" is missing; a Qwen3 model needs it: add it, or copy the file again");
}

}  // namespace
}  // namespace pipetrain
