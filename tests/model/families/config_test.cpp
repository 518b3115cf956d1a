#include <limits>

#include "model/costs.hpp"
#include "model/families/config_fixture.hpp"
#include "paths.hpp"

namespace pipetrain {
namespace {

using nlohmann::json;

json llama_json() {
  return {{"architectures", {"LlamaForCausalLM"}},
          {"model_type", "llama"},
          {"hidden_size", 64},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 8},
          {"num_key_value_heads", 4},
          {"intermediate_size", 176},
          {"vocab_size", 320},
          {"max_position_embeddings", 128},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", false},
          {"hidden_act", "silu"}};
}

std::string llama_error_with(const std::string& key, const json& value) { return config_error(llama_json(), key, value); }

TEST_CASE("presets have the published numbers of parameters") {
  const auto [name, count] = GENERATE(table<std::string, std::int64_t>({{"llama-7b", 6'738'415'616},
                                                                        {"llama-13b", 13'015'864'320},
                                                                        {"llama-30b", 32'528'943'616},
                                                                        {"llama-65b", 65'285'660'672},
                                                                        {"llama2-7b", 6'738'415'616},
                                                                        {"llama2-13b", 13'015'864'320},
                                                                        {"llama2-70b", 68'976'648'192},
                                                                        {"llama3-8b", 8'030'261'248},
                                                                        {"llama3-70b", 70'553'706'496},
                                                                        {"llama3.2-1b", 1'235'814'400},
                                                                        {"qwen2.5-0.5b", 494'032'768},
                                                                        {"qwen2.5-1.5b", 1'543'714'304},
                                                                        {"qwen2.5-3b", 3'085'938'688},
                                                                        {"qwen2.5-7b", 7'615'616'512},
                                                                        {"qwen2.5-14b", 14'770'033'664},
                                                                        {"qwen2.5-32b", 32'763'876'352},
                                                                        {"qwen2.5-72b", 72'706'203'648},
                                                                        {"qwen3-0.6b", 596'049'920},
                                                                        {"qwen3-1.7b", 1'720'574'976},
                                                                        {"qwen3-4b", 4'022'468'096},
                                                                        {"qwen3-8b", 8'190'735'360},
                                                                        {"qwen3-14b", 14'768'307'200},
                                                                        {"qwen3-32b", 32'762'123'264},
                                                                        {"mistral-7b", 7'241'732'096},
                                                                        {"ministral-8b", 8'019'808'256},
                                                                        {"gemma3-1b", 999'885'952},
                                                                        {"gemma3-4b", 3'880'263'168},
                                                                        {"gemma3-12b", 11'766'034'176},
                                                                        {"gemma3-27b", 27'009'346'304},
                                                                        {"smollm3-3b", 3'075'098'624},
                                                                        {"granite-3.3-2b", 2'533'539'840},
                                                                        {"granite-3.3-8b", 8'170'864'640},
                                                                        {"olmo2-7b", 7'298'617'344},
                                                                        {"olmo2-13b", 13'716'198'400},
                                                                        {"phi-4", 14'659'507'200},
                                                                        {"phi-4-mini", 3'836'021'760},
                                                                        {"seed-oss-36b", 36'151'104'512},
                                                                        {"mixtral-8x7b", 46'702'792'704},
                                                                        {"qwen2-57b-a14b", 57'408'658'944},
                                                                        {"qwen3-30b-a3b", 30'532'122'624},
                                                                        {"qwen3-235b-a22b", 235'093'634'560},
                                                                        {"olmoe-1b-7b", 6'919'161'856},
                                                                        {"gpt-oss-20b", 20'914'757'184},
                                                                        {"gpt-oss-120b", 116'829'156'672},
                                                                        {"deepseek-v2-lite", 15'706'484'224},
                                                                        {"deepseek-v3", 671'026'419'200}}));
  CHECK(parameter_count(preset_config(name)) == count);
}

TEST_CASE("a further prediction adds a layer, three norms and a matrix to DeepSeek-V3", "[mtp]") {
  ModelConfig config = preset_config("deepseek-v3");
  REQUIRE(config.mtp.layers == 1);
  const std::int64_t without = parameter_count(config), attention = block_parameter_count(config, {BlockKind::attention, 60}),
                     experts = block_parameter_count(config, {BlockKind::experts, 60}), hidden = config.hidden;
  config.mtp.loss = 0.3;
  CHECK(parameter_count(config) == 682'636'487'424);
  CHECK(parameter_count(config) - without == attention + experts + 2 * hidden * hidden + 3 * hidden);
  CHECK(blocks_of(config).size() == 2 * 61 + 5);
}

TEST_CASE("every preset is valid, and its config.json reads back as the same model") {
  for (const std::string& name : preset_names()) {
    INFO(name);
    const ModelConfig config = preset_config(name);
    CHECK(parse_config(TempFolder(), hf_config_text(config)) == config);
  }
}

TEST_CASE("the default model splits over 1, 2, 4 and 8 devices and stages and takes bytes") {
  const ModelConfig config = preset_config("tiny");
  CHECK(config.vocabulary >= 256);
  for (const int size : {1, 2, 4, 8}) {
    CHECK_NOTHROW(layout_parameters(config, {blocks_of(config)}, 0, size));
    CHECK_NOTHROW(partition_blocks(config, size, config.max_positions));
  }
}

TEST_CASE("an unknown preset names the nearest") {
  CHECK(input_error([] { preset_config("llama2-7B"); }).find("did you mean llama2-7b?") != std::string::npos);
  CHECK(input_error([] { preset_config("tinny"); }).find("did you mean tiny?") != std::string::npos);
  CHECK(input_error([] { preset_config("gpt2_xl"); }).find("did you mean gpt2-xl?") != std::string::npos);
}

TEST_CASE("a Hugging Face folder's configuration is read") {
  const ModelConfig config = read_hf_config(test_data() + "/golden/llama3_tiny");
  CHECK(config.hidden == 64);
  CHECK(config.layers == 8);
  CHECK(config.heads == 8);
  CHECK(config.kv_heads == 4);
  CHECK(config.head_dim == 8);
  CHECK(config.intermediate == 176);
  CHECK(config.vocabulary == 320);
  CHECK(config.max_positions == 128);
  CHECK(config.norm_eps == 1e-5);
  CHECK(config.rope.theta == 5e5);
  CHECK(config.init_std == 0.08);
  CHECK_FALSE(config.tied_embeddings);
  CHECK(config.bos_id == 1);
  CHECK(config.eos_ids == std::vector<std::int64_t>{2});
}

TEST_CASE("optional keys have Hugging Face's defaults") {
  json config = llama_json();
  for (const char* key : {"num_key_value_heads", "tie_word_embeddings", "hidden_act", "architectures"}) config.erase(key);
  config["eos_token_id"] = {5, 6};
  config["bos_token_id"] = nullptr;
  const ModelConfig model = parse_config(config);
  CHECK(model.kv_heads == 8);
  CHECK(model.head_dim == 8);
  CHECK(model.rope.theta == 1e4);
  CHECK(model.init_std == 0.02);
  CHECK(model.rope.scaling == RopeScaling{});
  CHECK(model.eos_ids == std::vector<std::int64_t>{5, 6});
  CHECK_FALSE(model.bos_id.has_value());
}

TEST_CASE("ids that begin and end texts are the family's where config.json does not mention them, and none where it has null") {
  const auto ends = [](json config, std::int64_t vocabulary, bool mentioned) {
    config["vocab_size"] = vocabulary;
    for (const char* key : {"bos_token_id", "eos_token_id"}) {
      config.erase(key);
      if (mentioned) config[key] = nullptr;
    }
    const ModelConfig model = parse_config(config);
    return std::pair(model.bos_id.value_or(-1), model.eos_ids);
  };
  const json gpt2 = json::parse(std::ifstream(test_data() + "/golden/gpt2_tiny/config.json"));
  using Ids = std::vector<std::int64_t>;
  CHECK(ends(llama_json(), 320, false) == std::pair<std::int64_t, Ids>(1, {2}));
  CHECK(ends(llama_json(), 320, true) == std::pair<std::int64_t, Ids>(-1, {}));
  CHECK(ends(llama_json(), 2, false) == std::pair<std::int64_t, Ids>(1, {}));
  CHECK(ends(gpt2, 50257, false) == std::pair<std::int64_t, Ids>(50256, {50256}));
  CHECK(ends(gpt2, 50257, true) == std::pair<std::int64_t, Ids>(-1, {}));
  CHECK(ends(gpt2, 320, false) == std::pair<std::int64_t, Ids>(-1, {}));
}

TEST_CASE("rotary settings are read in the forms of transformers 4 and 5") {
  const json llama3{
      {"factor", 32.0}, {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 8192}};
  const RopeScaling expected{RopeScaling::Kind::llama3, 32, 1, 4, 8192};
  json config = llama_json();
  SECTION("rope_theta and rope_scaling with rope_type") {
    config["rope_theta"] = 500000;
    config["rope_scaling"] = llama3;
    config["rope_scaling"]["rope_type"] = "llama3";
  }
  SECTION("rope_scaling with type") {
    config["rope_theta"] = 500000.0;
    config["rope_scaling"] = llama3;
    config["rope_scaling"]["type"] = "llama3";
  }
  SECTION("rope_parameters") {
    config["rope_parameters"] = llama3;
    config["rope_parameters"]["rope_type"] = "llama3";
    config["rope_parameters"]["rope_theta"] = 500000.0;
  }
  const ModelConfig model = parse_config(config);
  CHECK(model.rope.theta == 5e5);
  CHECK(model.rope.scaling == expected);
}

TEST_CASE("rotary settings for each type of layer are read where all layers attend to everything") {
  const json settings{{"rope_type", "llama3"},  {"rope_theta", 5e5},       {"factor", 32.0},
                      {"low_freq_factor", 1.0}, {"high_freq_factor", 4.0}, {"original_max_position_embeddings", 8192}};
  json config = llama_json();
  const char* key = GENERATE("rope_parameters", "rope_scaling");
  config[key] = {{"full_attention", settings}};
  CHECK(parse_config(config).rope.theta == 5e5);
  CHECK(parse_config(config).rope.scaling == RopeScaling{RopeScaling::Kind::llama3, 32, 1, 4, 8192});
  config["layer_types"] = {"full_attention", "full_attention"};
  CHECK(parse_config(config).rope.theta == 5e5);

  config["layer_types"][1] = "sliding_attention";
  CHECK(config_error(config).find("\"layer_types\" is [\"full_attention\",\"sliding_attention\"]; it must be a list of "
                                  "\"full_attention\" only") == 0);
  config.erase("layer_types");
  config[key]["sliding_attention"] = {{"rope_theta", 1e4}};
  CHECK(config_error(config) ==
        "\"" + std::string(key) + ".sliding_attention\" sets layers of a type that is not built; known: full_attention");
  config[key] = {{"full_attention", settings}, {"rope_theta", 1e4}};
  CHECK(config_error(config).find(".rope_theta\" is 10000.0; it must be an object") != std::string::npos);
  config[key] = {{"full_attention", settings}};
  config["rope_theta"] = 1e4;
  CHECK(config_error(config).find("keep one") != std::string::npos);
}

TEST_CASE("a configuration's other keys cost linear time") {
  json config = llama_json();
  for (int i = 0; i < 100'000; ++i) config["id2label"][std::to_string(i)] = "label " + std::to_string(i);
  CHECK(parse_config(config).hidden == 64);
}

TEST_CASE("linear scaling and the default are read") {
  json config = llama_json();
  config["rope_scaling"] = {{"type", "linear"}, {"factor", 2}};
  CHECK(parse_config(config).rope.scaling.kind == RopeScaling::Kind::linear);
  CHECK(parse_config(config).rope.scaling.factor == 2);
  config["rope_scaling"] = {{"rope_type", "default"}};
  CHECK(parse_config(config).rope.scaling.kind == RopeScaling::Kind::none);
}

TEST_CASE("a missing key is named with its file") {
  for (const char* key : {"hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size",
                          "max_position_embeddings", "rms_norm_eps"}) {
    CHECK(llama_error_with(key, "remove") ==
          "key \"" + std::string(key) + "\" is missing; a Llama model needs it: add it, or copy the file again");
  }
}

TEST_CASE("wrong values are named with what is right") {
  CHECK(llama_error_with("hidden_size", 0) == "\"hidden_size\" is 0; it must be a whole number from 1 to 16777216");
  CHECK(llama_error_with("hidden_size", -64) == "\"hidden_size\" is -64; it must be a whole number from 1 to 16777216");
  CHECK(llama_error_with("hidden_size", 64.5) == "\"hidden_size\" is 64.5; it must be a whole number from 1 to 16777216");
  CHECK(llama_error_with("hidden_size", "64") == "\"hidden_size\" is \"64\"; it must be a whole number from 1 to 16777216");
  CHECK(llama_error_with("vocab_size", std::numeric_limits<std::uint64_t>::max())
            .starts_with("\"vocab_size\" is 18446744073709551615"));
  CHECK(llama_error_with("num_hidden_layers", 1'000'000) ==
        "\"num_hidden_layers\" is 1000000; it must be a whole number from 1 to 10000");
  CHECK(llama_error_with("rms_norm_eps", -1e-5) == "\"rms_norm_eps\" is -1e-05; it must be a number above 0");
  CHECK(llama_error_with("rope_theta", 0) == "\"rope_theta\" is 0; it must be a number above 0");
  CHECK(llama_error_with("tie_word_embeddings", "yes") == "\"tie_word_embeddings\" is \"yes\"; it must be true or false");
  CHECK(llama_error_with("num_key_value_heads", 3) ==
        "\"num_key_value_heads\" is 3; it must be a divisor of num_attention_heads (8)");
  CHECK(llama_error_with("num_attention_heads", 12)
            .starts_with("\"hidden_size\" is 64; it must be a multiple of num_attention_heads (12)"));
  CHECK(llama_error_with("head_dim", 7).find("rotary embedding needs an even one") != std::string::npos);
  CHECK(llama_error_with("head_dim", 4'000'000).starts_with("\"num_attention_heads\" is 8; it must be at most 4"));
  CHECK(llama_error_with("head_dim", 2'000'000).empty());
  CHECK(llama_error_with("eos_token_id", 320) ==
        "\"eos_token_id\" is 320; it must be a token id below the vocabulary size 320");
  CHECK(llama_error_with("rope_scaling", "llama3") == "\"rope_scaling\" is \"llama3\"; it must be an object");
  CHECK(llama_error_with("rope_scaling", {{"type", "ntk"}}) ==
        "\"rope_scaling.type\" is \"ntk\"; it must be one of \"default\", \"linear\", \"dynamic\", \"llama3\", \"yarn\", "
        "\"longrope\"");
  CHECK(llama_error_with("rope_scaling", {{"type", "llama3"}, {"factor", 8}}) ==
        "key \"rope_scaling.low_freq_factor\" is missing; a Llama model needs it: add it, or copy the file again");
  CHECK(llama_error_with("rope_scaling", {{"type", "linear"}, {"factor", 0.5}}) ==
        "\"rope_scaling.factor\" is 0.5; it must be at least 1");
}

TEST_CASE("a model of absurd size is refused before anything is computed from it") {
  json config = llama_json();
  config["hidden_size"] = config["intermediate_size"] = 16'000'000;
  config["num_hidden_layers"] = 10'000;
  CHECK(input_error([&] { parse_config(config); }).find("parameters, more than the 1e+14 supported") != std::string::npos);
}

TEST_CASE("models beyond what is built are refused, not trained wrongly") {
  const std::string known =
      "known: llama (LlamaForCausalLM or LlamaForSequenceClassification), gpt2 (GPT2LMHeadModel or "
      "GPT2ForSequenceClassification), qwen2 (";
  CHECK(llama_error_with("model_type", "mamba").starts_with("unknown architecture \"mamba\"; " + known));
  const std::string of_answers = llama_error_with("architectures", {"LlamaForQuestionAnswering"});
  CHECK(of_answers.starts_with("unknown architecture \"LlamaForQuestionAnswering\"; " + known));
  CHECK(of_answers.ends_with("; only these heads are built"));
  CHECK(llama_error_with("model_type", "gpt2") ==
        "\"architectures\" is [\"LlamaForCausalLM\"]; it must be [\"GPT2LMHeadModel\"] for model_type \"gpt2\"");
  CHECK(llama_error_with("hidden_act", "gelu") == "\"hidden_act\" is \"gelu\"; it must be \"silu\"");
  CHECK(llama_error_with("attention_dropout", 1) == "\"attention_dropout\" is 1; it must be a number from 0 to below 1");
  CHECK(llama_error_with("quantization_config", {{"bits", 4}}).starts_with("\"quantization_config\" is set"));
  CHECK(llama_error_with("pretraining_tp", 2).empty());
  CHECK(llama_error_with("rope_scaling", {{"type", "yarn"}, {"factor", 4.0}, {"mrope_section", {2, 2}}}) ==
        "\"rope_scaling.mrope_section\" is not known, and may change what the model computes; remove it if it changes nothing");
  CHECK(llama_error_with("logit_temperature", 0.5) ==
        "\"logit_temperature\" is not known, and may change what the model computes; remove it if it changes nothing");
  CHECK(
      llama_error_with("partial_rotary_factor", 0.2)
          .starts_with("\"partial_rotary_factor\" is 0.2; it must be at most 1, and such that an even number of a head's 8 "));
  json twice = llama_json();
  twice["rope_theta"] = 1e4;
  twice["rope_parameters"] = {{"rope_type", "default"}, {"rope_theta", 5e5}};
  CHECK(input_error([&] { parse_config(twice); }).find("keep one") != std::string::npos);
}

TEST_CASE("a file that is not a configuration gives one line") {
  const TempFolder folder;
  const auto error = [&](const std::string& text) { return input_error([&] { parse_config(folder, text); }); };
  const std::string file = (folder.path() / "config.json").string();
  CHECK(input_error([&] { read_hf_config(folder.path()); }) ==
        file + ": cannot be read: No such file or directory; check the path");
  CHECK(error("").starts_with(file + ":1: not valid JSON: "));
  CHECK(error("{\"hidden_size\": 64,\n \"rms_norm_eps\": NaN}").starts_with(file + ":2: not valid JSON: "));
  CHECK(error("[1, 2]") == file + ": not a JSON object; correct the file, or copy it again");
  CHECK(error("{\"vocab_size\": 1, \"vocab_size\": 2}") == file + ":1: key \"vocab_size\" appears twice; keep one");
  CHECK(error(std::string(1000, '[')).find("nested deeper") != std::string::npos);
  CHECK(error("{\"rms_norm_eps\":\n 1e999}") == file + ":2: \"rms_norm_eps\": is too large a number; give a smaller one");
  CHECK(error(std::string("{}\n\0{", 5)).starts_with(file + ":2: not valid JSON: it holds a NUL byte"));
  CHECK(error(std::string(5 << 20, ' ')).find("more than") != std::string::npos);
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  CHECK(input_error([&] { read_hf_config(folder.path()); }) ==
        file + ": cannot be read: not a regular file; give a file, not a folder, a pipe or a device");
}

}  // namespace
}  // namespace pipetrain
