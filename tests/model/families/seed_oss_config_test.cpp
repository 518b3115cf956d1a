// Seed-OSS's config.json: its biases and dropout.
#include "model/families/config_fixture.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

TEST_CASE("a Seed-OSS has its biases by three keys and drops by two, with Hugging Face's defaults", "[families]") {
  json config = golden_config("seed_oss_tiny");
  const ModelConfig model = parse_config(config);
  CHECK(model.biases == Biases{.qkv = true, .mlp = true});
  CHECK_FALSE(model.dropout.any());
  config["attention_out_bias"] = true;
  config["attention_bias"] = false;
  CHECK(parse_config(config).biases == Biases{.attention_out = true, .mlp = true});
  CHECK(round_trip(parse_config(config)) == parse_config(config));
  for (const char* key : {"attention_out_bias", "attention_bias", "mlp_bias", "attention_dropout", "residual_dropout",
                          "bos_token_id", "eos_token_id", "pad_token_id"})
    config.erase(key);
  const ModelConfig plain = parse_config(config);
  CHECK(plain.biases == Biases{.qkv = true});
  CHECK(plain.dropout == DropoutRates{.attention = 0.1, .residual = 0.1});
  CHECK(plain.pad_id == 1);
  CHECK(round_trip(plain) == plain);
}

TEST_CASE("a Seed-OSS needs its head size, and its wrong keys are named", "[families]") {
  const json config = golden_config("seed_oss_tiny");
  CHECK(config_error(config, "head_dim", "remove") ==
        "key \"head_dim\" is missing; a Seed-OSS model needs it: add it, or copy the file again");
  CHECK(config_error(config, "residual_dropout", 1).starts_with("\"residual_dropout\" is 1; it must be a number from 0 to"));
  CHECK(config_error(config, "attention_out_bias", 1).starts_with("\"attention_out_bias\" is 1; it must be true or false"));
  CHECK(config_error(config, "sliding_window", 9).starts_with("\"sliding_window\" is 9; "));
}

}  // namespace
}  // namespace pipetrain
