// Tensors of a folder that its model would leave unread, or could read from two files.
#include <limits>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "model/error_text.hpp"
#include "model/weights/weights_fixture.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

using Catch::Matchers::Contains;

std::string weights_error(const ModelConfig& config, const fs::path& folder, const LayerCut& cut = {}) {
  return input_error([&] { hf_weights(config, folder, {.cut = cut}); });
}

TEST_CASE("layers beyond those of config.json are refused by the first of their tensors, unless they are cut off on purpose") {
  const Family family = GENERATE(Family::llama, Family::gpt2);
  const ModelConfig whole_model = small_config(false, family);
  ModelConfig config = whole_model;
  config.layers = 2;
  const TempFolder folder;
  const fs::path file = folder.path() / "model.safetensors";
  write_weights(file, whole_model, tensor_names(whole_model));
  const std::string first = family == Family::llama ? "tensor model.layers.2.input_layernorm.weight and 8 more"
                                                    : "tensor transformer.h.2.attn.c_attn.bias and 11 more";
  CHECK(weights_error(config, folder.path()) ==
        file.string() + ": " + first +
            " are of layers beyond the 2 that config.json gives; correct config.json, or give the weights and the config.json "
            "of one model");
  CHECK(weights_error(config, folder.path(), {.setting = "layers"}) ==
        "layers 2: is not given, and " + file.string() + " has " + first +
            " of layers beyond the 2 that config.json gives; give it to keep the first 2 alone, or correct config.json");
  CHECK(weights_error(config, folder.path(), {.wanted = true}).empty());
  CHECK(load_all(*hf_weights(config, folder.path(), {.cut = {.wanted = true}}), config).size() == tensor_names(config).size());
}

TEST_CASE("tensors of no layer of the model are counted") {
  const ModelConfig config = small_config();
  const TempFolder folder;
  std::vector<std::string> names = tensor_names(config);
  for (const char* name : {"model.layers.1.self_attn.q_norm.weight", "model.layers.0.self_attn.q_norm.weight"})
    names.push_back(name);
  write_weights(folder.path() / "model.safetensors", config, names);
  const std::string expected = "tensor model.layers.0.self_attn.q_norm.weight and 1 more are not part of the model";
  CHECK_THAT(weights_error(config, folder.path()), Contains(expected));
  CHECK_THAT(weights_error(config, folder.path(), {.wanted = true}), Contains(expected));
}

TEST_CASE("only what a family's old files keep of its configuration is passed over") {
  const ModelConfig llama = small_config(), gpt2 = small_config(true, Family::gpt2);
  const auto error_with = [](const ModelConfig& config, const char* name) {
    const TempFolder folder;
    std::vector<std::string> names = tensor_names(config);
    names.emplace_back(name);
    write_weights(folder.path() / "model.safetensors", config, names);
    return weights_error(config, folder.path());
  };
  CHECK(error_with(llama, "model.layers.0.self_attn.rotary_emb.inv_freq").empty());
  CHECK(error_with(gpt2, "transformer.h.1.attn.bias").empty());
  CHECK(error_with(gpt2, "transformer.h.1.attn.masked_bias").empty());
  CHECK_THAT(error_with(llama, "model.layers.0.attn.bias"), Contains("tensor model.layers.0.attn.bias is not part of"));
  CHECK_THAT(error_with(gpt2, "transformer.h.0.rotary_emb.inv_freq"), Contains("is not part of"));
}

TEST_CASE("a tensor in two shards of an index is refused with the names of both") {
  const ModelConfig config = small_config();
  const TempFolder folder;
  const std::vector<std::string> names = tensor_names(config);
  const auto middle = names.begin() + static_cast<std::ptrdiff_t>(names.size() / 2);
  write_weights(folder.path() / "model-1.safetensors", config, {names.begin(), middle + 1});
  write_weights(folder.path() / "model-2.safetensors", config, {middle, names.end()});
  const char* const holder = GENERATE("model-1.safetensors", "model-2.safetensors");
  nlohmann::json map;
  for (auto name = names.begin(); name != names.end(); ++name)
    map[*name] = name == middle ? holder : name < middle ? "model-1.safetensors" : "model-2.safetensors";
  const fs::path index = folder.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  CHECK(weights_error(config, folder.path()) ==
        index.string() + ": tensor " + *middle +
            " is both in model-1.safetensors and in model-2.safetensors; get the shards of one model");
}

TEST_CASE("an index may lack tensors that are recomputed") {
  const ModelConfig config = small_config();
  const TempFolder folder;
  std::vector<std::string> names = tensor_names(config);
  nlohmann::json map;
  for (const std::string& name : names) map[name] = "a.safetensors";
  folder.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
  names.push_back("model.layers.0.self_attn.rotary_emb.inv_freq");
  write_weights(folder.path() / "a.safetensors", config, names);
  CHECK(weights_error(config, folder.path()).empty());
}

TEST_CASE("weights that are not finite are refused with their tensor and file when they are loaded") {
  const ModelConfig config = small_config();
  const TempFolder folder;
  const fs::path file = folder.path() / "model.safetensors";
  const float bad = GENERATE(std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::infinity());
  const auto tensors = logical_tensors(config);
  const auto source = random_weights(config, 1);
  const std::string name = "model.layers.1.mlp.up_proj.weight";
  write_tensors(
      file, tensors,
      [&](std::size_t i, float* out) {
        source->load(whole(config, tensors[i]), out);
        if (tensors[i].name == name) out[5] = bad;
      },
      GENERATE(SavedType::fp32, SavedType::bf16));
  const auto weights = hf_weights(config, folder.path());
  const std::string error = input_error([&] { load_all(*weights, config); });
  CHECK(error == file.string() + ": tensor " + name + " holds " + (bad != bad ? "NaN" : "infinite values") +
                     ": the file is damaged, or of a run that diverged; copy it again, or take other weights");
}

}  // namespace
}  // namespace pipetrain
