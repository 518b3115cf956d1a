// The adapters of parameters that hold a matrix of all experts: PEFT's target_parameters, and the tensors of its files.
#include "model/weights/peft/peft_parameters.hpp"

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "catch.hpp"
#include "core/error.hpp"
#include "model/config/adapter_roles.hpp"
#include "model/error_text.hpp"
#include "model/weights/full_tensors.hpp"
#include "model/weights/merged_weights.hpp"
#include "model/weights/peft/peft_config.hpp"
#include "model/weights/peft_folder.hpp"
#include "model/weights/safetensors.hpp"
#include "paths.hpp"
#include "temp_folder.hpp"

using namespace pipetrain;
using Catch::Matchers::Contains;
namespace fs = std::filesystem;

namespace {

fs::path golden(const std::string& name) { return fs::path(test_data()) / "golden" / name; }

struct GoldenAdapter {
  ModelConfig config;
  fs::path model, folder;
};
GoldenAdapter golden_adapter(const std::string& name) {
  const auto trajectory = nlohmann::json::parse(std::ifstream(golden("adapters/" + name) / "trajectory.json"));
  GoldenAdapter made{{}, golden(trajectory.at("model").get<std::string>()), golden("adapters/" + name) / "adapter"};
  made.config = with_peft_config(read_hf_config(made.model), made.folder);
  return made;
}

Parameter whole_matrix_of(const NamedShape& tensor, ParameterGroup group) {
  Parameter parameter = test::whole(tensor);
  parameter.group = group;
  return parameter;
}

std::vector<float> read_tensor(const SafetensorsReader& file, const std::string& name) {
  const auto& shape = file.entries().at(name).shape;
  std::int64_t elements = 1;
  for (const std::int64_t size : shape) elements *= size;
  std::vector<float> values(static_cast<std::size_t>(elements));
  file.check(name, Shape{shape.at(0), shape.at(1)});
  file.read(name, 0, elements, values.data());
  return values;
}

std::string parameter_refusal(const std::string& model, const nlohmann::json& parameters) {
  const TempFolder folder;
  const nlohmann::json keys{{"peft_type", "LORA"}, {"r", 2}, {"target_parameters", parameters}};
  folder.write("adapter_config.json", keys.dump());
  return input_error([&] { with_peft_config(read_hf_config(golden(model)), folder.path()); });
}

}  // namespace

TEST_CASE("the adapters of experts' parameters are saved in the tensors that PEFT wrote", "[adapters][experts]") {
  const GoldenAdapter given = golden_adapter(GENERATE("mixtral_parameters", "qwen3_moe_parameters", "gpt_oss_parameters"));
  const auto weights = peft_weights(given.config, given.folder);
  const auto tensors = logical_tensors(given.config);
  const TempFolder folder;
  const auto fill = [&](std::size_t i, float* out) {
    const auto values = test::load(*weights, whole_matrix_of(tensors[i], ParameterGroup::adapter));
    std::copy(values.begin(), values.end(), out);
  };
  save_peft_folder(given.config, folder.path() / "saved", "", fill, {});
  CHECK(with_peft_config(read_hf_config(given.model), folder.path() / "saved") == given.config);
  const SafetensorsReader theirs(given.folder / "adapter_model.safetensors"),
      ours(folder.path() / "saved/adapter_model.safetensors");
  REQUIRE(ours.entries().size() == theirs.entries().size());
  for (const auto& [name, entry] : theirs.entries()) {
    INFO(name);
    REQUIRE(ours.entries().at(name).shape == entry.shape);
    CHECK(read_tensor(ours, name) == read_tensor(theirs, name));
  }
}

TEST_CASE("an adapter that gate and up share is added to the rows of each", "[adapters][experts]") {
  const GoldenAdapter given = golden_adapter("gpt_oss_parameters");
  const std::shared_ptr<const WeightSource> base = hf_weights(read_hf_config(given.model), given.model);
  const auto merged = merged_weights(given.config, base, peft_weights(given.config, given.folder));
  const SafetensorsReader file(given.folder / "adapter_model.safetensors");
  const std::string wrapped = "base_model.model.model.layers.1.mlp.experts.base_layer.lora_";
  const auto first = read_tensor(file, wrapped + "A.weight"), second = read_tensor(file, wrapped + "B.weight");
  const std::int64_t experts = given.config.experts.count, inner = given.config.experts.intermediate;
  const std::int64_t inputs = given.config.hidden, rank = 2, expert = 3;
  for (const bool is_up : {false, true}) {
    const std::string name = std::string("model.layers.1.mlp.experts.3.") + (is_up ? "up_proj.weight" : "gate_proj.weight");
    const auto before = test::load(*base, whole_matrix_of({name, {inner, inputs}}, ParameterGroup::frozen));
    const auto after = test::load(*merged, whole_matrix_of({name, {inner, inputs}}, ParameterGroup::frozen));
    for (std::int64_t row = 0; row < inner; ++row) {
      for (std::int64_t column = 0; column < inputs; ++column) {
        double product = 0;  // the file has the rows of gate and up in turns, and the experts' columns too
        for (std::int64_t r = 0; r < rank; ++r)
          product += double(second[std::size_t(((2 * row + is_up) * rank + r) * experts + expert)]) *
                     first[std::size_t((expert * rank + r) * inputs + column)];
        const auto at = std::size_t(row * inputs + column);
        CHECK(after[at] == Approx(before[at] + 7.0 / 2 * product).margin(1e-6));
      }
    }
  }
}

TEST_CASE("parameters that cannot have adapters are refused by name", "[adapters][experts]") {
  CHECK(parameter_refusal("gpt_oss_tiny", {"mlp.experts.down_proj"}).empty());
  CHECK_THAT(parameter_refusal("gpt_oss_tiny", {"mlp.router.weight"}),
             Contains("target_parameters: mlp.router.weight: names no parameter of the model"));
  CHECK_THAT(parameter_refusal("gpt_oss_tiny", {"9.mlp.experts.down_proj"}), Contains("9.mlp.experts.down_proj: names no"));
  CHECK_THAT(parameter_refusal("llama3_tiny", {"experts.down_proj"}), Contains("of a model with routed experts"));
  CHECK_THAT(parameter_refusal("gpt_oss_tiny", 3), Contains("target_parameters is 3, and must be a list of names"));
}
