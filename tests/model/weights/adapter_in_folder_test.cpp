// Adapters of PEFT, alone and next to a model.
#include "catch.hpp"
#include "model/error_text.hpp"
#include "model/weights/stored_model.hpp"
#include "model/weights/weights_fixture.hpp"
#include "temp_folder.hpp"

namespace pipetrain {
namespace {

using Catch::Matchers::Contains;

TEST_CASE("an adapter next to a model's weights is refused by its name before the weights are read without it") {
  const ModelConfig config = small_config(GENERATE(false, true));
  const TempFolder folder;
  save(config, folder.path() / "model");
  std::vector<std::string> notes;
  REQUIRE_NOTHROW(stored_weights(config, folder.path() / "model"));
  const auto [name, text, kind] = GENERATE(table<std::string, std::string, std::string>(
      {{"adapter_config.json", R"({"peft_type": "LORA"})", "a LoRA adapter"},
       {"adapter_config.json", R"({"peft_type": "IA3"})", "an adapter of type IA3"},
       {"adapter_config.json", "{", "an adapter"},
       {"adapter_model.safetensors", "x", "an adapter"},
       {"adapter_model.bin", "x", "an adapter"}}));
  folder.write("model/" + name, text);
  const std::string begin = (folder.path() / "model").string() + ": has " + kind + " (" + name + ") next to the model";
  CHECK_THAT(input_error([&] { stored_weights(config, folder.path() / "model"); }),
             Catch::Matchers::StartsWith(begin) && Contains("give its base as the model and this folder as the adapter"));
  CHECK_THAT(input_error([&] { with_head_of_weights(config, folder.path() / "model", notes); }),
             Catch::Matchers::StartsWith(begin));
}

TEST_CASE("an adapter's own folder is called one") {
  const TempFolder folder;
  folder.write("adapter_config.json", R"({"peft_type": "LORA", "base_model_name_or_path": "m"})");
  folder.write("adapter_model.safetensors", "x");
  CHECK_THAT(
      input_error([&] { read_stored_config(folder.path()); }),
      Catch::Matchers::StartsWith(folder.path().string() +
                                  ": is a LoRA adapter (adapter_config.json), not a whole model; give its base as the model"));
}

}  // namespace
}  // namespace pipetrain
