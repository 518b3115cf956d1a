// Keys of config.json that change what a model computes, but are not built.
#include "model/families/config_fixture.hpp"
#include "model/families/family.hpp"
#include "model/families/small_config.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

// A configuration of either family: heads of 4, 64 or 7 positions.
json config_of_family() {
  return json::parse(hf_config_text(test::small_config(false, GENERATE(Family::llama, Family::gpt2))));
}

TEST_CASE("attention that is not causal is refused, in the form that is transformers' false too") {
  const json config = config_of_family();
  CHECK(config_error(config, "is_causal", true).empty());
  CHECK(config_error(config, "is_causal", false) ==
        "\"is_causal\" is false; it must be true (attention to later positions is not built)");
  CHECK(config_error(config, "is_causal", nullptr).starts_with("\"is_causal\" is null; "));
  CHECK(config_error(config, "is_causal", 0).starts_with("\"is_causal\" is 0; "));
}

TEST_CASE("a key that changes the computation is refused by its name, and passes where it is off") {
  const json config = config_of_family();
  const auto [key, off, on] =
      GENERATE(table<std::string, const char*, const char*>({{"embedding_multiplier", "1.0", "12.0"},
                                                             {"residual_multiplier", "1", "0.22"},
                                                             {"logits_scaling", "1.0", "8.0"},
                                                             {"attention_multiplier", "0.5", "0.0078125"},
                                                             {"query_pre_attn_scalar", "4", "256"},
                                                             {"final_logit_softcapping", "null", "30.0"},
                                                             {"attn_logit_softcapping", "0", "50.0"},
                                                             {"use_bidirectional_attention", "false", "true"},
                                                             {"use_qk_norm", "false", "true"},
                                                             {"sliding_window", "null", "4"},
                                                             {"sliding_window", "64", "\"4\""},
                                                             {"attention_chunk_size", "1024", "6"},
                                                             {"per_layer_config", "{}", "{\"0\": {}}"},
                                                             {"pruned_heads", "{}", "{\"0\": [1]}"},
                                                             {"compression_config", "null", "{}"}}));
  INFO(key);
  CHECK(config_error(config, key, json::parse(off)).empty());
  CHECK(config_error(config, key, json::parse(on)).starts_with("\"" + key + "\" is "));
}

TEST_CASE("a window that is switched off passes") {
  json config = config_of_family();
  config["sliding_window"] = 4;
  config["use_sliding_window"] = false;
  CHECK(config_error(config).empty());
  config["use_sliding_window"] = true;
  CHECK(config_error(config).starts_with("\"sliding_window\" is 4; it must be null, or at least "));
}

TEST_CASE("a second name of a GPT-2's size must agree with the first") {
  const json config = json::parse(hf_config_text(test::small_config(true, Family::gpt2)));
  CHECK(config_error(config, "num_hidden_layers", 3).empty());
  CHECK(config_error(config, "num_hidden_layers", 2) ==
        "n_layer and num_hidden_layers name the same size and differ; keep one");
  CHECK(config_error(config, "hidden_size", 64) == "n_embd and hidden_size name the same size and differ; keep one");
}

TEST_CASE("the original number of positions must be the same inside and outside the rotary settings") {
  json config = json::parse(hf_config_text(test::small_config()));
  config["rope_scaling"] = config["rope_parameters"] = {{"rope_type", "llama3"},
                                                        {"factor", 8.0},
                                                        {"low_freq_factor", 1.0},
                                                        {"high_freq_factor", 4.0},
                                                        {"original_max_position_embeddings", 32}};
  CHECK(config_error(config, "original_max_position_embeddings", 32).empty());
  CHECK(config_error(config, "original_max_position_embeddings", 16) ==
        "\"original_max_position_embeddings\" is 16; it must be that of the rotary settings (32), or absent");
}

TEST_CASE("a list of ids that end a text, and the id of padding, read back as they were") {
  json config = config_of_family();
  CHECK(json::parse(hf_config_text(parse_config(config)))["eos_token_id"].is_null());
  config["eos_token_id"] = {0, 27};
  config["pad_token_id"] = 7;
  const json written = json::parse(hf_config_text(parse_config(config)));
  CHECK(written["eos_token_id"] == json{0, 27});
  CHECK(written["pad_token_id"] == 7);
  CHECK(config_error(config, "pad_token_id", -1).empty());  // some models write it to say that they have none
  CHECK(parse_config(config).untrained_row ==
        (config["model_type"] == "llama" ? std::optional<std::int64_t>(7) : std::nullopt));
  config["pad_token_id"] = -1;
  CHECK(parse_config(config).untrained_row ==
        (config["model_type"] == "llama" ? std::optional<std::int64_t>(36) : std::nullopt));
  config["pad_token_id"] = 37;
  CHECK(parse_config(config).untrained_row == std::nullopt);
  CHECK(config_error(config, "pad_token_id", "7") == "\"pad_token_id\" is \"7\"; it must be a whole number");
  CHECK(config_error(config, "eos_token_id", {0, 37}) ==
        "\"eos_token_id\" is [0,37]; it must be a token id below the vocabulary size 37");
}

TEST_CASE("models that differ in the ids of special tokens have the same weights") {
  ModelConfig one = test::small_config(), other = one;
  other.eos_ids = {0, 27};
  other.pad_id = other.untrained_row = 7;
  CHECK(same_model(one, other));
  other.hidden = 64;
  CHECK_FALSE(same_model(one, other));
}

}  // namespace
}  // namespace pipetrain
