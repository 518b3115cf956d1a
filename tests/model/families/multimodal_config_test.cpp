// config.json of multimodal models, whose language model is read.
#include "model/families/multimodal_config.hpp"
#include "files/json.hpp"
#include "model/families/config_fixture.hpp"

namespace pipetrain {
namespace {

using Catch::Matchers::Contains;
using nlohmann::json;

// A config.json with the keys of the published ones.
json published(const json& text_config) {
  return {{"architectures", {"Gemma3ForConditionalGeneration"}},
          {"model_type", "gemma3"},
          {"boi_token_index", 255999},
          {"eoi_token_index", 256000},
          {"image_token_index", 262144},
          {"eos_token_id", {1, 106}},
          {"initializer_range", 0.02},
          {"mm_tokens_per_image", 256},
          {"torch_dtype", "bfloat16"},
          {"transformers_version", "4.50.0.dev0"},
          {"text_config", text_config},
          {"vision_config", {{"hidden_size", 1152}, {"image_size", 896}, {"model_type", "siglip_vision_model"}}}};
}

json gemma3_4b() {
  return published({{"hidden_size", 2560},
                    {"intermediate_size", 10240},
                    {"model_type", "gemma3_text"},
                    {"num_hidden_layers", 34},
                    {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                    {"sliding_window", 1024}});
}

TEST_CASE("the published multimodal configurations are the presets, with Hugging Face's values for absent keys") {
  CHECK(same_model(parse_config(gemma3_4b()), preset_config("gemma3-4b")));
  json config = published({{"hidden_size", 3840},
                           {"intermediate_size", 15360},
                           {"model_type", "gemma3_text"},
                           {"num_attention_heads", 16},
                           {"num_hidden_layers", 48},
                           {"num_key_value_heads", 8},
                           {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                           {"sliding_window", 1024}});
  CHECK(same_model(parse_config(config), preset_config("gemma3-12b")));
  config = published({{"head_dim", 128},
                      {"hidden_size", 5376},
                      {"intermediate_size", 21504},
                      {"model_type", "gemma3_text"},
                      {"num_attention_heads", 32},
                      {"num_hidden_layers", 62},
                      {"num_key_value_heads", 16},
                      {"query_pre_attn_scalar", 168},
                      {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                      {"sliding_window", 1024}});
  CHECK(same_model(parse_config(config), preset_config("gemma3-27b")));
  const ModelConfig model = parse_config(gemma3_4b());
  CHECK(model.eos_ids == std::vector<std::int64_t>{1, 106});
  CHECK(model.untrained_row == 0);  // of the padding that text_config does not mention
}

TEST_CASE("a multimodal configuration is refused by the key's whole name") {
  json config = gemma3_4b();
  config["text_config"]["hidden_size"] = "many";
  CHECK_THAT(config_error(config), Contains("\"text_config.hidden_size\" is \"many\"; it must be a whole number"));
  config = gemma3_4b();
  config["text_config"]["strange"] = 1;
  CHECK_THAT(config_error(config), Contains("\"text_config.strange\" is not known"));
  config = gemma3_4b();
  config["text_config"]["model_type"] = "llama";
  CHECK_THAT(config_error(config), Contains("\"text_config.model_type\" is \"llama\"; it must be \"gemma3_text\""));
  CHECK_THAT(config_error(gemma3_4b(), "text_config", 3), Contains("\"text_config\" is 3; it must be an object"));
  CHECK_THAT(config_error(gemma3_4b(), "audio_config", json::object({{"a", 1}})), Contains("\"audio_config\" is not known"));
  CHECK_THAT(config_error(gemma3_4b(), "tie_word_embeddings", false),
             Contains("\"tie_word_embeddings\" is false, and text_config"));
  CHECK_THAT(config_error(gemma3_4b(), "architectures", {"Gemma3ForSequenceClassification"}),
             Contains("unknown architecture") && Contains("only these heads are built"));
  config = gemma3_4b();
  config["text_config"]["quantization_config"] = {{"quant_method", "gptq"}};
  CHECK_THAT(config_error(config), Contains("\"text_config.quantization_config\" is set: the weights are quantized by gptq"));
}

TEST_CASE("a multimodal configuration stays as it is unless its language model has another one") {
  const Json outer = parse_json(gemma3_4b().dump(), {"config.json"});
  ModelConfig model = parse_config(gemma3_4b());
  model.trained.embeddings = false;
  CHECK(with_text_config(outer, model) == outer);
  model = first_layers(model, 7);
  const Json cut = with_text_config(outer, model);
  CHECK(parse_config(json::parse(cut.dump())) == first_layers(parse_config(gemma3_4b()), 7));
  CHECK(cut.at("vision_config") == outer.at("vision_config"));
  model.tied_embeddings = false;
  CHECK_FALSE(parse_config(json::parse(with_text_config(outer, model).dump())).tied_embeddings);
}

TEST_CASE("a multimodal model is found by its architecture where model_type is absent") {
  json config = gemma3_4b();
  config.erase("model_type");
  CHECK(same_model(parse_config(config), preset_config("gemma3-4b")));
}

}  // namespace
}  // namespace pipetrain
