// adapter_config.json: the keys that are understood, and those that are refused by name.
#include "model/weights/peft/peft_config.hpp"

#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "core/error.hpp"
#include "model/config/adapter_roles.hpp"
#include "model/weights/weights.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;

namespace {

ModelConfig peft_base() {
  ModelConfig config = preset_config("tiny");
  config.tied_embeddings = false;
  return config;
}

nlohmann::json peft_keys() {
  return {{"peft_type", "LORA"},
          {"task_type", "CAUSAL_LM"},
          {"r", 4},
          {"lora_alpha", 6},
          {"target_modules", {"q_proj", "up_proj"}}};
}

ModelConfig read_peft(const nlohmann::json& keys, const ModelConfig& base = peft_base()) {
  const TempFolder folder;
  folder.write("adapter_config.json", keys.dump());
  return with_peft_config(base, folder.path());
}

std::string peft_refusal(const char* key, const nlohmann::json& value) {
  nlohmann::json keys = peft_keys();
  keys[key] = value;
  try {
    read_peft(keys);
    return "none";
  } catch (const Error& error) {
    CHECK(error.kind() == ErrorKind::input);
    return error.what();
  }
}

}  // namespace

TEST_CASE("an adapter's configuration says which modules have adapters, and of which rank and scale", "[adapters]") {
  nlohmann::json keys = peft_keys();
  keys["use_rslora"] = keys["use_dora"] = true;
  keys["lora_dropout"] = 0.25;
  keys["rank_pattern"] = {{"layers.1.self_attn.q_proj", 9}};
  keys["alpha_pattern"] = {{"up_proj", 8}};
  keys["layers_to_transform"] = {2, 1};
  const Adapter adapter = read_peft(keys).adapter;
  CHECK(adapter.dropout == 0.25);
  CHECK(adapter.magnitudes);
  CHECK_FALSE(adapter_of(adapter, "model.layers.0.self_attn.q_proj", 0));
  CHECK_FALSE(adapter_of(adapter, "model.layers.1.self_attn.k_proj", 1));
  const auto first = adapter_of(adapter, "model.layers.1.self_attn.q_proj", 1);
  REQUIRE(first);
  CHECK(first->rank == 9);
  CHECK(first->scale == Approx(6.0 / 3));
  const auto second = adapter_of(adapter, "model.layers.2.mlp.up_proj", 2);
  REQUIRE(second);
  CHECK(second->rank == 4);
  CHECK(second->scale == Approx(8.0 / 2));
}

TEST_CASE("an adapter's configuration reads back as it was written", "[adapters]") {
  nlohmann::json keys = peft_keys();
  keys["modules_to_save"] = {"lm_head", "embed_tokens"};
  keys["rank_pattern"] = {{"up_proj", 2}};
  const ModelConfig config = read_peft(keys);
  CHECK(config.trained == TrainedParts{false, true, true});
  const TempFolder folder;
  folder.write("adapter_config.json", peft_config_text(config, "some/model"));
  CHECK(with_peft_config(peft_base(), folder.path()) == config);
  CHECK(nlohmann::json::parse(peft_config_text(config, "some/model")).at("base_model_name_or_path") == "some/model");
}

TEST_CASE("an adapter that trains norms names all of them", "[adapters]") {
  nlohmann::json keys = peft_keys();
  keys["modules_to_save"] = {"input_layernorm", "post_attention_layernorm", "norm"};
  CHECK(read_peft(keys).adapter.norms);
  CHECK_THAT(peft_refusal("modules_to_save", {"input_layernorm"}), Contains("modules_to_save has input_layernorm"));
}

TEST_CASE("what an adapter's configuration asks for beyond what is built is refused by name", "[adapters]") {
  CHECK_THAT(peft_refusal("peft_type", "IA3"), Contains("peft_type is \"IA3\""));
  CHECK_THAT(peft_refusal("task_type", "SEQ_CLS"), Contains("task_type is \"SEQ_CLS\""));
  CHECK_THAT(peft_refusal("bias", "all"), Contains("bias is \"all\""));
  CHECK_THAT(peft_refusal("use_qalora", true), Contains("\"use_qalora\" is true, which is not built"));
  CHECK_THAT(peft_refusal("init_lora_weights", "pissa"), Contains("init_lora_weights is \"pissa\""));
  CHECK_THAT(peft_refusal("target_modules", ".*proj"), Contains("target_modules is \".*proj\""));
  CHECK_THAT(peft_refusal("target_modules", {"q_proj", "wq"}), Contains("target_modules: wq: names no matrix"));
  CHECK(peft_refusal("target_modules", {"lm_head"}) == "none");
  CHECK_THAT(peft_refusal("layer_replication", {{0, 2}}), Contains("\"layer_replication\" is [[0,2]], which is not built"));
  CHECK_THAT(peft_refusal("alpha_pattern", {{"^model.*q_proj", 2}}), Contains("regular expression"));
  CHECK_THAT(peft_refusal("layers_to_transform", {99}), Contains("layers_to_transform has 99"));
  CHECK_THAT(peft_refusal("r", 0), Contains("r has 0"));
  CHECK_THAT(peft_refusal("some_new_key", 1), Contains("\"some_new_key\" is 1, which is not built"));
  CHECK(peft_refusal("some_new_key", nullptr) == "none");
  CHECK(peft_refusal("fan_in_fan_out", true) == "none");
  CHECK(peft_refusal("target_modules", "all-linear") == "none");
}
