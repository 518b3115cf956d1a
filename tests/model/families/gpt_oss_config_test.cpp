// GPT-OSS's config.json: its windows, its experts' unit, and the forms of its weights that are read.
#include "model/families/config_fixture.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

TEST_CASE("a GPT-OSS has sinks, biases and a clamped unit, with Hugging Face's defaults", "[families][experts]") {
  json config = golden_config("gpt_oss_tiny");
  const ModelConfig model = parse_config(config);
  CHECK(model.sinks);
  CHECK(model.biases == Biases{.qkv = true, .attention_out = true});
  CHECK(model.experts.biases);
  CHECK(model.experts.normalised);
  CHECK(model.experts.clamp == GateClamp{.alpha = 1.5, .limit = 0.6});
  CHECK(windowed(model) == std::vector<bool>{true, false, true, false});
  CHECK_FALSE(model.rope.scaling.truncates);
  for (const char* key : {"swiglu_alpha", "swiglu_limit", "layer_types", "sliding_window", "rope_parameters", "attention_bias"})
    config.erase(key);
  config["max_position_embeddings"] = 131072;
  const ModelConfig plain = parse_config(config);
  CHECK(plain.experts.clamp == GateClamp{.alpha = 1.702, .limit = 7});
  CHECK(plain.window == 128);
  CHECK(windowed(plain) == std::vector<bool>{true, false, true, false});
  CHECK(plain.rope.theta == 150'000);
  CHECK(plain.rope.scaling.kind == RopeScaling::Kind::yarn);
  CHECK(plain.rope.scaling.factor == 32);
  CHECK(round_trip(plain) == plain);
}

TEST_CASE("a GPT-OSS of full layers only keeps a number of positions, which Hugging Face wants", "[families][experts]") {
  json config = golden_config("gpt_oss_tiny");
  config["layer_types"] = std::vector<std::string>(4, "full_attention");
  const ModelConfig model = parse_config(config);
  CHECK(windowed(model) == std::vector<bool>(4, false));
  CHECK(json::parse(hf_config_text(model))["sliding_window"] == 128);
  CHECK(round_trip(model) == model);
}

TEST_CASE("a GPT-OSS's weights may be in mxfp4 and in no other form", "[families][experts]") {
  json config = golden_config("gpt_oss_tiny");
  const ModelConfig plain = parse_config(config);
  config["quantization_config"] = {{"quant_method", "mxfp4"}, {"modules_to_not_convert", {"lm_head"}}};
  config["initial_context_length"] = 32;
  config["experts_per_token"] = 3;
  CHECK(parse_config(config) == plain);
  config["quantization_config"]["quant_method"] = "fp8";
  CHECK(config_error(config).starts_with("\"quantization_config\" is set: the weights are quantized by fp8"));
}

}  // namespace
}  // namespace pipetrain
