#include "model/families/config_fixture.hpp"
#include "paths.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

json gpt2_json() {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"n_embd", 64},
          {"n_layer", 2},
          {"n_head", 4},
          {"n_positions", 128},
          {"vocab_size", 320},
          {"layer_norm_epsilon", 1e-5},
          {"resid_pdrop", 0},
          {"embd_pdrop", 0.0},
          {"attn_pdrop", 0}};
}

std::string gpt2_error_with(const std::string& key, const json& value) { return config_error(gpt2_json(), key, value); }

TEST_CASE("GPT-2's presets have the published sizes") {
  const auto [name, hidden, layers, heads] = GENERATE(table<std::string, int, int, int>(
      {{"gpt2", 768, 12, 12}, {"gpt2-medium", 1024, 24, 16}, {"gpt2-large", 1280, 36, 20}, {"gpt2-xl", 1600, 48, 25}}));
  const ModelConfig config = preset_config(name);
  CHECK(config.family == Family::gpt2);
  CHECK(config.hidden == hidden);
  CHECK(config.layers == layers);
  CHECK(config.heads == heads);
  CHECK(config.kv_heads == heads);
  CHECK(config.head_dim == 64);
  CHECK(config.intermediate == 4 * hidden);
  CHECK(config.vocabulary == 50257);
  CHECK(config.max_positions == 1024);
  CHECK(config.norm_eps == 1e-5);
  CHECK(config.init_std == 0.02);
  CHECK(config.tied_embeddings);
  CHECK(config.bos_id == 50256);
  CHECK(config.eos_ids == std::vector<std::int64_t>{50256});
}

TEST_CASE("a Hugging Face folder's GPT-2 configuration is read") {
  const ModelConfig config = read_hf_config(test_data() + "/golden/gpt2_tiny");
  CHECK(config.family == Family::gpt2);
  CHECK(config.norm == NormKind::layer);
  CHECK(config.positions == PositionKind::learned);
  CHECK(config.activation == Activation::gelu);
  CHECK(config.biases == Biases{.qkv = true, .attention_out = true, .mlp = true});
  CHECK(config.hidden == 64);
  CHECK(config.layers == 8);
  CHECK(config.heads == 8);
  CHECK(config.kv_heads == 8);
  CHECK(config.head_dim == 8);
  CHECK(config.intermediate == 256);
  CHECK(config.vocabulary == 320);
  CHECK(config.max_positions == 64);
  CHECK(config.norm_eps == 1e-5);
  CHECK(config.init_std == 0.08);
  CHECK(config.tied_embeddings);
  CHECK(config.bos_id == 1);
  CHECK(config.eos_ids == std::vector<std::int64_t>{2});
}

