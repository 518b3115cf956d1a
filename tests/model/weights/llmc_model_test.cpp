// Model files of llm.c give the weights of a Hugging Face folder, and wrong ones are refused.
#include <cstring>

#include "catch.hpp"
#include "llmc_file.hpp"
#include "model/error_text.hpp"
#include "model/weights/llmc_model.hpp"
#include "model/weights/stored_model.hpp"
#include "model/weights/weights_fixture.hpp"
#include "paths.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

using Catch::Matchers::Contains;

const fs::path golden_llmc = fs::path(test_data()) / "golden/gpt2_tiny";

// Cuts off the lower half of each float.
Tensors as_bf16(Tensors tensors) {
  for (auto& [name, values] : tensors) {
    for (float& value : values) {
      std::uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      bits &= 0xffff0000U;
      std::memcpy(&value, &bits, sizeof bits);
    }
  }
  return tensors;
}

ModelConfig llmc_gpt2_config() {
  ModelConfig config = small_config(true, Family::gpt2);
  config.intermediate = 4 * config.hidden;
  return config;
}

}  // namespace

TEST_CASE("a model file of llm.c has the weights of the folder that it was made from, whole and in slices") {
  const ModelConfig config = read_hf_config(golden_llmc);
  const TempFolder folder;
  const std::int32_t version = GENERATE(3, 5);
  Tensors tensors = load_all(*hf_weights(config, golden_llmc), config);
  if (version == 5) tensors = as_bf16(tensors);
  const fs::path file = folder.write("model.bin", LlmcFileWriter(config, tensors).bytes(version, config.vocabulary + 64));

  CHECK(is_llmc_model(file));
  ModelConfig read = read_stored_config(file);
  CHECK(read.bos_id == std::nullopt);
  // Values that a file of llm.c does not contain.
  read.bos_id = config.bos_id;
  read.eos_ids = config.eos_ids;
  read.init_std = config.init_std;
  CHECK(read == config);
  CHECK(load_all(*stored_weights(config, file), config) == tensors);
  check_slices(*stored_weights(config, file), config);

  ModelConfig short_model = config;
  short_model.layers = 3;
  CHECK(load_all(*stored_weights(short_model, file), short_model).at("transformer.h.2.mlp.c_fc.weight") ==
        tensors.at("transformer.h.2.mlp.c_fc.weight"));
  const ModelConfig classes = with_new_head(read, 3);
  CHECK(load_all(*stored_weights(classes, file, {.new_head = 5}), classes).at("score.weight") ==
        load_all(*stored_weights(classes, golden_llmc, {.new_head = 5}), classes).at("score.weight"));
}

TEST_CASE("the published sizes of llm.c have GPT-2's end of text") {
  ModelConfig config = llmc_gpt2_config();
  config.vocabulary = 50257;
  config.layers = 1;
  const TempFolder folder;
  const fs::path file =
      folder.write("m.bin", LlmcFileWriter(config, load_all(*random_weights(config, 1), config)).bytes(3, 50304));
  CHECK(read_stored_config(file).eos_ids == std::vector<std::int64_t>{50256});
}

TEST_CASE("a damaged model file of llm.c is refused with what is wrong") {
  const ModelConfig config = llmc_gpt2_config();
  const TempFolder folder;
  const std::string whole = LlmcFileWriter(config, load_all(*random_weights(config, 1), config)).bytes(3, config.vocabulary);
  const auto error = [&](const std::string& bytes) {
    const fs::path file = folder.write("model.bin", bytes);
    const std::string text = input_error([&] { read_stored_config(file); });
    CHECK(text.find(file.string() + ": ") == 0);
    CHECK(input_error([&] { llmc_weights(file, nullptr); }) == text);
    return text;
  };
  const auto with = [&](std::size_t at, std::int32_t number) {
    std::string bytes = whole;
    std::memcpy(bytes.data() + at * sizeof number, &number, sizeof number);
    return error(bytes);
  };
  REQUIRE_NOTHROW(read_stored_config(folder.write("model.bin", whole)));
  CHECK_THAT(error(""), Contains("too short"));
  CHECK_THAT(error(whole.substr(0, 1023)), Contains("too short"));
  CHECK_THAT(error(whole.substr(0, whole.size() - 1)), Contains("cut short, or damaged"));
  CHECK_THAT(error(whole + "x"), Contains("cut short, or damaged"));
  CHECK_THAT(with(0, 20240801), Contains("is not a model file of llm.c"));  // Llama 3's
  CHECK_THAT(with(1, 1), Contains("is of version 1"));
  CHECK_THAT(with(1, 5), Contains("cut short, or damaged"));
  CHECK_THAT(with(2, 0), Contains("its header has 0 positions"));
  CHECK_THAT(with(3, -1), Contains("its header has -1 tokens"));
  CHECK_THAT(with(3, static_cast<std::int32_t>(config.vocabulary) + 1), Contains("rows for"));
  CHECK_THAT(with(4, 2'000'000'000), Contains("layers; damaged"));
  CHECK_THAT(with(5, 3), Contains("3 heads, which do not divide them"));
  CHECK_THAT(with(6, 2'000'000'000), Contains("channels; damaged"));
  CHECK_THAT(with(7, 2'147'483'647), Contains("cut short, or damaged"));
}

TEST_CASE("weights that other programs wrote as Python objects are refused by name, with the tool that converts them") {
  const TempFolder folder;
  const auto error = [&](const std::string& file, const char* content = "") {
    const TempFolder here;
    here.write(file, content);
    return input_error([&] { read_stored_config(here.path()); });
  };
  CHECK_THAT(error("latest_checkpointed_iteration.txt", "100"), Contains("Megatron-LM") && Contains("AutoBridge.export_ckpt"));
  CHECK_THAT(error("mp_rank_00/model_optim_rng.pt"), Contains("Megatron-LM"));
  CHECK_THAT(error("__0_0.distcp"), Contains("Megatron-LM"));
  CHECK_THAT(error("zero_to_fp32.py"), Contains("DeepSpeed") && Contains("zero_to_fp32.py"));
  CHECK_THAT(error("mp_rank_00_model_states.pt"), Contains("DeepSpeed"));
  CHECK_THAT(error("model.pth"), Contains("save_pretrained()"));
  const fs::path pickle = folder.write("model_optim_rng.pt", "");
  CHECK_THAT(input_error([&] { read_stored_config(pickle); }), Contains("Megatron-LM"));
  // A folder whose only weights are Python objects still has a configuration.
  fs::copy_file(golden_llmc / "config.json", folder.path() / "config.json");
  fs::remove(pickle);
  folder.write("pytorch_model.bin", "");
  const ModelConfig config = read_stored_config(folder.path());
  CHECK_THAT(input_error([&] { stored_weights(config, folder.path()); }), Contains("save_pretrained()"));
}

}  // namespace pipetrain
