// SmolLM3's config.json: layers without rotation, and windows.
#include "model/families/config_fixture.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;
using Layers = std::vector<bool>;

TEST_CASE("a SmolLM3's layers rotate where no_rope_layers has a 1, or all but each last one of an interval", "[families]") {
  json config = golden_config("smollm3_tiny");
  CHECK(rotating(parse_config(config)) == Layers{true, false, true, false});
  CHECK(windowed(parse_config(config)) == Layers{false, false, true, true});
  config["no_rope_layers"] = {0, 0, 1, 1, 0, 1};  // Hugging Face reads the first entries
  CHECK(rotating(parse_config(config)) == Layers{false, false, true, true});
  config.erase("no_rope_layers");
  CHECK(rotating(parse_config(config)) == Layers{true, true, true, false});
  config["no_rope_layer_interval"] = 3;
  CHECK(rotating(parse_config(config)) == Layers{true, true, false, true});
  const ModelConfig model = parse_config(config);
  CHECK(round_trip(model) == model);
  CHECK(rotating(first_layers(model, 3)) == Layers{true, true, false});
  CHECK(round_trip(first_layers(model, 3)) == first_layers(model, 3));
  CHECK(first_layers(model, 1).layer_types.empty());
}

TEST_CASE("a SmolLM3 has its windows in layers that do not rotate where layer_types is absent", "[families]") {
  json config = golden_config("smollm3_tiny");
  config.erase("layer_types");
  CHECK(windowed(parse_config(config)) == Layers{false, true, false, true});
  CHECK(parse_config(config).window == 9);
  config["use_sliding_window"] = false;
  const ModelConfig model = parse_config(config);
  CHECK(windowed(model) == Layers(4, false));
  CHECK(rotating(model) == Layers{true, false, true, false});
  CHECK(model.window == 0);
  CHECK(round_trip(model) == model);
  config["use_sliding_window"] = true;
  config["sliding_window"] = 128;  // as many as there are positions
  CHECK(parse_config(config) == model);
}

TEST_CASE("a SmolLM3 has Hugging Face's defaults", "[families]") {
  json config = golden_config("smollm3_tiny");
  for (const char* key : {"rope_parameters", "tie_word_embeddings", "pad_token_id", "bos_token_id", "eos_token_id"})
    config.erase(key);
  CHECK(parse_config(config).rope.theta == 2e6);
  CHECK(parse_config(config).tied_embeddings);
  CHECK_FALSE(parse_config(config).pad_id);  // the vocabulary does not have the usual one
  config["vocab_size"] = 128256;
  const ModelConfig model = parse_config(config);
  CHECK(model.bos_id == 128000);
  CHECK(model.eos_ids == std::vector<std::int64_t>{128001});
  CHECK(model.pad_id == 128004);
  CHECK(model.untrained_row == 128004);
  CHECK(round_trip(model) == model);
}

TEST_CASE("a list of SmolLM3's rotations that is none is refused by its key", "[families]") {
  const json config = golden_config("smollm3_tiny");
  const std::string rule = "it must be a list of a 0 or a 1 for each of the 4 layers, 1 where it rotates";
  CHECK(config_error(config, "no_rope_layers", {1, 0, 1}) == "\"no_rope_layers\" is [1,0,1]; " + rule);
  CHECK(config_error(config, "no_rope_layers", {1, 0, 1, 2}) == "\"no_rope_layers\" is [1,0,1,2]; " + rule);
  CHECK(config_error(config, "no_rope_layers", "all") == "\"no_rope_layers\" is \"all\"; " + rule);
  CHECK(config_error(config, "no_rope_layer_interval", 0).starts_with("\"no_rope_layer_interval\" is 0; "));
  CHECK(config_error(config, "hidden_act", "gelu") == "\"hidden_act\" is \"gelu\"; it must be \"silu\"");
  CHECK(
      config_error(config, "rms_norm_eps", "remove").starts_with("key \"rms_norm_eps\" is missing; a SmolLM3 model needs it"));
}

}  // namespace
}  // namespace pipetrain