TEST_CASE("optional keys of GPT-2 have Hugging Face's defaults") {
  json config = gpt2_json();
  SECTION("model_type is enough") { config.erase("architectures"); }
  SECTION("architectures is enough") { config.erase("model_type"); }
  SECTION("n_inner may be null") { config["n_inner"] = nullptr; }
  SECTION("n_ctx of early files counts for nothing") { config["n_ctx"] = 64; }
  SECTION("what is off may be said") {
    config["scale_attn_weights"] = true;
    for (const char* key : {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"}) {
      config[key] = false;
    }
  }
  SECTION("the activation has two names") { config["activation_function"] = "gelu_pytorch_tanh"; }
  const ModelConfig model = parse_config(config);
  CHECK(model.family == Family::gpt2);
  CHECK(model.intermediate == 256);
  CHECK(model.max_positions == 128);
  CHECK(model.activation == Activation::gelu);
  CHECK(model.init_std == 0.02);
  CHECK(model.tied_embeddings);
  CHECK_FALSE(model.bos_id.has_value());
}

TEST_CASE("a GPT-2 configuration that is unlike the presets reads back as the same model") {
  json config = gpt2_json();
  config["n_inner"] = 96;
  config["tie_word_embeddings"] = false;
  config["initializer_range"] = 0.5;
  config["layer_norm_epsilon"] = 1e-6;
  config["eos_token_id"] = {7, 8};
  const ModelConfig model = parse_config(config);
  CHECK(model.intermediate == 96);
  CHECK_FALSE(model.tied_embeddings);
  CHECK(model.init_std == 0.5);
  CHECK(model.norm_eps == 1e-6);
  CHECK(model.eos_ids == std::vector<std::int64_t>{7, 8});
  CHECK(parse_config(TempFolder(), hf_config_text(model)) == model);
}

// Hugging Face's own defaults for absent keys would make another model: dropout of 0.1.
TEST_CASE("a written GPT-2 configuration has every key that changes the model") {
  const json text = json::parse(hf_config_text(parse_config(gpt2_json())));
  const json expected = {{"architectures", {"GPT2LMHeadModel"}},
                         {"model_type", "gpt2"},
                         {"n_embd", 64},
                         {"n_layer", 2},
                         {"n_head", 4},
                         {"n_inner", 256},
                         {"n_positions", 128},
                         {"vocab_size", 320},
                         {"activation_function", "gelu_new"},
                         {"layer_norm_epsilon", 1e-5},
                         {"initializer_range", 0.02},
                         {"tie_word_embeddings", true},
                         {"resid_pdrop", 0.0},
                         {"embd_pdrop", 0.0},
                         {"attn_pdrop", 0.0},
                         {"scale_attn_weights", true},
                         {"scale_attn_by_inverse_layer_idx", false},
                         {"reorder_and_upcast_attn", false},
                         {"add_cross_attention", false},
                         {"use_cache", true},
                         {"bos_token_id", nullptr},
                         {"eos_token_id", nullptr},
                         {"torch_dtype", "float32"},
                         {"dtype", "float32"}};
  CHECK(text == expected);
}

TEST_CASE("a missing key of GPT-2 is named with its file") {
  for (const char* key : {"n_embd", "n_layer", "n_head", "n_positions", "vocab_size", "layer_norm_epsilon"}) {
    CHECK(gpt2_error_with(key, "remove") ==
          "key \"" + std::string(key) + "\" is missing; a GPT-2 model needs it: add it, or copy the file again");
  }
  json neither = gpt2_json();
  neither.erase("architectures");
  neither.erase("model_type");
  CHECK(config_error(neither).starts_with("key \"model_type\" is missing; add it, one of llama, gpt2, qwen2"));
}

TEST_CASE("each dropout site of a GPT-2 has a rate; absent keys mean a tenth") {
  CHECK(parse_config(gpt2_json()).dropout == DropoutRates{});
  for (const auto& [key, rate] : {std::pair<std::string, double DropoutRates::*>{"resid_pdrop", &DropoutRates::residual},
                                  {"embd_pdrop", &DropoutRates::embedding},
                                  {"attn_pdrop", &DropoutRates::attention}}) {
    json text = gpt2_json();
    DropoutRates expected;
    text[key] = expected.*rate = 0.2;
    CHECK(parse_config(text).dropout == expected);
    CHECK(parse_config(json::parse(hf_config_text(parse_config(text)))) == parse_config(text));
    text.erase(key);
    expected.*rate = 0.1;
    CHECK(parse_config(text).dropout == expected);
    CHECK(gpt2_error_with(key, "0") == "\"" + key + "\" is \"0\"; it must be a number from 0 to below 1");
    CHECK(gpt2_error_with(key, 1.5) == "\"" + key + "\" is 1.5; it must be a number from 0 to below 1");
  }
}

TEST_CASE("wrong values of GPT-2 are named with what is right") {
  CHECK(gpt2_error_with("n_embd", 66) == "\"n_embd\" is 66; it must be a multiple of n_head (4)");
  CHECK(gpt2_error_with("n_head", 0) == "\"n_head\" is 0; it must be a whole number from 1 to 16777216");
  CHECK(gpt2_error_with("n_inner", 0) == "\"n_inner\" is 0; it must be a whole number from 1 to 16777216");
  CHECK(gpt2_error_with("n_layer", 1'000'000) == "\"n_layer\" is 1000000; it must be a whole number from 1 to 10000");
  CHECK(gpt2_error_with("layer_norm_epsilon", 0) == "\"layer_norm_epsilon\" is 0; it must be a number above 0");
  CHECK(gpt2_error_with("tie_word_embeddings", 1) == "\"tie_word_embeddings\" is 1; it must be true or false");
  CHECK(gpt2_error_with("bos_token_id", 320) == "\"bos_token_id\" is 320; it must be a token id below the vocabulary size 320");
}

TEST_CASE("GPT-2 models beyond what is built are refused, not trained wrongly") {
  CHECK(gpt2_error_with("activation_function", "relu") ==
        "\"activation_function\" is \"relu\"; it must be \"gelu_new\" or \"gelu_pytorch_tanh\" (others are not built)");
  CHECK(gpt2_error_with("activation_function", "gelu").starts_with("\"activation_function\" is \"gelu\"; "));  // the exact form
  CHECK(gpt2_error_with("scale_attn_weights", false) ==
        "\"scale_attn_weights\" is false; it must be true (attention without a scale is not built)");
  for (const std::string key : {"scale_attn_by_inverse_layer_idx", "reorder_and_upcast_attn", "add_cross_attention"}) {
    CHECK(gpt2_error_with(key, true) == "\"" + key + "\" is true; it must be false (it is not built)");
  }
  CHECK(gpt2_error_with("quantization_config", {{"bits", 4}}) ==
        "\"quantization_config\" is set; use the model's unquantized weights");
  const std::string refusal = gpt2_error_with("architectures", {"GPT2DoubleHeadsModel"});
  CHECK(refusal.starts_with("unknown architecture \"GPT2DoubleHeadsModel\"; known: "));
  CHECK(refusal.ends_with("; only these heads are built"));
  CHECK(gpt2_error_with("model_type", "llama") ==
        "\"architectures\" is [\"GPT2LMHeadModel\"]; it must be [\"LlamaForCausalLM\"] for model_type \"llama\"");
}

TEST_CASE("a GPT-2 of absurd size is refused before anything is computed from it") {
  json config = gpt2_json();
  config["n_embd"] = config["n_positions"] = 16'000'000;
  CHECK(config_error(config).find("parameters, more than the 1e+14 supported") != std::string::npos);
  config["n_embd"] = 4;  // whatever the rest, these fit
  CHECK(config_error(config).empty());
}

}  // namespace
}  // namespace pipetrain
