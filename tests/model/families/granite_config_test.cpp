// Granite's config.json: its four multipliers.
#include <cmath>

#include "core/error.hpp"
#include "model/families/config_fixture.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

TEST_CASE("a Granite's multipliers are read, and are 1 where the keys are absent", "[families]") {
  json config = golden_config("granite_tiny");
  const ModelConfig model = parse_config(config);
  CHECK(model.embedding_scale == 6);
  CHECK(model.residual_scale == 0.3);
  CHECK(model.score_scale == 0.2);
  CHECK(model.logit_divisor == 3);
  CHECK(model.biases == Biases{.qkv = true, .attention_out = true, .mlp = true});
  for (const char* key : {"embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"})
    config.erase(key);
  const ModelConfig plain = parse_config(config);
  CHECK(plain.embedding_scale == 1);
  CHECK(plain.residual_scale == 1);
  CHECK(plain.score_scale == 1);
  CHECK(plain.logit_divisor == 1);
  CHECK(round_trip(plain) == plain);
}

TEST_CASE("any multiplier of a Granite reads back to the bit", "[families]") {
  json config = golden_config("granite_tiny");
  for (const double value : {0.2, 1.0 / 3, 0.0078125, 1 / std::sqrt(8.0), 0.1234567890123456}) {
    for (const char* key : {"embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"})
      config[key] = value;
    const ModelConfig model = parse_config(config);
    CHECK(round_trip(model) == model);
    CHECK(json::parse(hf_config_text(model))["attention_multiplier"] == value);
  }
}

TEST_CASE("a Granite's multipliers that are none are refused by their key, and so is a head that it does not have",
          "[families]") {
  const json config = golden_config("granite_tiny");
  for (const std::string key : {"embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling"})
    for (const json& value : {json(0), json(-1.5), json("1")})
      CHECK(config_error(config, key, value) == "\"" + key + "\" is " + value.dump() + "; it must be a number above 0");
  CHECK(config_error(config, "sliding_window", 9).starts_with("\"sliding_window\" is 9; it must be null, or at least"));
  CHECK(config_error(config, "query_pre_attn_scalar", 64).starts_with("\"query_pre_attn_scalar\" is 64; "));
  CHECK(config_error(config, "architectures", {"GraniteForSequenceClassification"})
            .starts_with("unknown architecture \"GraniteForSequenceClassification\""));
  CHECK(config_error(config, "architectures", {""}).starts_with("unknown architecture \"\""));
  CHECK(input_error([&] { with_new_head(parse_config(config), 3); }) ==
        "num-labels 3: a Granite has no head for classification; leave it out");
}

}  // namespace
}  // namespace pipetrain
